/**
 * Changes that lead records elsewhere: through a field by which `create` of their type says who may create. What may not
 * be created there may not be moved there, so `create` is asked of such records as they are after the change, inside of
 * its transaction.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import type { Placement, RowPredicate } from '../../../kernel/permissions.ts';
import { isTrusted } from '../access/operation-access.ts';
import { createParameters } from '../sql/prepared-statements.ts';
import { idsTest } from '../sql/row-id.ts';
import type { MovedRows } from './placement-text.ts';
import { runWrite, type WriteContext } from './write-context.ts';

/** A change that can lead records elsewhere. */
export interface PlacedChange {
  /** Fields whose values say where a record is. */
  readonly compared: readonly string[];
  readonly placement: Placement;
}

/** `undefined`: where the records are is not touched, or nobody asks. */
export async function placedChange(
  { schema, caller, dependencies }: WriteContext,
  columns: readonly string[],
): Promise<PlacedChange | undefined> {
  if (isTrusted(caller) || !schema.modelOptions.conduit.authorization.enabled) return undefined;
  const links = columns.filter((name) => schema.relations.has(name));
  if (links.length === 0) return undefined;
  const placement = await dependencies.permissions.engine?.placement(caller, schema.name);
  const compared = links.filter((name) => placement?.fields.has(name));
  return placement && compared.length > 0 ? { compared, placement } : undefined;
}

/** Throws 403 when the caller may not create one of the rows where it is now. Inside of the transaction of the change. */
export async function requirePlacement(
  context: WriteContext,
  { placement }: PlacedChange,
  rows: readonly MovedRows[],
  database?: Queryable,
): Promise<void> {
  const ids = [...new Set(rows.flatMap(({ moved }) => moved ?? []))];
  if (ids.length > 0)
    await requireHolds(context, { ids, predicate: await placement.predicate(), database });
}

/** Records that are about to be created. */
interface Created<T> {
  /** Their values by field. */
  readonly records: readonly Readonly<Record<string, unknown>>[];
  insert(): Promise<T>;
  idsOf(inserted: T): readonly string[];
}

/** Creates records if the caller may create them as they are. Throws 403. */
export async function createAdmitted<T>(
  context: WriteContext,
  { records, insert, idsOf }: Created<T>,
): Promise<T> {
  const rule = context.ownership?.rule;
  if (!rule || (await rule.before?.(records))) return insert();
  return context.dependencies.database.transaction(async () => {
    const inserted = await insert();
    await requireHolds(context, { ids: idsOf(inserted), predicate: await rule.after() });
    return inserted;
  });
}

interface Asked {
  readonly ids: readonly string[];
  readonly predicate: RowPredicate;
  readonly database?: Queryable | undefined;
}

/** Throws 403 unless all of the rows fulfil `create`. */
async function requireHolds(
  context: WriteContext,
  { ids, predicate, database }: Asked,
): Promise<void> {
  const { rows, name } = context.schema;
  const parameters = createParameters([ids]);
  const allowed = predicate.compile('t0."_id"', parameters.next, 'row', 't0');
  const text = `select 1 from ${rows} t0 where ${idsTest(context.schema, 't0', '$1')} and (${allowed}) is not true limit 1`;
  const refused = await runWrite(context, { text, values: parameters.values }, database);
  if (refused.length === 0) return;
  throw errors.FORBIDDEN({
    message: `The record may not be put there: the action "create" of ${name} does not allow it`,
  });
}
