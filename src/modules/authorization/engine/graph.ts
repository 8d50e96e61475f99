/**
 * The part of the model and its tuples that a question can hang on: one node for each name of
 * each object that can be reached from it through the tuples that are loaded.
 */
import { isPublic } from '../model/expansion-rules.ts';
import type { RecordRule } from '../model/expression.ts';
import { type ObjectRef, type SubjectRef, sameObject } from '../model/grammar.ts';
import { type Dependency, keyOf, type Model, type Name } from '../model/model.ts';
import type { TupleIndex } from '../model/tuple.ts';

/**
 * Truth of which not everything may be known: the lower bound (`sure`) and the
 * upper bound (`possible`). They differ only where a value that a condition
 * needs is missing.
 */
export interface Bounds {
  readonly sure: boolean;
  readonly possible: boolean;
}

export const no: Bounds = { sure: false, possible: false };
export const yes: Bounds = { sure: true, possible: true };
export const unknown: Bounds = { sure: false, possible: true };

const bounds = (sure: boolean, possible: boolean): Bounds => (sure ? yes : possible ? unknown : no);

export const either = (all: readonly Bounds[]): Bounds =>
  bounds(
    all.some((b) => b.sure),
    all.some((b) => b.possible),
  );

export const both = (all: readonly Bounds[]): Bounds =>
  bounds(
    all.every((b) => b.sure),
    all.every((b) => b.possible),
  );

export const without = (base: Bounds, subtract: Bounds): Bounds =>
  bounds(base.sure && !subtract.possible, base.possible && !subtract.sure);

/** What a question is evaluated against. */
export interface Evaluation {
  readonly model: Model;
  /** Holds only tuples that fit the model. */
  readonly tuples: TupleIndex;
  readonly subject: SubjectRef;
  readonly context: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly now: string;
  /** What is known of all objects that relations of the asked one lead to, by `nodeKey`; what is not named is not so. Absent: it is found out from the tuples. */
  readonly given?: ReadonlyMap<string, Bounds>;
  /** What rules say about records on the way. */
  readonly rules: RuleLookup;
}

interface RuleLookup {
  of(
    subject: SubjectRef,
    object: ObjectRef,
    rule: RecordRule,
  ): { readonly bounds: Bounds; readonly missing: readonly string[] };
}

export interface Node {
  readonly object: ObjectRef;
  readonly name: Name;
  bounds: Bounds;
  /** When it became true, counted over all nodes; what it leans on was true before. */
  rank: number;
  /** Known from elsewhere: nothing is made of it, and nothing can be told about why. */
  readonly given?: true;
}

export type Graph = Map<string, Node>;

export const nodeKey = (object: ObjectRef, name: Name): string => `${object.id}|${keyOf(name)}`;

export interface Place {
  readonly object: ObjectRef;
  readonly name: Name;
}

/** Every node, nearest first: names of the same object cost no step. Those that `nodes` has already are passed over. */
export function discover(
  evaluation: Evaluation,
  { object, name }: Place,
  nodes: Graph = new Map(),
): Graph {
  let level: Place[] = [{ object, name }];
  for (let steps = 0; level.length > 0; steps += 1) {
    const beyond: Place[] = [];
    for (let next = level.pop(); next; next = level.pop()) {
      const key = nodeKey(next.object, next.name);
      if (nodes.has(key)) continue;
      // Also of the object itself, where a relation leads back to it: what it has there was found from the subject.
      if (evaluation.given && steps > 0) {
        nodes.set(key, { ...next, bounds: givenBounds(evaluation, next), rank: 0, given: true });
        continue;
      }
      nodes.set(key, { ...next, bounds: no, rank: 0 });
      addSteps(evaluation, next, level, beyond);
    }
    level = beyond;
  }
  return nodes;
}

const givenBounds = ({ model, given }: Evaluation, { object, name }: Place): Bounds =>
  isPublic(model, name) ? yes : (given?.get(nodeKey(object, name)) ?? no);

function addSteps(
  { model, tuples }: Evaluation,
  { object, name }: Place,
  here: Place[],
  beyond: Place[],
): void {
  for (const dependency of model.dependencies(name)) {
    const { on, through } = dependency;
    if (through === undefined) {
      here.push({ object, name: on });
      continue;
    }
    for (const { subject } of tuples.of(object, through)) {
      if (leadsTo(model, subject, dependency)) beyond.push({ object: subject, name: on });
    }
  }
}

/** Whether a dependency goes on at the object of this subject. */
function leadsTo(model: Model, subject: SubjectRef, { on, set, via }: Dependency): boolean {
  if (subject.type !== on.type) return false;
  if (set) return meansSet(model, subject, on);
  return via === '' ? isPlain(subject) : subject.relation === via;
}

/** One concrete object, neither a set nor everybody of a type. */
export const isPlain = (subject: SubjectRef): boolean =>
  subject.relation === '' && subject.id !== '*';

/** True when the subject set consists of those who have `on` on its object. */
export function meansSet(model: Model, subject: SubjectRef, on: Name): boolean {
  if (subject.relation === '') return false;
  const meant = model.member(subject.type, subject.relation);
  return meant !== undefined && meant.kind === on.kind && meant.name === on.name;
}

/** A subject set is in itself. */
export const isOwnSet = ({ model, subject }: Evaluation, object: ObjectRef, name: Name): boolean =>
  subject.relation !== '' && sameObject(subject, object) && meansSet(model, subject, name);
