/** "Who may act on this resource?": a walk down to everybody who is named on the way, each evaluated exactly. */
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { formatObject, formatSubject, type ObjectRef, sameObject } from '../model/grammar.ts';
import { keyOf, type Name } from '../model/model.ts';
import {
  type CandidateBounds,
  type EngineScope,
  type EvaluationContext,
  evaluationContextOf,
  isSelf,
  keepAllowed,
  type Resolved,
  resolveName,
} from './ask.ts';
import type { Page, PageOptions, SubjectQuestion } from './engine.ts';
import { isPlain } from './graph.ts';
import { limits, sizesOf } from './limits.ts';
import { type Doubt, noteDoubt, readPage } from './pages.ts';
import { presentObjects } from './present-objects.ts';
import { rulesBelow } from './record-rules.ts';
import type { LargeSets } from './rows/named-sets.ts';
import { ruleCallers } from './rule-callers.ts';
import { candidateBounds, type SubjectSort, writtenSubjects } from './subject-candidates.ts';
import { type Footprint, footprintOf, footprintSource } from './tuple-loading.ts';
import { sourcedStatement } from './tuple-source.ts';

/**
 * One page of subjects as `Type:id`, in byte order. `Type:*` stands for everybody of the type who is not
 * named on the way to the resource; whoever is named is listed on their own.
 */
export async function listSubjects(
  engineScope: EngineScope,
  question: SubjectQuestion,
  options: PageOptions,
  large: LargeSets,
): Promise<Page<string>> {
  const { resource, action } = question;
  const sort = { type: question.type, relation: question.relation ?? '' };
  requireSort(engineScope.model, sort);
  const goal = resolveName(engineScope.model, resource.type, action);
  const given = evaluationContextOf(engineScope.model, options);
  const footprint = footprintOf(engineScope.model, goal);
  const key = `below ${formatObject(resource)} ${keyOf(goal)}`;
  const objects = large.has(key)
    ? undefined
    : await objectsBelow(engineScope, footprint, resource, given);
  if (!objects) large.add(key);
  const callers = await ruleCallers(engineScope, goal, objects ?? [resource], limits.tuples);
  // Of what cannot be named, nobody knows whom fields name that rules compare.
  const unseen = objects === undefined && rulesBelow(engineScope.model, goal).size > 0;
  const doubt = { found: callers.incomplete || unseen };
  // Where all are listed whom rules name, everybody else is somebody whom nothing names.
  const evaluationContext = doubt.found ? given : { ...given, unnamed: true as const };
  const search = { resource, goal, sort, evaluationContext };
  const known = [
    ...knownSubjects(search),
    // Of a set of anything on the way its own set may be meant.
    ...(sort.relation === ''
      ? callers.ids
      : (objects ?? []).flatMap(({ type, id }) => (type === sort.type ? [id] : []))),
  ];
  const boundsOf = objects
    ? evaluatedTogether(engineScope, search)
    : candidateBounds(engineScope, { ...search, object: resource });
  const page = await readPage(
    {
      question: `subjects ${formatObject(resource)} ${keyOf(goal)} ${sort.type}#${sort.relation}`,
      candidates: objects
        ? subjectCandidates(engineScope, { footprint, objects, sort, known })
        : writtenSubjects(engineScope, sort, known),
      keep: async (ids) =>
        presentSubjects(
          engineScope,
          search,
          await allowedSubjects(search, { ids, bounds: boundsOf(ids), doubt }),
        ),
    },
    options,
  );
  const items = page.items.map((id) => formatSubject({ ...sort, id }));
  return { ...page, items, ...(doubt.found && { incomplete: true }) };
}

/** Throws 400. */
function requireSort(model: EngineScope['model'], { type, relation }: SubjectSort): void {
  if (!model.get(type))
    throw invalid('subjectType', 'type', `no type is called "${cutText(type, 64)}"`);
  if (relation !== '' && !model.member(type, relation)) {
    const message = `"${cutText(relation, 64)}" is neither a relation nor an action of ${type}`;
    throw invalid('subjectType', 'relation', message);
  }
}

interface SubjectSearch {
  readonly resource: ObjectRef;
  readonly goal: Name;
  readonly sort: SubjectSort;
  readonly evaluationContext: EvaluationContext;
}

const questionsOf = (
  { resource, goal, sort }: SubjectSearch,
  ids: readonly string[],
): readonly Resolved[] =>
  ids.map((id) => ({ subject: { ...sort, id }, object: resource, name: goal }));

const evaluatedTogether =
  (engineScope: EngineScope, search: SubjectSearch) =>
  (ids: readonly string[]): Promise<readonly CandidateBounds[]> =>
    keepAllowed(engineScope, questionsOf(search, ids), search.evaluationContext);

interface Evaluated {
  readonly ids: readonly string[];
  readonly bounds: Promise<readonly CandidateBounds[]>;
  readonly doubt: Doubt;
}

async function allowedSubjects(
  search: SubjectSearch,
  { ids, bounds: asked, doubt }: Evaluated,
): Promise<readonly string[]> {
  const questions = questionsOf(search, ids);
  const bounds = await asked;
  noteDoubt(doubt, bounds);
  return ids.filter((_, i) => bounds[i]?.sure || (questions[i] && isSelf(questions[i])));
}

/** Without those whom only records name, and who are not there. */
async function presentSubjects(
  scope: EngineScope,
  search: SubjectSearch,
  ids: readonly string[],
): Promise<readonly string[]> {
  const given = new Set(knownSubjects(search));
  const others = ids.filter((id) => !given.has(id));
  const present = new Set(await presentObjects(scope, search.sort.type, others));
  return ids.filter((id) => given.has(id) || present.has(id));
}

/** Subjects that no stored tuple need name: the resource itself, everybody, and those of contextual tuples. */
function knownSubjects({
  sort: { type, relation },
  resource,
  evaluationContext,
}: Omit<SubjectSearch, 'goal'>): readonly string[] {
  const contextual = evaluationContext.contextual
    .map((t) => t.subject)
    .filter((s) => s.type === type && s.relation === relation);
  return [
    ...(relation === '' ? ['*'] : []),
    ...(resource.type === type ? [resource.id] : []),
    ...contextual.map((s) => s.id),
  ];
}

const max = limits.reached + 1;

const walkStatement = sourcedStatement(
  (from) => `with recursive
  follow as materialized (select * from unnest((select $1::text[]), (select $2::text[]), (select $3::text[])) x(type, relation, subject_type)),
  sets as materialized (select * from unnest((select $4::text[]), (select $5::text[])) x(type, relation)),
  below(type, id) as (
    select x.type collate "C", x.id collate "C" from unnest((select $6::text[]), (select $7::text[])) x(type, id)
    union
    select f.subject_type, f.subject_id from below b cross join lateral (
      select r.subject_type, r.subject_id from follow w cross join lateral (
        select t.subject_type, t.subject_id from ${from.rows} t
         where t.resource_type = w.type and t.resource_id = b.id${from.resource('t', 'b.id')} and t.relation = w.relation
           and t.subject_type = w.subject_type and t.subject_relation = '' and t.subject_id <> '*'
         limit ${max}) r
       where w.type = b.type
      union all
      select r.subject_type, r.subject_id from sets w cross join lateral (
        select t.subject_type, t.subject_id from ${from.rows} t
         where t.resource_type = w.type and t.resource_id = b.id${from.resource('t', 'b.id')} and t.relation = w.relation and t.subject_relation <> ''
         limit ${max}) r
       where w.type = b.type) f
  )
  select type, id from below limit (select $8::bigint)`,
);

/** The resource and every object that an answer about it can hang on; `undefined` where they are too many to be named. */
async function objectsBelow(
  scope: EngineScope,
  { follows, sets }: Footprint,
  resource: ObjectRef,
  { contextual }: EvaluationContext,
): Promise<readonly ObjectRef[] | undefined> {
  const { model, database } = scope;
  const { reached } = sizesOf(scope);
  const roots = [
    resource,
    ...contextual.map((t) => t.subject).filter((s) => isPlain(s) || s.relation !== ''),
  ];
  const unique = roots.filter(
    (root, i) => roots.findIndex((other) => sameObject(other, root)) === i,
  );
  const { rows } = await database.query<ObjectRef>({
    ...walkStatement(footprintSource(model, { probes: [], follows })),
    values: [
      follows.map((f) => f[0]),
      follows.map((f) => f[1]),
      follows.map((f) => f[2]),
      sets.map((s) => s[0]),
      sets.map((s) => s[1]),
      unique.map((o) => o.type),
      unique.map((o) => o.id),
      reached + 1,
    ],
  });
  return rows.length > reached ? undefined : rows;
}

interface Below {
  readonly footprint: Footprint;
  readonly objects: readonly ObjectRef[];
  readonly sort: SubjectSort;
  readonly known: readonly string[];
}

const subjectsStatement = sourcedStatement(
  (from) => `select id from (
    select r.id from unnest((select $1::text[]), (select $2::text[])) o(type, id)
      join unnest((select $3::text[]), (select $4::text[])) p(type, relation) on p.type = o.type
      cross join lateral (
        select t.subject_id as id from ${from.rows} t
         where t.resource_type = o.type and t.resource_id = o.id${from.resource('t', 'o.id')} and t.relation = p.relation
           and t.subject_type = $5::text and t.subject_relation = $9::text and t.subject_id > $6::text
         order by t.subject_id limit $7::bigint) r
    union all
    select r.id from unnest((select $8::text[])) r(id) where r.id > $6::text
  ) x group by id order by id collate "C" limit $7::bigint`,
);

function subjectCandidates(
  { model, database }: EngineScope,
  { footprint, objects, sort, known }: Below,
) {
  const statement = subjectsStatement(
    footprintSource(model, { probes: footprint.probes, follows: [] }),
  );
  const columns = [
    objects.map((o) => o.type),
    objects.map((o) => o.id),
    footprint.probes.map((p) => p[0]),
    footprint.probes.map((p) => p[1]),
  ];
  return async (after: string, limit: number): Promise<readonly string[]> => {
    const values = [...columns, sort.type, after, limit, known, sort.relation];
    const { rows } = await database.query<{ id: string }>({
      ...statement,
      values,
    });
    return rows.map((row) => row.id);
  };
}
