/** Questions about single objects: names are resolved, tuples loaded, verdicts turned into answers. */

import type { Queryable } from '../../../kernel/database/database.ts';
import { invalid, type PenstockError, relocated } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { footprintOf, mergeFootprints } from '../model/footprint.ts';
import { formatObject, type ObjectRef, type SubjectRef, sameObject } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import { misfit } from '../model/validity.ts';
import type { AskOptions, Question } from './engine.ts';
import { engineErrors } from './errors.ts';
import { evaluate, type Verdict } from './evaluate.ts';
import type { Evaluation } from './graph.ts';
import { limits } from './limits.ts';
import { loadTuples } from './load.ts';
import { indexTuples, type Tuple } from './tuple.ts';

/** A model, and the database that is asked. */
export interface World {
  readonly model: Model;
  readonly database: Queryable;
}

/** A question whose words are known to the model. */
export interface Resolved {
  readonly subject: SubjectRef;
  readonly object: ObjectRef;
  readonly name: Name;
}

/** Checked options of a question. */
export interface Circumstances {
  readonly context: Readonly<Record<string, unknown>>;
  readonly contextual: readonly Tuple[];
}

/** The name that an action has on a type; 400 for an unknown type or an undeclared action. */
export function resolveName(model: Model, type: string, action: string): Name {
  if (!model.get(type)) throw invalid('resource', 'type', `no type is called "${cutText(type, 64)}"`);
  const name = model.action(type, action);
  if (!name) throw invalid('action', 'action', `"${cutText(action, 64)}" is not an action of ${type}`);
  return name;
}

/** 400 for a subject of an unknown type or set. */
export function requireSubject(model: Model, { type, relation }: SubjectRef): void {
  if (!model.get(type)) throw invalid('subject', 'type', `no type is called "${cutText(type, 64)}"`);
  if (relation !== '' && !model.member(type, relation)) {
    throw invalid('subject', 'relation', `"${cutText(relation, 64)}" is neither a relation nor an action of ${type}`);
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
export function circumstancesOf(model: Model, { context = {}, contextual = [] }: AskOptions = {}): Circumstances {
  if (contextual.length > limits.contextual) {
    throw invalid('contextual', 'maxItems', `at most ${limits.contextual} tuples for one question`);
  }
  for (const tuple of contextual) {
    const fault = misfit(model, tuple);
    if (fault) throw fault;
  }
  return { context, contextual };
}

/** An object has every declared action on itself (spec/authorization.md 5.5); only the question itself is meant, not what it rests on. */
export const isSelf = ({ subject, object, name }: Resolved): boolean =>
  name.kind === 'action' && subject.relation === '' && sameObject(subject, object);

/** Evaluations over one load for several questions, in their order. */
export async function evaluateAll(world: World, questions: readonly Resolved[], circumstances: Circumstances): Promise<readonly Verdict[]> {
  const { model, database } = world;
  const { context, contextual } = circumstances;
  const stored = await loadTuples(database, model, {
    footprint: mergeFootprints([...new Set(questions.map(({ name }) => footprintOf(model, name)))]),
    subjects: uniqueBy(questions.map((q) => q.subject)),
    // What a contextual tuple leads to cannot be reached through stored ones.
    objects: uniqueBy([...questions.map((q) => ({ ...q.object, relation: '' })), ...contextual.map((t) => t.subject)]),
  });
  const tuples = indexTuples([...stored, ...contextual]);
  const now = new Date().toISOString();
  return questions.map(({ subject, object, name }) => {
    const evaluation: Evaluation = { model, tuples, subject, context, now };
    return evaluate(evaluation, object, name);
  });
}

const uniqueBy = (refs: readonly SubjectRef[]): readonly SubjectRef[] => [
  ...new Map(refs.map((ref) => [`${formatObject(ref)}#${ref.relation}`, ref])).values(),
];

/** The answer of a verdict, or the error that says why there is none. */
export function answerOf({ sure, possible, missing, tooDeep }: Verdict): boolean {
  if (sure === possible) return sure;
  throw tooDeep ? engineErrors.DEPTH_LIMIT() : contextMissing([...missing]);
}

const contextMissing = (names: readonly string[]): PenstockError =>
  engineErrors.CONTEXT_MISSING({
    message: `The answer hangs on values that the request did not give: ${names.join(', ')}`,
    errors: names.map((name) => ({ path: `context.${name}`, rule: 'required', message: 'must be given' })),
  });

/** Answers in the order of the questions, from one load. */
export async function checkAll(world: World, questions: readonly Question[], options?: AskOptions): Promise<readonly boolean[]> {
  if (questions.length > limits.batch) throw invalid('checks', 'maxItems', `at most ${limits.batch} questions in one batch`);
  if (questions.length === 0) return [];
  const resolved = questions.map((question, i) => resolveAt(world.model, question, questions.length > 1 ? `${i}.` : ''));
  const circumstances = circumstancesOf(world.model, options);
  if (resolved.every(isSelf)) return resolved.map(() => true);
  const verdicts = await evaluateAll(world, resolved, circumstances);
  return verdicts.map((verdict, i) => (resolved[i] && isSelf(resolved[i]) ? true : answerOf(verdict)));
}
