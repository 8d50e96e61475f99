/** What rules know of who asks beside the id: the roles that they hold, and the teams on which they stand. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { isId } from '../../../kernel/ids.ts';
import type { SubjectRef } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import { rolesByIds } from '../role-queries.ts';
import { liveTuple } from '../tuple-sql.ts';
import { principalsOf } from './principals.ts';
import type { CallerFacts, CallerLookup } from './record-rules.ts';

/** Whoever has this action on a role holds it. */
export const heldRole = { type: 'Role', action: 'hold' } as const;
/** The role of every user. */
export const everybodysRole = 'user';

/** Of whom more is not worth listing in a rule. */
const MOST = 10_000;

/**
 * Looks them up in the same database as the question: a grant or a revocation holds for the next one. What rules say
 * about roles themselves is not asked in turn.
 */
export const lookUpCaller: CallerLookup = async (scope, subject): Promise<CallerFacts> => ({
  roles: await rolesOf(scope, subject),
  teams: await teamsOf(scope.database, subject),
});

async function rolesOf(
  { model, database }: { readonly model: Model; readonly database: Queryable },
  subject: SubjectRef,
): Promise<readonly string[]> {
  const implicit = subject.type === 'User' ? [everybodysRole] : [];
  const name = model.action(heldRole.type, heldRole.action);
  if (!name) return implicit;
  const held = await principalsOf({ model, database }, subject, [name], {
    context: {},
    contextual: [],
  });
  const ids = held.filter(({ id, bounds }) => bounds.sure && isId(id)).map(({ id }) => id);
  const roles = await rolesByIds(database, [...new Set(ids)]);
  return [...new Set([...implicit, ...roles.map((role) => role.name)])].sort();
}

/** Teams on which they stand themselves, in whatever relation; a condition gives nothing here. */
async function teamsOf(
  database: Queryable,
  { type, id, relation }: SubjectRef,
): Promise<readonly string[]> {
  const text = `select distinct t.resource_id as id from penstock.tuples t
    where t.subject_type = $1 and t.subject_id = $2 and t.subject_relation = $3 and t.resource_type = 'Team'
      and t.relation not like 'can:%' and t.condition is null and ${liveTuple('t')} order by 1 limit ${MOST}`;
  const { rows } = await database.query<{ id: string }>({ text, values: [type, id, relation] });
  return rows.map((row) => row.id);
}
