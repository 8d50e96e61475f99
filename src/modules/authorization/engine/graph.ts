/**
 * The part of the world that a question can hang on: one node for each name of
 * each object that can be reached from it through the tuples that are loaded.
 */
import { type ObjectRef, type SubjectRef, sameObject } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { type Bounds, no } from './bounds.ts';
import { limits } from './limits.ts';
import type { TupleIndex } from './tuple.ts';

/** What a question is evaluated against. */
export interface Evaluation {
  readonly model: Model;
  /** Holds only tuples that fit the model. */
  readonly tuples: TupleIndex;
  readonly subject: SubjectRef;
  readonly context: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly now: string;
}

export interface Node {
  readonly object: ObjectRef;
  readonly name: Name;
  bounds: Bounds;
  /** When it became true, counted over all nodes; what it leans on was true before. */
  rank: number;
}

export type Graph = Map<string, Node>;

export const nodeKey = (object: ObjectRef, name: Name): string => `${object.id}|${keyOf(name)}`;

interface Place {
  readonly object: ObjectRef;
  readonly name: Name;
}

/** Every node within the depth limit, nearest first: names of the same object cost no step. */
export function discover(evaluation: Evaluation, object: ObjectRef, name: Name): Graph {
  const nodes: Graph = new Map();
  let level: Place[] = [{ object, name }];
  for (let depth = 0; level.length > 0 && depth <= limits.depth; depth += 1) {
    const beyond: Place[] = [];
    for (let next = level.pop(); next; next = level.pop()) {
      const key = nodeKey(next.object, next.name);
      if (nodes.has(key)) continue;
      nodes.set(key, { ...next, bounds: no, rank: 0 });
      addSteps(evaluation, next, level, beyond);
    }
    level = beyond;
  }
  return nodes;
}

function addSteps({ model, tuples }: Evaluation, { object, name }: Place, here: Place[], beyond: Place[]): void {
  for (const { on, through, set } of model.dependencies(name)) {
    if (through === undefined) {
      here.push({ object, name: on });
      continue;
    }
    for (const { subject } of tuples.of(object, through)) {
      if (subject.type !== on.type) continue;
      if (set ? meansSet(model, subject, on) : isPlain(subject)) beyond.push({ object: subject, name: on });
    }
  }
}

/** One concrete object, neither a set nor everybody of a type. */
export const isPlain = (subject: SubjectRef): boolean => subject.relation === '' && subject.id !== '*';

/** True when the subject set consists of those who have `on` on its object. */
export function meansSet(model: Model, subject: SubjectRef, on: Name): boolean {
  if (subject.relation === '') return false;
  const meant = model.member(subject.type, subject.relation);
  return meant !== undefined && meant.kind === on.kind && meant.name === on.name;
}

/** A subject set is in itself. */
export const isOwnSet = ({ model, subject }: Evaluation, object: ObjectRef, name: Name): boolean =>
  subject.relation !== '' && sameObject(subject, object) && meansSet(model, subject, name);
