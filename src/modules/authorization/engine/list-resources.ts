/** "Which resources of a type may this subject act on?", page by page, without a list in memory. */
import { statementName } from '../../../kernel/database/sql.ts';
import { isExact, mayBeOpen, originsOf } from '../model/ascent.ts';
import { formatSubject, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Name } from '../model/model.ts';
import { type Circumstances, circumstancesOf, isSelf, requireSubject, resolveName, type World } from './ask.ts';
import type { Page, PageOptions, ResourceQuestion } from './engine.ts';
import { lookupColumns, lookupCondition, lookupRows, lookupsTo } from './lookups.ts';
import { readPage } from './pages.ts';
import { hasOwnSet, principalsOf } from './principals.ts';
import { sift } from './sift.ts';

/** What is asked for: every `object` of the name's type on which the subject has the name. */
interface Search {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly circumstances: Circumstances;
}

/** One page of ids in byte order. Of a public action these are the objects that stand in any tuple. */
export async function listResources(world: World, question: ResourceQuestion, options: PageOptions): Promise<Page<string>> {
  const { model } = world;
  const { subject, action, type } = question;
  requireSubject(model, subject);
  const goal = resolveName(model, type, action);
  const search: Search = { subject, goal, circumstances: circumstancesOf(model, options) };
  const candidates = await candidatesOf(world, search);
  const exact = isExact(model, goal) && search.circumstances.contextual.length === 0;
  return readPage(
    {
      question: `resources ${formatSubject(subject)} ${keyOf(goal)}`,
      candidates,
      keep: async (ids) => (exact ? ids : allowedOf(world, search, ids)),
    },
    options,
  );
}

async function allowedOf(world: World, { subject, goal, circumstances }: Search, ids: readonly string[]): Promise<readonly string[]> {
  const questions = ids.map((id) => ({ subject, object: { type: goal.type, id }, name: goal }));
  const bounds = await sift(world, questions, circumstances);
  return ids.filter((_, i) => bounds[i]?.sure || (questions[i] && isSelf(questions[i])));
}

const text = `select id from (
    select r.id from ${lookupRows((i) => `$${i + 1}`)}
      cross join lateral (
        select t.resource_id as id from penstock.tuples t
         where ${lookupCondition('$6::text')} and t.resource_id > $7::text
         order by t.resource_id limit $8::bigint) r
    union all
    select r.id from unnest((select $9::text[])) r(id) where r.id > $7::text
    union all
    (select distinct t.resource_id from penstock.tuples t
      where $10::boolean and t.resource_type = $6::text and t.resource_id > $7::text
      order by t.resource_id limit $8::bigint)
    union all
    (select distinct t.subject_id from penstock.tuples t
      where $10::boolean and t.subject_type = $6::text and t.subject_id > $7::text and t.subject_id <> '*'
      order by t.subject_id limit $8::bigint)
  ) x group by id order by id collate "C" limit $8::bigint`;
const name = statementName(text);

/** Pages of resources that the subject may have the name on: exactly those, for a name that is exact. */
async function candidatesOf(world: World, { subject, goal, circumstances }: Search) {
  const { model, database } = world;
  const principals = await principalsOf(world, subject, originsOf(model, goal), circumstances);
  const columns = lookupColumns(lookupsTo(model, { subject, goal, principals }));
  const known = [
    ...(isSelf({ subject, object: { type: goal.type, id: subject.id }, name: goal }) || hasOwnSet(model, subject, goal)
      ? [subject.id]
      : []),
    ...circumstances.contextual.flatMap(({ subject: s, resource }) =>
      [s, resource].flatMap((o) => (o.type === goal.type && o.id !== '*' ? [o.id] : [])),
    ),
  ];
  const open = mayBeOpen(model, goal);
  return async (after: string, limit: number): Promise<readonly string[]> => {
    const values = [...columns, goal.type, after, limit, known, open];
    const { rows } = await database.query<{ id: string }>({ name, text, values });
    return rows.map((row) => row.id);
  };
}
