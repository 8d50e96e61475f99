import { codeOf } from '../../../kernel/database/failures.ts';
import { isExact, mayBeOpen, originsOf } from '../model/expansion-rules.ts';
import { formatSubject, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import {
  type EngineScope,
  type EvaluationContext,
  evaluationContextOf,
  isSelf,
  keepAllowed,
  requireSubject,
  resolveName,
} from './ask.ts';
import { descentText } from './descent.ts';
import type { Page, PageOptions, ResourceQuestion } from './engine.ts';
import { engineErrors } from './limits.ts';
import { type Doubt, noteDoubt, readPage } from './pages.ts';
import { presentObjects } from './present-objects.ts';
import { hasOwnSet, type Principal, principalsOf } from './principals.ts';
import { openRows } from './record-rules.ts';
import { lookupColumns, lookupCondition, lookupRows, lookupsTo } from './rows/row-sources.ts';
import { recordRelationsNaming, sourcedStatement, sourceOf } from './tuple-source.ts';

/** What is asked for: every `object` of the name's type on which the subject has the name. */
interface ResourceSearch {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly evaluationContext: EvaluationContext;
}

/** One page of ids in byte order. Of a public action these are the records, and the objects that stand in any tuple. */
export async function listResources(
  engineScope: EngineScope,
  question: ResourceQuestion,
  options: PageOptions,
): Promise<Page<string>> {
  const { model } = engineScope;
  const { subject, action, type } = question;
  requireSubject(model, subject);
  const goal = resolveName(model, type, action);
  const search: ResourceSearch = {
    subject,
    goal,
    evaluationContext: evaluationContextOf(model, options),
  };
  const principals = await namedPrincipals(engineScope, search);
  const candidates = resourceCandidates(engineScope, search, principals);
  const doubt = { found: false };
  const exact = isExact(model, goal) && search.evaluationContext.contextual.length === 0;
  const kept = (ids: readonly string[]): readonly string[] | Promise<readonly string[]> => {
    if (!exact) return allowedResources(engineScope, search, ids, doubt);
    return principals ? ids : descended(engineScope, search, ids);
  };
  const page = await readPage(
    {
      question: `resources ${formatSubject(subject)} ${keyOf(goal)}`,
      candidates,
      keep: async (ids) => presentResources(engineScope, search, await kept(ids)),
    },
    options,
  );
  return doubt.found ? { ...page, incomplete: true } : page;
}

/** Without those that only fields of records name, and that are not there. */
async function presentResources(
  scope: EngineScope,
  search: ResourceSearch,
  ids: readonly string[],
): Promise<readonly string[]> {
  const { type } = search.goal;
  // Nothing else names what is no record and stands in no tuple.
  if (recordRelationsNaming(scope.model, type).length === 0) return ids;
  const given = new Set(givenResources(scope.model, search));
  const others = ids.filter((id) => !given.has(id));
  const present = new Set(await presentObjects(scope, type, others));
  return ids.filter((id) => given.has(id) || present.has(id));
}

/** The objects through which the subject acts; `undefined` where they are too many to be named. */
async function namedPrincipals(
  engineScope: EngineScope,
  { subject, goal, evaluationContext }: ResourceSearch,
): Promise<readonly Principal[] | undefined> {
  const names = originsOf(engineScope.model, goal);
  try {
    return await principalsOf(engineScope, subject, names, evaluationContext);
  } catch (error) {
    if (codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
    return undefined;
  }
}

/** Those of the resources from which the way down leads to the subject. The name must be exact. */
async function descended(
  { model, database }: EngineScope,
  { subject, goal }: ResourceSearch,
  ids: readonly string[],
): Promise<readonly string[]> {
  const values: unknown[] = [ids];
  const holds = descentText(
    model,
    { subject, name: goal },
    'x.id',
    (value) => `$${values.push(value)}`,
  );
  const text = `select x.id from unnest($1::text[]) with ordinality x(id, n) where ${holds} order by x.n`;
  const { rows } = await database.query<{ id: string }>({ text, values });
  const found = new Set(rows.map(({ id }) => id));
  const own = (id: string): boolean =>
    isSelf({ subject, object: { type: goal.type, id }, name: goal });
  return ids.filter((id) => found.has(id) || own(id));
}

async function allowedResources(
  engineScope: EngineScope,
  { subject, goal, evaluationContext }: ResourceSearch,
  ids: readonly string[],
  doubt: Doubt,
): Promise<readonly string[]> {
  const questions = ids.map((id) => ({ subject, object: { type: goal.type, id }, name: goal }));
  const bounds = await keepAllowed(engineScope, questions, evaluationContext);
  noteDoubt(doubt, bounds);
  return ids.filter((_, i) => bounds[i]?.sure || (questions[i] && isSelf(questions[i])));
}

const resourcesStatement = sourcedStatement(
  (from) => `select id from (
    select r.id from ${lookupRows((i) => `$${i + 1}`)}
      cross join lateral (
        select t.resource_id as id from ${from.rows} t
         where ${lookupCondition(from, '$6::text')} and t.resource_id > $7::text
         order by t.resource_id limit $8::bigint) r
    union all
    select r.id from unnest((select $9::text[])) r(id) where r.id > $7::text
    union all
    (select distinct t.resource_id from ${from.rows} t
      where $10::boolean and t.resource_type = $6::text and t.resource_id > $7::text and t.subject_id <> ''
      order by t.resource_id limit $8::bigint)
    union all
    (select distinct t.subject_id from ${from.rows} t
      where $10::boolean and t.subject_type = $6::text and t.subject_id > $7::text and t.subject_id <> '*'
      order by t.subject_id limit $8::bigint)
  ) x group by id order by id collate "C" limit $8::bigint`,
);

/** Resources that nothing need say anything about: the subject itself, and those of contextual tuples. */
function givenResources(
  model: Model,
  { subject, goal, evaluationContext }: ResourceSearch,
): readonly string[] {
  const isOwn =
    isSelf({ subject, object: { type: goal.type, id: subject.id }, name: goal }) ||
    hasOwnSet(model, subject, goal);
  return [
    // Everybody of a type is no object.
    ...(isOwn && subject.id !== '*' ? [subject.id] : []),
    ...evaluationContext.contextual.flatMap(({ subject: s, resource }) =>
      [s, resource].flatMap((o) => (o.type === goal.type && o.id !== '*' ? [o.id] : [])),
    ),
  ];
}

/** Pages of resources that the subject may have the name on: exactly those, for a name that is exact; without principals, all that stand in any tuple. */
function resourceCandidates(
  engineScope: EngineScope,
  { subject, goal, evaluationContext }: ResourceSearch,
  named: readonly Principal[] | undefined,
) {
  const { model, database } = engineScope;
  const principals = named ?? [];
  const lookups = lookupsTo(model, { subject, goal, principals });
  const columns = lookupColumns(lookups);
  const known = givenResources(model, { subject, goal, evaluationContext });
  const open = named === undefined || mayBeOpen(model, goal);
  // Where rights need no tuple, whatever stands in any tuple is listed.
  const around = open
    ? [
        ...model.recordRelations.filter(({ type }) => type === goal.type),
        ...recordRelationsNaming(model, goal.type),
      ]
    : [];
  const statement = resourcesStatement(
    sourceOf(model, [...lookups.map(({ rule }) => rule), ...around]),
  );
  const { context } = evaluationContext;
  const ruleValues = { subject, context, now: new Date().toISOString() };
  return async (after: string, limit: number): Promise<readonly string[]> => {
    const values = [...columns, goal.type, after, limit, known, open];
    const { rows } = await database.query<{ id: string }>({
      ...statement,
      values,
    });
    const stored = rows.map((row) => row.id);
    const ruled = await openRows(engineScope, goal, ruleValues, { after, limit });
    return ruled.length === 0 ? stored : merged(stored, ruled).slice(0, limit);
  };
}

/** Both in byte order; so is what comes of it. */
const merged = (a: readonly string[], b: readonly string[]): readonly string[] =>
  [...new Set([...a, ...b])].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
