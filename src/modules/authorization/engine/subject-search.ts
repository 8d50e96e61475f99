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
import { askedTuples } from './asked-tuples.ts';
import { descentText, isReachable } from './descent.ts';
import { evaluate, type Verdict } from './evaluate.ts';
import { type Bounds, no, nodeKey, yes } from './graph.ts';
import { engineErrors, limits, sizesOf } from './limits.ts';
import { findReachable, type Principal, principalsAmong, principalsOf } from './principals.ts';
import { askRules, factsBelow, noRules, rulesBelow } from './record-rules.ts';
import { conditionValues, noConditional } from './rows/conditional-tuples.ts';
import { withObjectTests } from './rows/object-test.ts';
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
    const last = bound >= sizesOf(scope).reached;
    if (!last) return undefined;
    const found = await searchByName(scope, question, evaluationContext);
    if (found) return found;
    const answer = await askObject(scope, question, evaluationContext).catch(ignoreTooLarge);
    return answer && given(scope.model, question, answer);
  }
};

const isTooLarge = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  (error.code === engineErrors.PERMISSION_SET_TOO_LARGE.code ||
    error.code === engineErrors.BREADTH_EXCEEDED.code);

interface ObjectAnswer extends Bounds {
  /** Values that it hangs on. */
  readonly missing: readonly string[];
}

const all: ObjectAnswer = { ...yes, missing: [] };
const none: ObjectAnswer = { ...no, missing: [] };

/** A verdict of which only the result is known. */
function given(
  model: Model,
  { subject, object, name }: Resolved,
  { sure, possible, missing }: ObjectAnswer,
): Verdict {
  const bounds: Bounds = { sure, possible };
  const tuples = indexTuples([]);
  const evaluation = { model, tuples, subject, context: {}, now: '', rules: noRules };
  const node = { object, name, bounds, rank: 0, given: true as const };
  const state = {
    evaluation,
    nodes: new Map([[nodeKey(object, name), node]]),
    missing: new Set<string>(),
  };
  return { ...bounds, missing: new Set(sure === possible ? [] : missing), state };
}

/** The whole question in the database, whatever the name is made of. */
async function askObject(
  scope: Parameters<SubjectSearch>[0],
  question: Resolved,
  { context, contextual, unnamed }: EvaluationContext,
): Promise<ObjectAnswer> {
  const { model, database } = scope;
  const { subject, object, name } = question;
  if (isExact(model, name)) return (await isReachable(scope, question, contextual)) ? all : none;
  const conditions = await conditionValues(scope, name, { context, contextual });
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const { table, prelude } = askedTuples(model, contextual, next);
  const builder = withObjectTests({
    model,
    subject,
    principals: new Map(),
    conditional: noConditional,
    conditions,
    known: new Map(),
    now: new Date().toISOString(),
    facts: await factsBelow(scope, subject, name),
    context,
    unnamed,
    table,
  });
  const id = `(select ${next(object.id)}::text)`;
  const [sure, possible] = (['sure', 'possible'] as const).map((polarity) =>
    builder.holds?.(name, polarity)(id, next),
  );
  const text = `${prelude}select ${sure} as sure, ${possible} as possible`;
  const { rows } = await database.query<Bounds>({ text, values });
  const rules = [...rulesBelow(model, name).values()].flatMap((ofType) => [...ofType]);
  const parameters = rules.flatMap((rule) => [...rule.parameters.keys()]);
  const open = parameters.filter((parameter) => !Object.hasOwn(context, parameter));
  return { ...(rows[0] ?? no), missing: [...new Set([...conditions.missing, ...open])] };
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

/**
 * Where both sides are too large to be named together: each name from the side that is small, of the subject, or of the
 * object, where each of the objects that it names is asked in the database. `undefined` where both are too large for one,
 * and where tuples count that are not stored.
 */
async function searchByName(
  scope: Parameters<SubjectSearch>[0],
  question: Resolved,
  evaluationContext: EvaluationContext,
): Promise<Verdict | undefined> {
  const { subject } = question;
  const principals: Principal[] = [];
  if (evaluationContext.contextual.length > 0) return undefined;
  for (const name of originsBelow(scope.model, question.name)) {
    const found =
      (await principalsOf(scope, subject, [name], evaluationContext).catch(ignoreTooLarge)) ??
      (isExact(scope.model, name) ? await namedAndHeld(scope, question, name) : undefined);
    if (!found) return undefined;
    principals.push(...found);
  }
  return decide(scope, question, evaluationContext, principals).catch(ignoreTooLarge);
}

const ignoreTooLarge = (error: unknown): undefined => {
  if (!isTooLarge(error)) throw error;
};

/** Objects in relations of the object on which the subject has a name; `undefined` when they are too many. */
async function namedAndHeld(
  { model, database }: Parameters<SubjectSearch>[0],
  { subject, object, name: goal }: Resolved,
  name: Name,
): Promise<readonly Principal[] | undefined> {
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
  if (rows.length > limits.tuples) return undefined;
  return rows.map(({ id }) => ({ type: name.type, id, name: keyOf(name), bounds: yes }));
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
  const tuples = indexTuples(stored, evaluationContext.contextual);
  const known = new Map(principals.map((one) => [`${one.id}|${one.name}`, one.bounds] as const));
  const { context, unnamed } = evaluationContext;
  const now = new Date().toISOString();
  const given = { context, now, unnamed };
  const rules = await askRules(scope, [{ subject, goal: name }], [object], given);
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
