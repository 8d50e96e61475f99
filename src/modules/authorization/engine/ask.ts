/** Questions about single objects: names are resolved, tuples loaded, verdicts turned into answers. */
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { invalid, PenstockError, relocated } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import {
  formatSubject,
  isEverybody,
  type ObjectRef,
  type SubjectRef,
  sameObject,
} from '../model/grammar.ts';
import { grantedAction, type Model, type Name } from '../model/model.ts';
import { fits, indexTuples, type Tuple, tupleProblem } from '../model/tuple.ts';
import { liveTuple } from '../tuple-sql.ts';
import type { Answer, AskOptions, Question } from './engine.ts';
import { evaluateEach, type Verdict } from './evaluate.ts';
import type { Bounds } from './graph.ts';
import { engineErrors, limits, sizesOf } from './limits.ts';
import { askRules, type RuleScope, rulesBelow } from './record-rules.ts';
import { footprintOf, loadTuples, mergeFootprints } from './tuple-loading.ts';
import { sourcedStatement, sourceOf } from './tuple-source.ts';
/** A model, the database that is asked, and what is known of callers. */
export interface EngineScope extends RuleScope {
  /** Decides a question below whose object more stands than is loaded. Absent: there is no other way. */
  readonly search?: SubjectSearch;
}

/** A search from the side of the subject, which may reach up to `bound` objects. `undefined` when that is not enough. */
export type SubjectSearch = (
  scope: Omit<EngineScope, 'search'>,
  question: Resolved,
  evaluationContext: EvaluationContext,
  bound: number,
) => Promise<Verdict | undefined>;

/** A question whose words are known to the model. */
export interface Resolved {
  readonly subject: SubjectRef;
  readonly object: ObjectRef;
  readonly name: Name;
}

/** Checked options of a question. */
export interface EvaluationContext {
  readonly context: Readonly<Record<string, unknown>>;
  readonly contextual: readonly Tuple[];
  /** `Type:*` is somebody of the type whom nothing names; unless set, it is not known who that is. */
  readonly unnamed?: true;
  /** What rules say of records that are not there is not known; unless set, they hold for none of them. */
  readonly gone?: true;
}

/** The name that an action has on a type; 400 for an unknown type or an undeclared action. */
export function resolveName(model: Model, type: string, action: string): Name {
  if (!model.get(type))
    throw invalid('resource', 'type', `no type is called "${cutText(type, 64)}"`);
  const name = model.action(type, action);
  if (!name)
    throw invalid('action', 'action', `"${cutText(action, 64)}" is not an action of ${type}`);
  return name;
}

/** 400 for a subject of an unknown type or set. */
export function requireSubject(model: Model, { type, relation }: SubjectRef): void {
  if (isEverybody({ type })) return;
  if (!model.get(type))
    throw invalid('subject', 'type', `no type is called "${cutText(type, 64)}"`);
  if (relation !== '' && !model.member(type, relation)) {
    throw invalid(
      'subject',
      'relation',
      `"${cutText(relation, 64)}" is neither a relation nor an action of ${type}`,
    );
  }
}

export function resolve(model: Model, { subject, action, resource }: Question): Resolved {
  requireSubject(model, subject);
  return { subject, object: resource, name: resolveName(model, resource.type, action) };
}

/** The same for one of several questions: what is wrong is told with its number in front. */
function resolveAt(model: Model, question: Question, place: string): Resolved {
  try {
    return resolve(model, question);
  } catch (error) {
    throw relocated(error, (path) => `${place}${path}`);
  }
}

/** Checks what a caller gives beside the question; contextual tuples must fit like stored ones. */
export function evaluationContextOf(
  model: Model,
  { context = {}, contextual = [], gone }: AskOptions = {},
): EvaluationContext {
  const max = gone ? limits.goneTuples : limits.contextual;
  if (contextual.length > max)
    throw invalid('contextual', 'maxItems', `at most ${max} tuples for one question`);
  if (gone) return { context, contextual: contextual.filter((tuple) => fits(model, tuple)), gone };
  for (const tuple of contextual) {
    const problem = tupleProblem(model, tuple);
    if (problem) throw problem;
  }
  return { context, contextual };
}

/** An object has every declared action on itself (spec/authorization.md 5.5); only the question itself is meant, not what it rests on. */
export const isSelf = ({ subject, object, name }: Resolved): boolean =>
  name.kind === 'action' &&
  subject.relation === '' &&
  !subject.represented &&
  sameObject(subject, object);

/** Evaluations of several questions, in their order: over one load where that is not too large. Throws `BREADTH_EXCEEDED`. */
export async function evaluateAll(
  engineScope: EngineScope,
  questions: readonly Resolved[],
  evaluationContext: EvaluationContext,
): Promise<readonly Verdict[]> {
  const [question, ...more] = questions;
  if (!question) return [];
  // Rules are asked of the records by statements of their own: tuples and records of one moment decide.
  if (asksRecords(engineScope, questions))
    return inOneSnapshot(engineScope, ({ search, ...scope }) =>
      // A search asks rules of the records that are there.
      evaluateAll(
        { ...scope, ...(search && !evaluationContext.gone && { search }) },
        questions,
        evaluationContext,
      ),
    );
  const verdicts = await evaluateLoaded(
    engineScope,
    questions,
    evaluationContext,
    more.length === 0 && engineScope.search ? FEW_TUPLES : sizesOf(engineScope).tuples,
  );
  if (verdicts) return verdicts;
  return inOneSnapshot(engineScope, async (scope) => {
    if (more.length === 0) return [await evaluateLarge(scope, question, evaluationContext)];
    // Too much for one load of many may still be little for each.
    const half = questions.length >> 1;
    const first = await evaluateAll(scope, questions.slice(0, half), evaluationContext);
    return [...first, ...(await evaluateAll(scope, questions.slice(half), evaluationContext))];
  });
}

const asksRecords = ({ model, database }: EngineScope, questions: readonly Resolved[]): boolean =>
  isDatabase(database) && questions.some(({ name }) => rulesBelow(model, name).size > 0);

/** Up to so many tuples below an object are loaded before it is tried from the side of the subject. */
const FEW_TUPLES = 1_000;
/** Up to so many objects above the subject are less work than all tuples below the object. */
const FEW_REACHED = 2_000;

/** From the side that is smaller, of which nobody knows beforehand which it is. */
async function evaluateLarge(
  { search, ...engineScope }: EngineScope,
  question: Resolved,
  evaluationContext: EvaluationContext,
): Promise<Verdict> {
  const { tuples, reached } = sizesOf(engineScope);
  const verdict =
    (await search?.(engineScope, question, evaluationContext, FEW_REACHED)) ??
    (await evaluateLoaded(engineScope, [question], evaluationContext, tuples))?.[0] ??
    (await search?.(engineScope, question, evaluationContext, reached));
  if (!verdict) throw engineErrors.BREADTH_EXCEEDED();
  return verdict;
}

/** `undefined` when more than `bound` tuples are below the objects. */
async function evaluateLoaded(
  engineScope: EngineScope,
  questions: readonly Resolved[],
  { context, contextual, unnamed, gone }: EvaluationContext,
  bound: number,
): Promise<readonly Verdict[] | undefined> {
  const { model, database } = engineScope;
  const request = {
    footprint: mergeFootprints([...new Set(questions.map(({ name }) => footprintOf(model, name)))]),
    subjects: uniqueBy(questions.map((q) => q.subject)),
    // What a contextual tuple leads to cannot be reached through stored ones.
    objects: uniqueBy([
      ...questions.map((q) => ({ ...q.object, relation: '' })),
      ...contextual.map((t) => t.subject),
    ]),
  };
  const stored = await loadTuples(database, model, request, bound);
  if (!stored) return undefined;
  const tuples = indexTuples(stored, contextual);
  const now = new Date().toISOString();
  const rules = await askRules(
    engineScope,
    questions.map(({ subject, name }) => ({ subject, goal: name })),
    [...questions.map(({ object }) => object), ...[...stored, ...contextual].map((t) => t.subject)],
    { context, now, unnamed, gone },
  );
  return evaluateEach({ model, tuples, context, now, rules }, questions);
}

/** Several statements that see one state of the database: what they find out together held at one moment. */
function inOneSnapshot<T>(
  engineScope: EngineScope,
  work: (scope: EngineScope) => Promise<T>,
): Promise<T> {
  const { database } = engineScope;
  if (!isDatabase(database)) return work(engineScope);
  return database.transaction((transaction) => work({ ...engineScope, database: transaction }), {
    isolation: 'repeatable read',
    readOnly: true,
  });
}

/** A transaction has no transactions of its own. */
const isDatabase = (database: Queryable): database is Database =>
  'transaction' in database && !(database as Database).inTransaction();

const uniqueBy = (refs: readonly SubjectRef[]): readonly SubjectRef[] => [
  ...new Map(refs.map((ref) => [formatSubject(ref), ref])).values(),
];

/** Whether a request could say more; what no request can decide is not allowed. */
export const isOpen = ({ sure, possible, missing }: CandidateBounds): boolean =>
  sure !== possible && (missing?.size ?? 0) > 0;

/** The answer of a verdict, or the error that says why there is none. */
function answerOf(verdict: Verdict): boolean {
  if (isOpen(verdict)) throw contextMissing([...verdict.missing]);
  return verdict.sure;
}

const contextMissing = (names: readonly string[]): PenstockError =>
  engineErrors.CONTEXT_MISSING({
    message: `The answer depends on context values that the request did not give: ${names.join(', ')}`,
    errors: names.map((name) => ({
      path: `context.${name}`,
      rule: 'required',
      message: 'must be given',
    })),
  });

/** Answers in the order of the questions, from one load. */
export async function checkAll(
  engineScope: EngineScope,
  questions: readonly Question[],
  options?: AskOptions,
): Promise<readonly boolean[]> {
  const { resolved, evaluationContext } = understood(engineScope, questions, options);
  if (resolved.every(isSelf)) return resolved.map(() => true);
  const verdicts = await evaluateAll(engineScope, resolved, evaluationContext);
  return verdicts.map((verdict, i) =>
    resolved[i] && isSelf(resolved[i]) ? true : answerOf(verdict),
  );
}

function understood(
  { model }: EngineScope,
  questions: readonly Question[],
  options: AskOptions | undefined,
): { readonly resolved: readonly Resolved[]; readonly evaluationContext: EvaluationContext } {
  if (questions.length > limits.batch)
    throw invalid('checks', 'maxItems', `at most ${limits.batch} questions in one batch`);
  const resolved = questions.map((question, i) =>
    resolveAt(model, question, questions.length > 1 ? `${i}.` : ''),
  );
  return { resolved, evaluationContext: evaluationContextOf(model, options) };
}

/** The same; what cannot be answered says so in its own place. */
export async function answerAll(
  engineScope: EngineScope,
  questions: readonly Question[],
  options?: AskOptions,
): Promise<readonly Answer[]> {
  const { resolved, evaluationContext } = understood(engineScope, questions, options);
  const answered = (verdict: Verdict, i: number): Answer =>
    resolved[i] && isSelf(resolved[i]) ? { allowed: true } : answerIn(verdict);
  try {
    return (await evaluateAll(engineScope, resolved, evaluationContext)).map(answered);
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    if (questions.length === 1) return [{ allowed: false, undecided: error }];
  }
  const each: Answer[] = [];
  for (const question of questions)
    each.push(...(await answerAll(engineScope, [question], options)));
  return each;
}

const answerIn = (verdict: Verdict): Answer =>
  isOpen(verdict)
    ? { allowed: false, undecided: contextMissing([...verdict.missing]) }
    : { allowed: verdict.sure };

const isTooMuch = (error: unknown): error is PenstockError =>
  error instanceof PenstockError && error.code === engineErrors.BREADTH_EXCEEDED.code;

/* Evaluates many candidates exactly, in chunks that share a load. */

const CHUNK = 200;

/** Bounds, with the values of a request that they hang on. */
export interface CandidateBounds extends Bounds {
  readonly missing?: ReadonlySet<string>;
}

/** Bounds of each question, in order, without the rule of the object itself (`isSelf`). */
export async function keepAllowed(
  engineScope: EngineScope,
  questions: readonly Resolved[],
  evaluationContext: EvaluationContext,
): Promise<readonly CandidateBounds[]> {
  const found: CandidateBounds[] = [];
  for (let start = 0; start < questions.length; start += CHUNK) {
    const chunk = questions.slice(start, start + CHUNK);
    found.push(...(await evaluateAll(engineScope, chunk, evaluationContext)));
  }
  return found;
}

/* Relations in which a subject stands on a resource by a tuple of its own. */

const directStatement = sourcedStatement(
  (from) => `select distinct t.relation from ${from.rows} t
   where t.resource_type = $1 and t.resource_id = $2${from.resource('t', '$2::text')}
     and t.subject_type = $3 and t.subject_id = $4 and t.subject_relation = $5
     and t.condition is null and ${liveTuple('t')}
   order by t.relation`,
);

/** Names in byte order; tuples whose time is over, that need a condition or that fit no more are left out. */
export async function directRelations(
  { model, database }: EngineScope,
  subject: SubjectRef,
  resource: ObjectRef,
): Promise<readonly string[]> {
  const ofType = model.recordRelations.filter(({ type }) => type === resource.type);
  const { rows } = await database.query<{ relation: string }>({
    ...directStatement(sourceOf(model, ofType)),
    values: [resource.type, resource.id, subject.type, subject.id, subject.relation],
  });
  return rows
    .map((row) => row.relation)
    .filter(
      (relation) =>
        grantedAction(relation) === undefined && fits(model, { subject, relation, resource }),
    );
}
