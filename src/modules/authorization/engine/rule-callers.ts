/** Whom rules about records let in, as far as they can be turned round: from the record to those whom its fields name. */

import { allRows } from '../../../data/records/sql/row-id.ts';
import type { StoredPlace } from '../../../data/rules/rule.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { isRecordId } from '../../../data/schema/language/record-key.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { isId } from '../../../kernel/ids.ts';
import { isCanonicalId, type ObjectRef, type SubjectRef } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import { rolesByIds } from '../role-queries.ts';
import { liveTuple } from '../tuple-sql.ts';
import { principalsOf } from './principals.ts';
import type { CallerFacts, CallerLookup } from './record-rules.ts';
import { asksFacts, type RuleScope, recordRule, rulesBelow } from './record-rules.ts';

export interface RuleCallers {
  readonly ids: readonly string[];
  /** Rules ask of callers what cannot be turned round. */
  readonly incomplete: boolean;
}

/** Who is named in fields of the objects that rules compare with the caller. */
export async function ruleCallers(
  { model, database }: RuleScope,
  goal: Name,
  objects: readonly ObjectRef[],
  max: number,
): Promise<RuleCallers> {
  const asked = [...rulesBelow(model, goal)].flatMap(([type, rules]) => {
    const records = [...rules].flatMap((of) => recordRule(model, type, of) ?? []);
    const named = objects.filter((o) => o.type === type).map((o) => o.id);
    return records.flatMap(({ schema, rule }) => {
      const ids = named.filter((id) => isRecordId(schema.key, id));
      return ids.length === 0 ? [] : [{ schema, rule, ids }];
    });
  });
  const compared = asked.map((one) => ({ ...one, ...one.rule.comparedWith('caller.id') }));
  const named: string[] = [];
  for (const { schema, ids, places, texts } of compared) {
    named.push(...texts);
    for (const place of places)
      named.push(...(await valuesAt(database, { schema, place, ids, max })));
  }
  const incomplete =
    named.length > max || compared.some(({ only, rule }) => !only || asksFacts(rule));
  return { ids: [...new Set(named)].slice(0, max).filter(isCanonicalId), incomplete };
}

interface PlaceOfRecords {
  readonly schema: CompiledSchema;
  readonly place: StoredPlace;
  readonly ids: readonly string[];
  readonly max: number;
}

async function valuesAt(
  database: Queryable,
  { schema, place: { field, path }, ids, max }: PlaceOfRecords,
): Promise<readonly string[]> {
  const known = schema.mapping ? 'r."_id"::text = any($1::text[])' : 'r."_id" = any($1::uuid[])';
  const { rows } = await database.query<{ id: string }>({
    text: `select distinct v.value #>> '{}' as id from ${allRows(schema)} r
      cross join lateral jsonb_path_query(to_jsonb(r.${identifier(field)}), $3::jsonpath) v(value)
      where ${known} and jsonb_typeof(v.value) in ('string', 'number') limit $2::bigint`,
    values: [ids, max + 1, path],
  });
  return rows.map(({ id }) => id);
}

/* What rules know of who asks beside the id: the roles that they hold, and the teams on which they stand. */

/** Whoever has this action on a role holds it. */
export const heldRole = { type: 'Role', action: 'hold' } as const;
/** The role of every user. */
export const everybodysRole = 'user';

/** Of whom more is not worth listing in a rule. */
const MAX_CANDIDATES = 10_000;

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
      and t.relation not like 'can:%' and t.condition is null and ${liveTuple('t')} order by 1 limit ${MAX_CANDIDATES}`;
  const { rows } = await database.query<{ id: string }>({ text, values: [type, id, relation] });
  return rows.map((row) => row.id);
}
