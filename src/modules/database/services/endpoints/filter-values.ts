/**
 * From the query tree of an endpoint and the values of a request to a condition. A comparison with an
 * optional input that is absent falls away; that never lets more records through than its author said.
 */
import {
  all,
  any,
  type Comparison,
  type Condition,
  not,
  type Test,
} from '../../../../data/conditions/condition.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../../data/schema/language/field.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import { comparisonCode, isLeaf, type QueryLeaf, type QueryTree } from './definition.ts';

/** A value for a comparison, and where it stands in the request. `undefined`: an optional input that is absent. */
type ReadValue = (
  leaf: QueryLeaf,
  place: string,
) => { readonly value: unknown; readonly place: string } | undefined;

interface BuildOptions {
  readonly read: ReadValue;
  readonly matchAllWhenEmpty: boolean;
}

interface BuiltFilter {
  readonly condition: Condition;
  /** Comparisons that did not fall away. */
  readonly live: number;
}

export function buildFilter(tree: QueryTree | null, options: BuildOptions): BuiltFilter {
  const state = { live: 0 };
  const condition = tree ? build(tree, 'query', { ...options, state }) : undefined;
  return { condition: condition ?? all(), live: state.live };
}

interface Building extends BuildOptions {
  readonly state: { live: number };
}

/** `undefined`: nothing is left of this part. */
function build(tree: QueryTree, place: string, building: Building): Condition | undefined {
  if (isLeaf(tree)) {
    const found = building.read(tree, place);
    if (!found) return undefined;
    building.state.live++;
    return leafCondition(tree, found.value, found.place);
  }
  const [key, children] = 'AND' in tree ? (['AND', tree.AND] as const) : (['OR', tree.OR] as const);
  const parts = children.flatMap(
    (child, index) => build(child, `${place}.${key}.${index}`, building) ?? [],
  );
  if (parts.length > 0) return key === 'AND' ? all(...parts) : any(...parts);
  return key === 'AND' || building.matchAllWhenEmpty ? undefined : any();
}

const comparisons: ReadonlyMap<number, Comparison> = new Map([
  [comparisonCode.greater, 'greater'],
  [comparisonCode.greaterOrEqual, 'greaterOrEqual'],
  [comparisonCode.less, 'less'],
  [comparisonCode.lessOrEqual, 'lessOrEqual'],
]);

const negated: ReadonlySet<number> = new Set([comparisonCode.notEqual, comparisonCode.notIn]);

/** One comparison with its value. */
export function leafCondition(leaf: QueryLeaf, value: unknown, place: string): Condition {
  const condition: Condition = {
    kind: 'test',
    path: leaf.schemaField,
    test: testOf(leaf, value),
    place,
  };
  return negated.has(leaf.operation) ? not(condition) : condition;
}

function testOf({ operation, comparisonField }: QueryLeaf, value: unknown): Test {
  const { type, like, caseSensitiveLike, search } = comparisonField;
  const comparison = comparisons.get(operation) ?? 'equal';
  if (type === 'Schema') return { kind: 'field', comparison, other: String(value) };
  // What is no text is left to the check of types, which says so.
  if (like && typeof value === 'string')
    return { kind: 'like', pieces: ['', value, ''], ignoreCase: !caseSensitiveLike };
  if (search && typeof value === 'string') return { kind: 'search', words: value };
  if (operation === comparisonCode.in || operation === comparisonCode.notIn)
    return { kind: 'in', values: Array.isArray(value) ? value : [value] };
  return { kind: comparison, value };
}

/* Values of the request's context that endpoints may use: the signed-in user, as `user.<field>`. */

/** The schema that the record of a user has. */
const USER_SCHEMA = 'User';
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
