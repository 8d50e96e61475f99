/**
 * Keeps tuples in step with records, inside the statement that writes the
 * record: no record without its owner, no tuple about a record that is gone.
 */

import { literalOf } from '../../kernel/database/literal.ts';
import type { RecordTuples } from '../../kernel/permissions.ts';
import { trackedOid, tupleEvents } from './tuple-sql.ts';

/** The relation in which the creator stands to a record (spec/authorization.md 5.6). */
export const ownerRelation = 'owner';

export const recordTuples: RecordTuples = {
  own({ rows, schema, table }, owner) {
    const type = literalOf(schema, 'text');
    // A new record has one owner: its id can serve as the tuple's id as well.
    const insert = `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id, row_of)
      select x."_id", ${owner.type}::text, ${owner.id}::text, '${ownerRelation}', ${type}, x."_id"::text, ${trackedOid(schema, table)}
        from ${rows} x`;
    return [`owned as (${insert})`];
  },

  forget({ rows, schema, actor }) {
    const type = literalOf(schema, 'text');
    // Each side by its own index, whatever the planner believes about how many there are (`offset 0` keeps the sides apart).
    const side = (name: 'resource' | 'subject'): string =>
      `select f.id from ${rows} x cross join lateral (
        select t.id from penstock.tuples t where t.${name}_type = ${type} and t.${name}_id = x."_id"::text offset 0) f`;
    const gone = `delete from penstock.tuples where id in (${side('resource')} union ${side('subject')}) returning *`;
    return [`forgotten as (${gone})`, `forgotten_events as (${tupleEvents('delete', 'forgotten', actor)})`];
  },
};
