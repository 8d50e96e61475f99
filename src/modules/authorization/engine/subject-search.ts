/**
 * Decides a question from the side of the subject, where too much stands below the object: what the subject has on other
 * objects is found first, then only those tuples of the object that name one of them are looked at.
 */
import { isExact, isPublic, namesOfObject } from '../model/expansion-rules.ts';
import { formatSubject, formsOf, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { fits, indexTuples, type Tuple } from '../model/tuple.ts';
import { arrayText, type TupleRow, tupleColumns, tupleOf } from '../tuple-sql.ts';
import type { EvaluationContext, Resolved, SubjectSearch } from './ask.ts';
import { descentText, isReachable } from './descent.ts';
import { evaluate, type Verdict } from './evaluate.ts';
import { type Bounds, no, nodeKey, yes } from './graph.ts';
import { engineErrors, limits, sizesOf } from './limits.ts';
import { findReachable, type Principal, principalsAmong } from './principals.ts';
import { askRules, noRules } from './record-rules.ts';
import { originsBelow, setsOf } from './rows/predicate-builder.ts';
import { arrowsIn, footprintOf } from './tuple-loading.ts';
import { sourcedStatement, sourceOf } from './tuple-source.ts';

/** Ends with `undefined` when the subject reaches too much, unless the whole way can be followed in the database. */
export const searchFromSubject: SubjectSearch = async (
  scope,
  question,
  evaluationContext,
  bound,
) => {
  try {
    return await search(scope, question, evaluationContext, bound);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    const { object, name } = question;
    const last = bound >= sizesOf(scope).reached;
    if (!last || evaluationContext.contextual.length > 0) return undefined;
    if (!isExact(scope.model, name)) return searchFromObject(scope, question, evaluationContext);
    const bounds = (await isReachable(scope, question)) ? yes : no;
    return given(scope.model, question, new Map([[nodeKey(object, name), bounds]]));
  }
};

const isTooLarge = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  (error.code === engineErrors.PERMISSION_SET_TOO_LARGE.code ||
    error.code === engineErrors.BREADTH_EXCEEDED.code);

/** A verdict of which only the result is known. */
function given(
  model: Model,
  { subject, object, name }: Resolved,
  known: ReadonlyMap<string, Bounds>,
): Verdict {
  const evaluation = {
    model,
    tuples: indexTuples([]),
    subject,
    context: {},
    now: '',
    rules: noRules,
    given: known,
  };
  const bounds = known.get(nodeKey(object, name)) ?? no;
  const nodes = new Map([
    [nodeKey(object, name), { object, name, bounds, rank: 0, given: true as const }],
  ]);
  return { ...bounds, missing: new Set(), state: { evaluation, nodes, missing: new Set() } };
}

async function search(
  scope: Parameters<SubjectSearch>[0],
  { subject, object, name }: Resolved,
  evaluationContext: EvaluationContext,
  bound: number,
): Promise<Verdict> {
  const { model } = scope;
  const names = originsBelow(model, name);
  const { reached } =
    names.length === 0
      ? { reached: [] }
      : await findReachable(scope, { subject, names }, evaluationContext, bound);
  const principals = await principalsAmong(scope, { subject, names }, reached, evaluationContext);
  return decide(scope, { subject, object, name }, evaluationContext, principals);
}

/** Where both sides are too large to be named: of the objects that the object itself names each is asked in the database. */
async function searchFromObject(
  scope: Parameters<SubjectSearch>[0],
  question: Resolved,
  evaluationContext: EvaluationContext,
): Promise<Verdict | undefined> {
  const names = originsBelow(scope.model, question.name);
  if (!names.every((name) => isExact(scope.model, name))) return undefined;
  const principals: Principal[] = [];
  for (const name of names) {
    const ids = await namedAndHeld(scope, question, name);
    if (!ids) return undefined;
    principals.push(...ids.map((id) => ({ type: name.type, id, name: keyOf(name), bounds: yes })));
  }
  return decide(scope, question, evaluationContext, principals);
}

/** Objects in relations of the object on which the subject has a name; `undefined` when they are too many. */
async function namedAndHeld(
  { model, database }: Parameters<SubjectSearch>[0],
  { subject, object, name: goal }: Resolved,
  name: Name,
): Promise<readonly string[] | undefined> {
  const relations = relationsOf(model, goal, object.type);
  const from = sourceOf(
    model,
    relations.map((relation) => ({ type: object.type, relation })),
  );
  const values: unknown[] = [object.type, object.id, arrayText(relations), name.type];
  const held = descentText(model, { subject, name }, 'o.id', (value) => `$${values.push(value)}`);
  const text = `select o.id from (
      select distinct t.subject_id as id from ${from.rows} t
       where t.resource_type = $1::text and t.resource_id = $2::text${from.resource('t', '$2::text')} and t.relation = any($3::text[])
         and t.subject_type = $4::text and t.subject_id <> '*' offset 0) o
    where ${held} limit ${limits.tuples + 1}`;
  const { rows } = await database.query<{ id: string }>({ text, values });
  return rows.length > limits.tuples ? undefined : rows.map(({ id }) => id);
}

/** What tuples of the object say, with what the subject has beyond it. */
async function decide(
  scope: Parameters<SubjectSearch>[0],
  { subject, object, name }: Resolved,
  evaluationContext: EvaluationContext,
  principals: readonly Principal[],
): Promise<Verdict> {
  const { model } = scope;
  const stored = await tuplesNaming(scope, { subject, object, name }, principals);
  const tuples = indexTuples([...stored, ...evaluationContext.contextual]);
  const known = new Map(principals.map((one) => [`${one.id}|${one.name}`, one.bounds] as const));
  const { context } = evaluationContext;
  const now = new Date().toISOString();
  const rules = await askRules(scope, [{ subject, goal: name }], [object], { context, now });
  return evaluate({ model, tuples, subject, context, now, rules, given: known }, object, name);
}

const namingStatement = sourcedStatement(
  (from) => `select ${tupleColumns}, coalesce(expires_at <= now(), false) as expired from (
    select t.* from unnest((select $3::text[]), (select $4::text[]), (select $5::text[])) s(s_type, s_id, s_relation)
      cross join lateral (
        select t.* from ${from.rows} t
         where t.resource_type = (select $1::text) and t.resource_id = (select $2::text)${from.resource('t', '(select $2::text)')} and t.relation = any((select $6::text[])::text[])
           and t.subject_type = s.s_type and t.subject_id = s.s_id and t.subject_relation = s.s_relation offset 0) t
    union
    (select t.* from ${from.rows} t
      where t.resource_type = (select $1::text) and t.resource_id = (select $2::text)${from.resource('t', '(select $2::text)')} and t.relation = any((select $7::text[])::text[])
      limit ${limits.tuples + 1})
  ) x limit ${limits.tuples + 1}`,
);

/** Tuples of the object that name the subject or something through which it acts, and all where each of them counts. */
async function tuplesNaming(
  { model, database }: Parameters<SubjectSearch>[0],
  { subject, object, name }: Resolved,
  principals: readonly Principal[],
): Promise<readonly Tuple[]> {
  const relations = relationsOf(model, name, object.type);
  const from = sourceOf(
    model,
    relations.map((relation) => ({ type: object.type, relation })),
  );
  const sought: readonly SubjectRef[] = [
    ...new Map(
      [...formsOf(subject), ...setsOf(model, principals)].map((one) => [formatSubject(one), one]),
    ).values(),
  ];
  const values = [
    object.type,
    object.id,
    arrayText(sought.map((one) => one.type)),
    arrayText(sought.map((one) => one.id)),
    arrayText(sought.map((one) => one.relation)),
    arrayText(relations),
    arrayText(wholeRelations(model, name)),
  ];
  const { rows } = await database.query<TupleRow>({ ...namingStatement(from), values });
  if (rows.length > limits.tuples) throw engineErrors.BREADTH_EXCEEDED();
  return rows.map(tupleOf).filter((tuple) => fits(model, tuple));
}

/** Relations of a type that a name can hang on. */
const relationsOf = (model: Model, name: Name, type: string): readonly string[] =>
  model.derived(`relations ${type} ${keyOf(name)}`, () => {
    const { probes, follows, sets } = footprintOf(model, name);
    const ofType = [...probes, ...follows, ...sets].filter((row) => row[0] === type);
    return [...new Set(ofType.map((row) => row[1]))];
  });

/** Relations of the object of which every tuple may count: those under "every", and those that lead to what everybody has. */
const wholeRelations = (model: Model, goal: Name): readonly string[] =>
  model.derived(`whole ${keyOf(goal)}`, () => {
    const names = namesOfObject(model, goal, true);
    const every = names.flatMap((name) =>
      arrowsIn(model.expression(name) ?? { kind: 'none' }).flatMap(({ all, relation }) =>
        all ? [relation] : [],
      ),
    );
    const open = names.flatMap((name) =>
      model
        .dependencies(name)
        .flatMap(({ on, through }) =>
          through !== undefined && isPublic(model, on) ? [through] : [],
        ),
    );
    return [...new Set([...every, ...open])];
  });
