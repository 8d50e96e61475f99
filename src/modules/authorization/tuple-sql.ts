/** Pieces of SQL about tuples that several statements share. */
import { outboxTable } from '../../kernel/events/events.ts';

/** What happened to a tuple; the topic is `authorization:<what>:relation`, or `:permission` for a direct grant. */
export type TupleEvent = 'create' | 'delete';

/** `subject`, `resource` and the like as text, from the columns of `alias`. */
export const subjectText = (alias: string): string =>
  `${alias}.subject_type || ':' || ${alias}.subject_id || case when ${alias}.subject_relation = '' then '' else '#' || ${alias}.subject_relation end`;
export const resourceText = (alias: string): string => `${alias}.resource_type || ':' || ${alias}.resource_id`;

/** One event for each row of `rows`, a relation of the statement with the columns of the table. `actor` is a placeholder. */
export const tupleEvents = (what: TupleEvent, rows: string, actor: string): string => `
  insert into ${outboxTable} (topic, ids, payload, actor)
  select 'authorization:${what}:' || case when t.relation like 'can:%' then 'permission' else 'relation' end,
    array[t.id::text],
    jsonb_strip_nulls(jsonb_build_object(
      'subject', ${subjectText('t')}, 'relation', t.relation, 'resource', ${resourceText('t')},
      'condition', t.condition, 'expiresAt', t.expires_at)),
    ${actor}::text
  from ${rows} t`;

/** A text as an id of a record; null when it is none. Unlike a cast it never fails, and unlike a cast of the id it can use the index. */
export const uuidOf = (text: string): string =>
  `case when ${text} ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then ${text}::uuid end`;
