/**
 * The objects through which a subject acts: all those on which it has one of
 * the names that the last step to a resource hangs on.
 */
import { type Ascent, ascentTo, isExact, namesOfObject, type StepRule } from '../model/ascent.ts';
import { type SubjectRef, sameObject } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { ascend, type Lookup, lookupsOf, nearest, type Reach, type Reached, reachedKey } from './ascend.ts';
import type { Circumstances, World } from './ask.ts';
import type { Bounds } from './bounds.ts';
import { yes } from './bounds.ts';
import { engineErrors } from './errors.ts';
import { meansSet } from './graph.ts';
import { limits } from './limits.ts';
import { sift } from './sift.ts';

/** An object with a name that the subject has on it, for sure or possibly. */
export interface Principal {
  readonly type: string;
  readonly id: string;
  /** `keyOf` the name. */
  readonly name: string;
  readonly bounds: Bounds;
}

/** All objects on which the subject has one of `names`. Throws when they are too many or too far away. */
export async function principalsOf(
  world: World,
  subject: SubjectRef,
  names: readonly Name[],
  circumstances: Circumstances,
): Promise<readonly Principal[]> {
  if (names.length === 0) return [];
  const { reached } = await climb(world, { subject, names }, circumstances);
  return principalsAmong(world, { subject, names }, reached, circumstances);
}

/** Who goes up, and to which names. */
export interface Climb {
  readonly subject: SubjectRef;
  readonly names: readonly Name[];
}

/** Those of what was reached that the subject has, evaluated where the way up gives candidates only. */
export async function principalsAmong(
  world: World,
  { subject, names }: Climb,
  reached: readonly Reached[],
  circumstances: Circumstances,
): Promise<readonly Principal[]> {
  const { model } = world;
  const wanted = new Map(names.map((name) => [keyOf(name), name]));
  const candidates = reached.filter((r) => wanted.has(r.name));
  const inexact = new Set(names.filter((n) => !isExact(model, n)).map(keyOf));
  const questions = candidates
    .filter((c) => inexact.has(c.name))
    .flatMap((candidate) => {
      const name = wanted.get(candidate.name);
      return name ? [{ candidate, question: { subject, object: { type: candidate.type, id: candidate.id }, name } }] : [];
    });
  const bounds = await sift(
    world,
    questions.map((q) => q.question),
    circumstances,
  );
  const certain = candidates.filter((c) => !inexact.has(c.name)).map((c) => ({ ...c, bounds: yes }));
  const sifted = questions.flatMap(({ candidate }, i) => (bounds[i]?.possible ? [{ ...candidate, bounds: bounds[i] }] : []));
  return [...certain, ...sifted];
}

/** Everything that leads to the names; contextual tuples count as if they were stored. Throws `DEPTH_LIMIT` when something is only reached at the limit. */
export async function climb({ model, database }: World, { subject, names }: Climb, { contextual }: Circumstances): Promise<Reach> {
  const ascent = ascentTo(model, names);
  const lookups = lookupsOf(model, subject, ascent.direct);
  const open = ascent.open.map((name) => ({ type: name.type, name: keyOf(name) }));
  const first = await ascend(database, { lookups, seeds: ownSet(model, subject, ascent), open }, ascent);
  let { reached } = first;
  while (contextual.length > 0) {
    const seeds = contextualSeeds({ ascent, lookups, contextual }, reached);
    if (seeds.length === 0) break;
    reached = nearest([...reached, ...(await ascend(database, { lookups: [], seeds, open: [] }, ascent)).reached]);
  }
  if (reached.some((r) => r.depth >= limits.depth)) throw engineErrors.DEPTH_LIMIT();
  return { reached, until: first.until };
}

/** A subject set is in itself, and in everything of the same object that it counts towards. */
function ownSet(model: Model, subject: SubjectRef, { names }: Ascent): readonly Reached[] {
  return [...names.values()]
    .filter((name) => hasOwnSet(model, subject, name))
    .map((name) => ({ type: subject.type, id: subject.id, name: keyOf(name), depth: 0 }));
}

/** True when a subject set may have the name on its own object because of what it is. */
export const hasOwnSet = (model: Model, subject: SubjectRef, name: Name): boolean =>
  name.type === subject.type && namesOfObject(model, name).some((inner) => meansSet(model, subject, inner));

interface ContextualStart {
  readonly ascent: Ascent;
  readonly lookups: readonly Lookup[];
  readonly contextual: Circumstances['contextual'];
}

/** What contextual tuples add to what is reached already. */
function contextualSeeds({ ascent, lookups, contextual }: ContextualStart, reached: readonly Reached[]): readonly Reached[] {
  const known = new Map(reached.map((r) => [reachedKey(r), r]));
  const found = contextual.flatMap(({ subject, relation, resource }) => {
    const leads = (rule: { type: string; relation: string }): boolean => rule.type === resource.type && rule.relation === relation;
    const direct = lookups
      .filter((l) => leads(l.rule) && sameObject(l.subject, subject) && l.subject.relation === subject.relation)
      .map(({ rule }) => ({ ...resource, name: rule.name, depth: 0 }));
    const steps = ascent.steps
      .filter((s) => leads(s) && s.fromType === subject.type && s.setRelation === subject.relation)
      .flatMap((s) => stepOn(s, known.get(reachedKey({ type: subject.type, id: subject.id, name: s.fromName })), resource));
    return [...direct, ...steps];
  });
  const openOnes = ascent.open.flatMap((name) =>
    contextual
      .filter((t) => t.subject.type === name.type && t.subject.id !== '*')
      .map((t) => ({ type: name.type, id: t.subject.id, name: keyOf(name), depth: 0 })),
  );
  return nearest([...found, ...openOnes]).filter((seed) => !known.has(reachedKey(seed)));
}

const stepOn = (step: StepRule, from: Reached | undefined, resource: { type: string; id: string }): readonly Reached[] =>
  from ? [{ ...resource, name: step.name, depth: from.depth + 1 }] : [];
