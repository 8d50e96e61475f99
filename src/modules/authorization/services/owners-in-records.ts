/** What records say about their owners, where relations are written and deleted. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { isId } from '../../../kernel/ids.ts';
import type { SubjectRef } from '../model/grammar.ts';
import type { FieldRelation, Model } from '../model/model.ts';
import { formatTuple, type Tuple } from '../model/tuple.ts';
import { clearOwners, setOwners } from '../owner-columns.ts';
import type { StoredTuple, TupleFilter } from '../queries.ts';
import type { RelationOfObjects } from '../tuple-removals.ts';
import { fieldTuples, mayMatch, type RecordFilter, recordTuplesOf } from './relation-list.ts';

/** Relations that columns say something about, beside stored tuples. */
const columnsOf = (model: Model): readonly FieldRelation[] =>
  model.recordRelations.filter(({ field }) => field.typeColumn !== undefined);

/** The tuples that may stand in columns, by these. */
const byColumn = (
  model: Model,
  tuples: readonly Tuple[],
): readonly (readonly [FieldRelation, readonly Tuple[]])[] =>
  tuples.length === 0
    ? []
    : columnsOf(model).flatMap((column) => {
        const of = tuples.filter(
          ({ resource, relation, subject }) =>
            resource.type === column.type &&
            relation === column.relation &&
            subject.relation === '',
        );
        return of.length === 0 ? [] : [[column, of] as const];
      });

/** Whether some of these may stand in columns. */
export const hasColumns = (model: Model, tuples: readonly Tuple[]): boolean =>
  byColumn(model, tuples).length > 0;

/** Those that are stored in a column of their record already, by their text. */
export async function tuplesInRecords(
  database: Queryable,
  model: Model,
  tuples: readonly Tuple[],
): Promise<ReadonlyMap<string, StoredTuple>> {
  const said = new Map<string, StoredTuple>();
  for (const [column, of] of byColumn(model, tuples))
    for (const found of await recordTuplesOf(database, column, { tuples: of }, of.length))
      said.set(formatTuple(found), found);
  return said;
}

const isRowId = (id: string): boolean => isId(id) && id === id.toLowerCase();

/**
 * Writes tuples into the columns of their records where that is possible: where the record exists and its column is empty.
 * Answers the tuples that records hold afterwards, by their text. The others are left to be stored as tuples.
 */
export async function writeInRecords(
  database: Queryable,
  model: Model,
  tuples: readonly Tuple[],
  actor: string,
): Promise<ReadonlyMap<string, StoredTuple>> {
  const writable = tuples.filter(
    ({ subject, resource }) => isRowId(subject.id) && isRowId(resource.id),
  );
  for (const [{ type }, of] of byColumn(model, writable)) {
    const first = new Map(of.toReversed().map((tuple) => [tuple.resource.id, tuple.subject]));
    const owners = [...first].map(([record, subject]) => ({ record, ...subject }));
    await setOwners(database, type, owners, actor);
  }
  return tuplesInRecords(database, model, writable);
}

/** Clears these tuples from the columns of records; answers how many. Without an actor there is no event. */
export async function clearExactly(
  database: Queryable,
  model: Model,
  tuples: readonly Tuple[],
  actor?: string,
): Promise<number> {
  let count = 0;
  for (const [column, of] of byColumn(model, tuples))
    count += await clear(database, { column, filter: { tuples: of }, actor });
  return count;
}

/** The same for all that match. Stored ones go first: what moves into its record meanwhile is found there. */
export async function clearMatching(
  database: Queryable,
  model: Model,
  filter: TupleFilter,
  actor: string,
): Promise<number> {
  let count = 0;
  for (const column of columnsOf(model))
    if (mayMatch(column, filter)) count += await clear(database, { column, filter, actor });
  return count;
}

/** Takes a relation out of some records, except one subject of it; answers how many said another. */
export async function clearRelation(
  database: Queryable,
  model: Model,
  { type, ids, relation, except }: RelationOfObjects,
  actor: string,
): Promise<number> {
  const column = columnsOf(model).find((one) => one.type === type && one.relation === relation);
  return column ? clear(database, { column, filter: { ids }, actor, except }) : 0;
}

/** Records that one statement frees of their owner. */
const PAGE = 1_000;

/** Takes a page of what records say about an owner; false when none is left. */
export async function clearOwned(
  database: Queryable,
  model: Model,
  subject: SubjectRef,
  actor: string,
): Promise<boolean> {
  for (const column of columnsOf(model))
    if ((await clear(database, { column, filter: { subject }, actor, limit: PAGE })) > 0)
      return true;
  return false;
}

/** Whether some record says that the subject owns it. */
export async function isOwner(
  database: Queryable,
  model: Model,
  subject: SubjectRef,
): Promise<boolean> {
  for (const column of columnsOf(model)) {
    const values: unknown[] = [];
    const owned = fieldTuples(column, { subject }, (value) => `$${values.push(value)}`);
    const { count } = await database.query({
      text: `select 1 from (${owned}) t limit 1`,
      values,
    });
    if (count > 0) return true;
  }
  return false;
}

interface Clearing {
  readonly column: FieldRelation;
  readonly filter: RecordFilter;
  readonly actor: string | undefined;
  readonly limit?: number;
  /** This subject stays. */
  readonly except?: SubjectRef;
}

async function clear(
  database: Queryable,
  { column, filter, actor, limit, except }: Clearing,
): Promise<number> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const all = fieldTuples(column, filter, next);
  const others = except
    ? ` where not (t.subject_type = ${next(except.type)} and t.subject_id = ${next(except.id)})`
    : '';
  const found = `select * from (${all}) t${others}${limit === undefined ? '' : ` limit ${limit}`}`;
  return clearOwners(database, column.type, found, {
    values,
    ...(actor !== undefined && { actor }),
  });
}
