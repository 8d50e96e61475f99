/** "Which resources of a type may this subject act on?", page by page, without a list in memory. */
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { isExact, mayBeOpen, originsOf } from '../model/expansion-rules.ts';
import {
  formatObject,
  formatSubject,
  type ObjectRef,
  type SubjectRef,
  sameObject,
} from '../model/grammar.ts';
import { keyOf, type Name } from '../model/model.ts';
import {
  type EngineScope,
  type EvaluationContext,
  evaluationContextOf,
  isSelf,
  keepAllowed,
  requireSubject,
  resolveName,
} from './ask.ts';
import type { Page, PageOptions, ResourceQuestion, SubjectQuestion } from './engine.ts';
import { type Bounds, isPlain } from './graph.ts';
import { engineErrors, limits } from './limits.ts';
import { readPage } from './pages.ts';
import { hasOwnSet, principalsOf } from './principals.ts';
import { ruleCallers, ruledRows } from './record-rules.ts';
import { lookupColumns, lookupCondition, lookupRows, lookupsTo } from './rows/row-sources.ts';
import { type Footprint, footprintOf, footprintSource } from './tuple-loading.ts';
import { recordRelationsNaming, sourcedStatement, sourceOf } from './tuple-source.ts';

/** What is asked for: every `object` of the name's type on which the subject has the name. */
interface ResourceSearch {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly evaluationContext: EvaluationContext;
}

/** One page of ids in byte order. Of a public action these are the objects that stand in any tuple. */
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
  const candidates = await resourceCandidates(engineScope, search);
  const doubt = { found: false };
  const exact = isExact(model, goal) && search.evaluationContext.contextual.length === 0;
  const page = await readPage(
    {
      question: `resources ${formatSubject(subject)} ${keyOf(goal)}`,
      candidates,
      keep: async (ids) => (exact ? ids : allowedResources(engineScope, search, ids, doubt)),
    },
    options,
  );
  return doubt.found ? { ...page, incomplete: true } : page;
}

/** Whether something was left out because it cannot be decided. */
interface Doubt {
  found: boolean;
}

function noteDoubt(doubt: Doubt, bounds: readonly Bounds[]): void {
  if (bounds.some(({ sure, possible }) => possible && !sure)) doubt.found = true;
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

/** Pages of resources that the subject may have the name on: exactly those, for a name that is exact. */
async function resourceCandidates(
  engineScope: EngineScope,
  { subject, goal, evaluationContext }: ResourceSearch,
) {
  const { model, database } = engineScope;
  const principals = await principalsOf(
    engineScope,
    subject,
    originsOf(model, goal),
    evaluationContext,
  );
  const lookups = lookupsTo(model, { subject, goal, principals });
  const columns = lookupColumns(lookups);
  const known = [
    ...(isSelf({ subject, object: { type: goal.type, id: subject.id }, name: goal }) ||
    hasOwnSet(model, subject, goal)
      ? [subject.id]
      : []),
    ...evaluationContext.contextual.flatMap(({ subject: s, resource }) =>
      [s, resource].flatMap((o) => (o.type === goal.type && o.id !== '*' ? [o.id] : [])),
    ),
  ];
  const open = mayBeOpen(model, goal);
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
    const ruled = await ruledRows(engineScope, goal, ruleValues, { after, limit });
    return ruled.length === 0 ? stored : merged(stored, ruled).slice(0, limit);
  };
}

/** Both in byte order; so is what comes of it. */
const merged = (a: readonly string[], b: readonly string[]): readonly string[] =>
  [...new Set([...a, ...b])].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));

/* "Who may act on this resource?": a walk down to everybody who is named on the way, each evaluated exactly. */

/**
 * One page of subjects as `Type:id`, in byte order. `Type:*` stands for everybody of the type who is not
 * named on the way to the resource; whoever is named is listed on their own.
 */
export async function listSubjects(
  engineScope: EngineScope,
  question: SubjectQuestion,
  options: PageOptions,
): Promise<Page<string>> {
  const { resource, action, type } = question;
  if (!engineScope.model.get(type))
    throw invalid('subjectType', 'type', `no type is called "${cutText(type, 64)}"`);
  const goal = resolveName(engineScope.model, resource.type, action);
  const evaluationContext = evaluationContextOf(engineScope.model, options);
  const footprint = footprintOf(engineScope.model, goal);
  const objects = await objectsBelow(engineScope, footprint, resource, evaluationContext);
  const callers = await ruleCallers(engineScope, goal, objects, limits.tuples);
  const doubt = { found: callers.incomplete };
  const page = await readPage(
    {
      question: `subjects ${formatObject(resource)} ${keyOf(goal)} ${type}`,
      candidates: subjectCandidates(engineScope, {
        footprint,
        objects,
        type,
        known: [...knownSubjects({ type, resource, evaluationContext }), ...callers.ids],
      }),
      keep: (ids) =>
        allowedSubjects(engineScope, { resource, goal, type, evaluationContext }, ids, doubt),
    },
    options,
  );
  const items = page.items.map((id) => `${type}:${id}`);
  return { ...page, items, ...(doubt.found && { incomplete: true }) };
}

interface SubjectSearch {
  readonly resource: ObjectRef;
  readonly goal: Name;
  readonly type: string;
  readonly evaluationContext: EvaluationContext;
}

async function allowedSubjects(
  engineScope: EngineScope,
  { resource, goal, type, evaluationContext }: SubjectSearch,
  ids: readonly string[],
  doubt: Doubt,
): Promise<readonly string[]> {
  const questions = ids.map((id) => ({
    subject: { type, id, relation: '' },
    object: resource,
    name: goal,
  }));
  const bounds = await keepAllowed(engineScope, questions, evaluationContext);
  noteDoubt(doubt, bounds.slice(ids[0] === '*' ? 1 : 0));
  return ids.filter((_, i) => bounds[i]?.sure || (questions[i] && isSelf(questions[i])));
}

/** Subjects that no stored tuple need name: the resource itself, everybody, and those of contextual tuples. */
function knownSubjects({
  type,
  resource,
  evaluationContext,
}: Omit<SubjectSearch, 'goal'>): readonly string[] {
  const contextual = evaluationContext.contextual
    .map((t) => t.subject)
    .filter((s) => s.type === type && s.relation === '');
  return ['*', ...(resource.type === type ? [resource.id] : []), ...contextual.map((s) => s.id)];
}

const most = limits.reached + 1;

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
         limit ${most}) r
       where w.type = b.type
      union all
      select r.subject_type, r.subject_id from sets w cross join lateral (
        select t.subject_type, t.subject_id from ${from.rows} t
         where t.resource_type = w.type and t.resource_id = b.id${from.resource('t', 'b.id')} and t.relation = w.relation and t.subject_relation <> ''
         limit ${most}) r
       where w.type = b.type) f
  )
  select type, id from below limit ${most}`,
);

/** The resource and every object that an answer about it can hang on. */
async function objectsBelow(
  { model, database }: EngineScope,
  { follows, sets }: Footprint,
  resource: ObjectRef,
  { contextual }: EvaluationContext,
): Promise<readonly ObjectRef[]> {
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
    ],
  });
  if (rows.length > limits.reached) throw engineErrors.BREADTH_EXCEEDED();
  return rows;
}

interface Below {
  readonly footprint: Footprint;
  readonly objects: readonly ObjectRef[];
  readonly type: string;
  readonly known: readonly string[];
}

const subjectsStatement = sourcedStatement(
  (from) => `select id from (
    select r.id from unnest((select $1::text[]), (select $2::text[])) o(type, id)
      join unnest((select $3::text[]), (select $4::text[])) p(type, relation) on p.type = o.type
      cross join lateral (
        select t.subject_id as id from ${from.rows} t
         where t.resource_type = o.type and t.resource_id = o.id${from.resource('t', 'o.id')} and t.relation = p.relation
           and t.subject_type = $5::text and t.subject_relation = '' and t.subject_id > $6::text
         order by t.subject_id limit $7::bigint) r
    union all
    select r.id from unnest((select $8::text[])) r(id) where r.id > $6::text
  ) x group by id order by id collate "C" limit $7::bigint`,
);

function subjectCandidates(
  { model, database }: EngineScope,
  { footprint, objects, type, known }: Below,
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
    const values = [...columns, type, after, limit, known];
    const { rows } = await database.query<{ id: string }>({
      ...statement,
      values,
    });
    return rows.map((row) => row.id);
  };
}
