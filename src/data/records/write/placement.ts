/**
 * Changes that lead records elsewhere: through a field by which `create` of their type says who may create. What may not
 * be created there may not be moved there, so `create` is asked of such records as they are after the change, inside of
 * its transaction.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import type { Placement, RowPredicate } from '../../../kernel/permissions.ts';
import { isTrusted } from '../access/operation-access.ts';
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
  { database, placeOf }: PlacementOptions = {},
): Promise<void> {
  const ids = [...new Set(rows.flatMap(({ moved }) => moved ?? []))];
  if (ids.length > 0)
    await requireHolds(context, { ids, predicate: await placement.predicate(), database, placeOf });
}

interface PlacementOptions {
  readonly database?: Queryable | undefined;
  /** Of many records: where one stands in the request, such as `docs.3`. */
  readonly placeOf?: ((id: string) => string) | undefined;
}

/** Records that are about to be created. */
interface Created<T> {
  /** Their values by field. */
  readonly records: readonly Readonly<Record<string, unknown>>[];
  insert(): Promise<T>;
  /** In the order of the records. */
  idsOf(inserted: T): readonly string[];
  /** Of many records: where one stands in the request, such as `docs.3`. */
  readonly placeOf?: (index: number) => string;
}

/** Creates records if the caller may create them as they are. Throws 403. */
export async function createAdmitted<T>(
  context: WriteContext,
  { records, insert, idsOf, placeOf }: Created<T>,
): Promise<T> {
  const rule = context.ownership?.rule;
  if (!rule || (await rule.before?.(records, placeOf))) return insert();
  return context.dependencies.database.transaction(async () => {
    const inserted = await insert();
    const ids = idsOf(inserted);
    await requireHolds(context, {
      ...{ ids, predicate: await rule.after() },
      placeOf: placeOf && ((id) => placeOf(ids.indexOf(id))),
    });
    return inserted;
  });
}

interface Asked extends PlacementOptions {
  readonly ids: readonly string[];
  readonly predicate: RowPredicate;
}

/** Records that an answer names. */
const MAX_NAMED = 20;

/** Throws 403 unless all of the rows fulfil `create`. */
async function requireHolds(
  context: WriteContext,
  { ids, predicate, database, placeOf }: Asked,
): Promise<void> {
  const { schema, dependencies } = context;
  const { rows, name } = schema;
  const limit = placeOf ? MAX_NAMED : 1;
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `placed|${limit}|${predicate.shape}`,
      values: [ids],
      dynamic: true,
      identity: predicate.identity,
    },
    ({ next }) => {
      const allowed = predicate.compile('t0."_id"', next, 'row', 't0');
      return `select t0."_id"::text as id from ${rows} t0 where ${idsTest(schema, 't0', '$1')} and (${allowed}) is not true limit ${limit}`;
    },
  );
  const refused = await runWrite<{ id: string }>(context, statement, database);
  if (refused.length === 0) return;
  const message = `The record may not be put there: the action "create" of ${name} does not allow it`;
  const problems =
    placeOf && refused.map(({ id }) => ({ path: placeOf(id), rule: 'access', message }));
  throw errors.FORBIDDEN({ message, ...(problems && { errors: problems }) });
}
