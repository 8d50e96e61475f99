/** SQL that deletes stored tuples, with the events in the same statement, and what was noted about changes. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import type { Tuple } from './model/tuple.ts';
import { conditionOf, type Next, type TupleFilter, type TupleKind, tupleKey } from './queries.ts';
import { resourceText, subjectText, tupleEvents } from './tuple-sql.ts';

/** Deletes by id; answers whether it was there. */
export async function deleteTuple(
  database: Queryable,
  kind: TupleKind,
  id: string,
  actor: string,
): Promise<boolean> {
  return (
    (await runDelete(
      database,
      (next) => `t.id = ${next(id)} and ${conditionOf(kind, {}, next)}`,
      actor,
    )) > 0
  );
}

/** Deletes all that match; answers how many. */
export async function deleteTuples(
  database: Queryable,
  kind: TupleKind,
  filter: TupleFilter,
  actor: string,
): Promise<number> {
  return runDelete(database, (next) => conditionOf(kind, filter, next), actor);
}

/** Deletes those of these tuples that are there; answers how many. */
export function deleteExactly(
  database: Queryable,
  tuples: readonly Tuple[],
  actor: string,
): Promise<number> {
  const given = (next: Next): string => {
    const columns = [
      tuples.map(({ resource }) => resource.type),
      tuples.map(({ resource }) => resource.id),
      tuples.map(({ relation }) => relation),
      tuples.map(({ subject }) => subject.type),
      tuples.map(({ subject }) => subject.id),
      tuples.map(({ subject }) => subject.relation),
    ];
    return `(${tupleKey}) in (select * from unnest(${columns.map((column) => `${next(column)}::text[]`).join(', ')}))`;
  };
  return runDelete(database, given, actor);
}

/** Who stands in a relation to some objects of a type. */
export interface RelationOfObjects {
  readonly type: string;
  readonly ids: readonly string[];
  readonly relation: string;
  /** This subject stays, where it stands without condition and end. */
  readonly except: Tuple['subject'];
}

/** Deletes them; answers how many. */
export const deleteRelation = (
  database: Queryable,
  { type, ids, relation, except }: RelationOfObjects,
  actor: string,
): Promise<number> =>
  runDelete(
    database,
    (next) =>
      `t.resource_type = ${next(type)} and t.resource_id = any(${next(ids)}::text[]) and t.relation = ${next(relation)}
       and not (t.subject_type = ${next(except.type)} and t.subject_id = ${next(except.id)} and t.subject_relation = ${next(except.relation)} and t.condition is null and t.expires_at is null)`,
    actor,
  );

/** Deletes everything about a type, as subject or resource, grants included. */
export async function deleteTuplesOfType(
  database: Queryable,
  type: string,
  actor: string,
): Promise<number> {
  return runDelete(
    database,
    (next) => `t.resource_type = ${next(type)} or t.subject_type = ${next(type)}`,
    actor,
  );
}

/** Deletes one object's tuples on both sides. */
export async function deleteTuplesOfObject(
  database: Queryable,
  object: Tuple['resource'],
  actor: string,
): Promise<number> {
  const either = (next: Next): string => {
    const [type, id] = [next(object.type), next(object.id)];
    return `(t.resource_type = ${type} and t.resource_id = ${id}) or (t.subject_type = ${type} and t.subject_id = ${id})`;
  };
  return runDelete(database, either, actor);
}

/** Deletes up to `limit` tuples that expired; answers how many. */
export async function deleteExpired(
  database: Queryable,
  limit: number,
  actor: string,
): Promise<number> {
  // Asked again of each where it is deleted: one that got another end meanwhile stays.
  const expired = (next: Next): string =>
    `t.expires_at < now() and t.id in (select id from penstock.tuples where expires_at < now() order by expires_at limit ${next(limit)})`;
  return runDelete(database, expired, actor);
}

/**
 * Takes away what was noted about changes before the run before this one, if that is almost an hour ago: what a snapshot that is
 * younger has not seen stays. After a restore the numbers of transactions may be lower than those that were noted; such
 * notes are about nothing that anybody keeps.
 */
export async function deleteOldChanges(database: Queryable): Promise<void> {
  await database.query(sql`
    with horizon as (
      update penstock.tuple_change_state s set
        kept_from = least(s.next_kept_from, pg_snapshot_xmax(pg_current_snapshot())),
        next_kept_from = pg_snapshot_xmin(pg_current_snapshot()),
        moved_at = now()
      where s.moved_at < now() - interval '50 minutes'
      returning s.kept_from)
    delete from penstock.tuple_changes c using horizon h
     where c.xid < h.kept_from or c.xid > pg_snapshot_xmax(pg_current_snapshot())`);
}

/** Deletes with the events; answers how many. They may be millions: none of them comes here. */
async function runDelete(
  database: Queryable,
  condition: (next: Next) => string,
  actor: string,
): Promise<number> {
  const values: unknown[] = [actor];
  const where = condition((value) => `$${values.push(value)}`);
  const text = `with gone as (delete from penstock.tuples t where ${where} returning *), events as (${tupleEvents('delete', 'gone', '$1')}) select count(*)::int as count from gone`;
  const { rows } = await database.query<{ count: number }>({ text, values });
  return rows[0]?.count ?? 0;
}

/** Tuples that are alike in everything that definitions decide on. */
export interface TupleShape {
  readonly subjectType: string;
  readonly subjectRelation: string;
  readonly wildcard: boolean;
  readonly relation: string;
  readonly resourceType: string;
  readonly condition: string | null;
}

const shapeText = (
  { subjectType, subjectRelation, wildcard, relation, resourceType, condition }: TupleShape,
  next: (value: unknown) => string,
): string =>
  `t.subject_type = ${next(subjectType)} and t.subject_relation = ${next(subjectRelation)} and (t.subject_id = '*') = ${next(wildcard)}::boolean` +
  ` and t.relation = ${next(relation)} and t.resource_type = ${next(resourceType)} and t.condition is not distinct from ${next(condition)}::text`;

/** Deletes all tuples of a shape. */
export const deleteAlike = (
  database: Queryable,
  shape: TupleShape,
  actor: string,
): Promise<number> => runDelete(database, (next) => shapeText(shape, next), actor);

/** Some tuples of a shape, as they are written. */
export async function examplesOf(
  database: Queryable,
  shape: TupleShape,
  limit: number,
): Promise<readonly string[]> {
  const values: unknown[] = [];
  const where = shapeText(shape, (value) => `$${values.push(value)}`);
  const text = `select ${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')} as text from penstock.tuples t where ${where} limit $${values.push(limit)}`;
  const { rows } = await database.query<{ text: string }>({ text, values });
  return rows.map((row) => row.text);
}
