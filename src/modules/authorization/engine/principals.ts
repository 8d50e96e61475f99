/**
 * The objects through which a subject acts: all those on which it has one of
 * the names that the last step to a resource hangs on.
 */
import {
  type ExpansionRules,
  expansionTo,
  isExact,
  namesOfObject,
  type StepRule,
} from '../model/expansion-rules.ts';
import { type SubjectRef, sameObject } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { type EngineScope, type EvaluationContext, keepAllowed } from './ask.ts';
import { type Bounds, meansSet, yes } from './graph.ts';
import {
  distinct,
  expandReverse,
  type Lookup,
  lookupsOf,
  type ReachableObject,
  type ReachableSet,
  reachableKey,
} from './reverse-expansion.ts';

/** An object with a name that the subject has on it, for sure or possibly. */
export interface Principal {
  readonly type: string;
  readonly id: string;
  /** `keyOf` the name. */
  readonly name: string;
  readonly bounds: Bounds;
}

/** All objects on which the subject has one of `names`. Throws when they are too many. */
export async function principalsOf(
  engineScope: EngineScope,
  subject: SubjectRef,
  names: readonly Name[],
  evaluationContext: EvaluationContext,
): Promise<readonly Principal[]> {
  if (names.length === 0) return [];
  const { reached } = await findReachable(engineScope, { subject, names }, evaluationContext);
  return principalsAmong(engineScope, { subject, names }, reached, evaluationContext);
}

/** Who goes up, and to which names. */
export interface ReachableQuery {
  readonly subject: SubjectRef;
  readonly names: readonly Name[];
}

/** Those of what was reached that the subject has, evaluated where the way up gives candidates only. */
export async function principalsAmong(
  engineScope: EngineScope,
  { subject, names }: ReachableQuery,
  reached: readonly ReachableObject[],
  evaluationContext: EvaluationContext,
): Promise<readonly Principal[]> {
  const { model } = engineScope;
  const requested = new Map(names.map((name) => [keyOf(name), name]));
  const candidates = reached.filter((r) => requested.has(r.name));
  const inexact = new Set(names.filter((n) => !isExact(model, n)).map(keyOf));
  const questions = candidates
    .filter((c) => inexact.has(c.name))
    .flatMap((candidate) => {
      const name = requested.get(candidate.name);
      return name
        ? [
            {
              candidate,
              question: { subject, object: { type: candidate.type, id: candidate.id }, name },
            },
          ]
        : [];
    });
  const bounds = await keepAllowed(
    engineScope,
    questions.map((q) => q.question),
    evaluationContext,
  );
  const certain = candidates
    .filter((c) => !inexact.has(c.name))
    .map((c) => ({ ...c, bounds: yes }));
  const sifted = questions.flatMap(({ candidate }, i) =>
    bounds[i]?.possible ? [{ ...candidate, bounds: bounds[i] }] : [],
  );
  return [...certain, ...sifted];
}

/** Everything that leads to the names; contextual tuples count as if they were stored. */
export async function findReachable(
  engineScope: EngineScope,
  { subject, names }: ReachableQuery,
  { contextual }: EvaluationContext,
  bound?: number,
): Promise<ReachableSet> {
  const { model } = engineScope;
  const rules = expansionTo(model, names);
  const lookups = lookupsOf(model, subject, rules.direct);
  const open = rules.open.map((name) => ({ type: name.type, name: keyOf(name) }));
  const first = await expandReverse(
    engineScope,
    { lookups, seeds: ownSet(model, subject, rules), open },
    rules,
    bound,
  );
  let { reached } = first;
  while (contextual.length > 0) {
    const seeds = contextualSeeds({ rules, lookups, contextual }, reached);
    if (seeds.length === 0) break;
    reached = distinct([
      ...reached,
      ...(await expandReverse(engineScope, { lookups: [], seeds, open: [] }, rules, bound)).reached,
    ]);
  }
  return { reached, until: first.until };
}

/** A subject set is in itself, and in everything of the same object that it counts towards. */
function ownSet(
  model: Model,
  subject: SubjectRef,
  { names }: ExpansionRules,
): readonly ReachableObject[] {
  return [...names.values()]
    .filter((name) => hasOwnSet(model, subject, name))
    .map((name) => ({ type: subject.type, id: subject.id, name: keyOf(name) }));
}

/** True when a subject set may have the name on its own object because of what it is. */
export const hasOwnSet = (model: Model, subject: SubjectRef, name: Name): boolean =>
  name.type === subject.type &&
  namesOfObject(model, name).some((inner) => meansSet(model, subject, inner));

interface ContextualStart {
  readonly rules: ExpansionRules;
  readonly lookups: readonly Lookup[];
  readonly contextual: EvaluationContext['contextual'];
}

/** What contextual tuples add to what is reached already. */
function contextualSeeds(
  { rules, lookups, contextual }: ContextualStart,
  reached: readonly ReachableObject[],
): readonly ReachableObject[] {
  const known = new Map(reached.map((r) => [reachableKey(r), r]));
  const found = contextual.flatMap(({ subject, relation, resource }) => {
    const leads = (rule: { type: string; relation: string }): boolean =>
      rule.type === resource.type && rule.relation === relation;
    const direct = lookups
      .filter(
        (l) =>
          leads(l.rule) &&
          sameObject(l.subject, subject) &&
          l.subject.relation === subject.relation,
      )
      .map(({ rule }) => ({ ...resource, name: rule.name }));
    const steps = rules.steps
      .filter((s) => leads(s) && s.fromType === subject.type && s.setRelation === subject.relation)
      .flatMap((s) =>
        stepOn(
          s,
          known.get(reachableKey({ type: subject.type, id: subject.id, name: s.fromName })),
          resource,
        ),
      );
    return [...direct, ...steps];
  });
  const openOnes = rules.open.flatMap((name) =>
    contextual
      .filter((t) => t.subject.type === name.type && t.subject.id !== '*')
      .map((t) => ({ type: name.type, id: t.subject.id, name: keyOf(name) })),
  );
  return distinct([...found, ...openOnes]).filter((seed) => !known.has(reachableKey(seed)));
}

const stepOn = (
  step: StepRule,
  from: ReachableObject | undefined,
  resource: { type: string; id: string },
): readonly ReachableObject[] => (from ? [{ ...resource, name: step.name }] : []);
