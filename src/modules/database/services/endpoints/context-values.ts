/** Values of the request's context that endpoints may use: the signed-in user, as `user.<field>`. */

import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../../data/schema/language/field.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';

/** The schema that the record of a user has. */
const USER_SCHEMA = 'User';
const PREFIX = 'user.';

const idField: Field = { kind: 'objectId', required: true, unique: true, hidden: false, indexed: false };

/** The type of a context value; `undefined` when there is none of that name. Hidden fields are not there. */
export function contextField(path: string, schemas: SchemaRegistry): Field | undefined {
  if (!path.startsWith(PREFIX)) return undefined;
  const [name = '', ...rest] = path.slice(PREFIX.length).split('.');
  if (name === '_id' && rest.length === 0) return idField;
  return fieldAt(schemas.get(USER_SCHEMA), name, rest);
}

function fieldAt(schema: CompiledSchema | undefined, name: string, rest: readonly string[]): Field | undefined {
  let field = schema?.tree.fields.get(name);
  for (const key of rest) field = field?.kind === 'object' && !field.hidden ? field.fields.get(key) : undefined;
  return field?.hidden ? undefined : field;
}

/** Reads a context value; `undefined`: the request has none. */
export type ContextReader = (path: string) => unknown;

/** Reads the record of the user only when more than its id is asked for. */
export async function readContext(records: RecordStore, caller: Caller, paths: readonly string[]): Promise<ContextReader> {
  if (paths.length === 0 || caller.kind !== 'user') return () => undefined;
  const asksMore = paths.some((path) => path !== `${PREFIX}_id`);
  const record: unknown = asksMore ? await userRecord(records, caller.userId) : { _id: caller.userId };
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
