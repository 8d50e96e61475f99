/** What this module changes about users by its own SQL is told like what the record engine changes: many follow records. */
import type { Statement } from '../../kernel/database/database.ts';
import { statementName } from '../../kernel/database/sql.ts';
import { outboxTable } from '../../kernel/events/events.ts';

const made = new Map<string, Pick<Statement, 'text' | 'name'>>();

/** `update`: one of `"app"."User"`, without `returning`. Answers the `id` of each user that it has changed. */
export function toldUpdate(update: Statement): Statement {
  const known = made.get(update.text) ?? statementOf(update.text);
  made.set(update.text, known);
  return { ...update, ...known };
}

function statementOf(update: string): Pick<Statement, 'text' | 'name'> {
  const text = `
    with changed as (${update} returning "_id"), told as (
      insert into ${outboxTable} (topic, schema, operation, actor, ids)
      select 'database:update:User', 'User', 'update', 'system:authentication', array_agg("_id"::text order by "_id")
      from changed having count(*) > 0)
    select "_id" as id from changed`;
  return { text, name: statementName(text) };
}
