/**
 * From the condition of an endpoint and the values of a request to a condition. A comparison with an
 * optional input that is absent falls away; that never lets more records through than its author said.
 */
import {
  all,
  any,
  type Condition,
  type Leaf,
  literal,
  not,
  type Operand,
} from '../../../../data/conditions/condition.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../../data/schema/language/field.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import type { EndpointCondition, EndpointLeaf } from './parse-tree.ts';

/** A value for a comparison, and where it stands in the request. `undefined`: an optional input that is absent. */
type ReadValue = (
  operand: Operand,
  place: string,
) => { readonly value: unknown; readonly place: string } | undefined;

interface BuildOptions {
  readonly read: ReadValue;
  /** What an `OR` means of which no branch is left: everything, or nothing. */
  readonly matchAllWhenEmpty: boolean;
}

interface BuiltFilter {
  readonly condition: Condition;
  /** Comparisons that did not fall away. */
  readonly live: number;
}

export function buildFilter(
  template: EndpointCondition | undefined,
  options: BuildOptions,
): BuiltFilter {
  const state = { live: 0 };
  const condition = template && build(template, { ...options, state });
  return { condition: condition ?? all(), live: state.live };
}

interface Building extends BuildOptions {
  readonly state: { live: number };
}

/** `undefined`: nothing is left of this part. */
function build(template: EndpointCondition, building: Building): Condition | undefined {
  if (template.kind === 'not') {
    const part = build(template.of, building);
    return part && not(part);
  }
  if (template.kind === 'test') {
    const { test, place } = template;
    const found = 'right' in test ? building.read(test.right, place) : { value: undefined, place };
    if (!found) return undefined;
    building.state.live++;
    return filled(template, found.value, found.place);
  }
  const parts = template.of.flatMap((part) => build(part, building) ?? []);
  if (parts.length > 0) return { kind: template.kind, of: parts };
  return template.kind === 'all' || building.matchAllWhenEmpty ? undefined : any();
}

/** A test with the value that its operand has. A single value for a list is a list of one. */
export function filled({ left, test }: EndpointLeaf, value: unknown, place: string): Leaf {
  if (!('right' in test)) return { kind: 'test', left, test, place };
  if (test.right.kind === 'field')
    return { kind: 'test', left, test: { ...test, right: test.right }, place };
  const right = literal(test.kind === 'in' && !Array.isArray(value) ? [value] : value);
  return { kind: 'test', left, test: { ...test, right }, place };
}

/* Values of the request's context that endpoints may use: the signed-in user, as `user.<field>`. */

/** The schema that the record of a user has. */
export const USER_SCHEMA = 'User';
const PREFIX = 'user.';

const idField: Field = {
  kind: 'objectId',
  required: true,
  unique: true,
  hidden: false,
  indexed: false,
};

/** The type of a context value; `undefined` when there is none of that name. Hidden fields are not there. */
export function contextField(path: string, schemas: SchemaRegistry): Field | undefined {
  if (!path.startsWith(PREFIX)) return undefined;
  const [name = '', ...rest] = path.slice(PREFIX.length).split('.');
  if (name === '_id' && rest.length === 0) return idField;
  return fieldAt(schemas.get(USER_SCHEMA), name, rest);
}

function fieldAt(
  schema: CompiledSchema | undefined,
  name: string,
  rest: readonly string[],
): Field | undefined {
  let field = schema?.tree.fields.get(name);
  for (const key of rest)
    field = field?.kind === 'object' && !field.hidden ? field.fields.get(key) : undefined;
  return field?.hidden ? undefined : field;
}

/** Reads a context value; `undefined`: the request has none. */
export type ContextReader = (path: string) => unknown;

/** Reads the record of the user only when more than its id is asked for. */
export async function readContext(
  records: RecordStore,
  caller: Caller,
  paths: readonly string[],
): Promise<ContextReader> {
  if (paths.length === 0 || caller.kind !== 'user') return () => undefined;
  const asksMore = paths.some((path) => path !== `${PREFIX}_id`);
  const record: unknown = asksMore
    ? await userRecord(records, caller.userId)
    : { _id: caller.userId };
  return (path) => path.slice(PREFIX.length).split('.').reduce(ownValue, record);
}

async function userRecord(records: RecordStore, userId: string): Promise<unknown> {
  const { json } = await records.get(system('custom endpoint'), USER_SCHEMA, userId);
  return JSON.parse(json);
}

function ownValue(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  const found = (value as Record<string, unknown>)[key];
  return found === null ? undefined : found;
}
