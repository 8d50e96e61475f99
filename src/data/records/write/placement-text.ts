/** What a changing statement tells about references: which rows it led elsewhere (placement.ts), and which relations changed. */
import { identifier } from '../../../kernel/database/sql.ts';
import type { PermissionPort, RecordTuples } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';

/** What a statement that changes the rows `o` to `r` (changed-rows.ts, `compare`) answers about them. */
export interface MovedRows {
  readonly moved?: readonly string[] | null;
}

/** `moved`: the ids of the rows that are elsewhere now, as a column of the answer. A list in another order leads to the same. */
export const movedColumn = (
  { relations }: Pick<CompiledSchema, 'relations'>,
  compared: readonly string[],
): string => {
  const differs = compared.map((name) => {
    const [before, now] = ['o', 'r'].map((row) => `${row}.${identifier(name)}`);
    if (!relations.get(name)?.many) return `${before} is distinct from ${now}`;
    const [held, holds] = [before, now].map((list) => `coalesce(${list}, '{}')`);
    return `not (${held} @> ${holds} and ${held} <@ ${holds})`;
  });
  return `(select array_agg(r."_id"::text) from r join o on o."_id" = r."_id" where ${differs.join(' or ')}) as moved`;
};

/** Fields of a write that may be relations of its rows: their changes are events of the permission module. */
export interface EventFields {
  readonly tuples: RecordTuples;
  readonly fields: readonly string[];
}

/**
 * `undefined`: changes of this schema's fields have no such events, or the write touches no reference. A definition may
 * take relations from fields of records about which nobody is asked: other records hang on these. Few definitions do, and
 * the part costs PostgreSQL half of a create, so that it is left out where this node knows of no such field.
 */
export function eventFieldsOf(
  { name: schema, modelOptions, mapping, relations }: CompiledSchema,
  permissions: Pick<PermissionPort, 'tuples' | 'takesFields'>,
  columns: readonly string[],
): EventFields | undefined {
  const { tuples } = permissions;
  if (!tuples || mapping) return undefined;
  const asksCallers = modelOptions.conduit.authorization.enabled;
  if (!asksCallers && !permissions.takesFields(schema)) return undefined;
  const fields = columns.filter((name) => relations.has(name));
  return fields.length > 0 ? { tuples, fields } : undefined;
}

/** What statements of the same kind differ in for that: part of the key under which they are kept. */
export const toldShape = (eventFields: EventFields | undefined): string =>
  eventFields ? 'told' : '';

/** Further parts of a `with` whose rows are `r`, and were `o` where they were there before. `$1` is the actor. */
export const eventText = (
  { name }: CompiledSchema,
  eventFields: EventFields | undefined,
  kind: 'new' | 'changed',
): string =>
  (
    eventFields?.tuples.tell({
      rows: 'r',
      schema: name,
      actor: '$1',
      old: kind === 'new' ? undefined : { rows: 'o', fields: eventFields.fields },
    }) ?? []
  )
    .map((part) => `, ${part}`)
    .join('');

/** Fields of which the statement must know the old values. */
export const comparedFields = (
  compare: readonly string[] | undefined,
  eventFields: EventFields | undefined,
): readonly string[] => [...new Set([...(compare ?? []), ...(eventFields?.fields ?? [])])];
