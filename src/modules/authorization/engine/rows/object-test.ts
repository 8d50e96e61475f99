/**
 * Whether a subject has a name on an object of which only the id is known, as one expression of SQL, whatever the name
 * is made of: exclusions, intersections, conditions and rules as well. Alternatives are followed down (descent.ts), what
 * refers to itself through other objects is followed as far as each object on the way lets it through, and everything
 * else is asked of the object. For subjects that reach too much to be named.
 */
import { literalOf } from '../../../../kernel/database/literal.ts';
import type { PenstockError } from '../../../../kernel/errors.ts';
import { isExact, isPublic } from '../../model/expansion-rules.ts';
import { childrenOf, type Expression } from '../../model/expression.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import { keyOf, leadingSubjects, type Model, type Name, reachable } from '../../model/model.ts';
import { liveTuple } from '../../tuple-sql.ts';
import { descentText } from '../descent.ts';
import { engineErrors } from '../limits.ts';
import { sourceOf } from '../tuple-source.ts';
import {
  type Builder,
  conditionsFor,
  expressionTest,
  type Next,
  nameTest,
  opposite,
  type Polarity,
} from './predicate-builder.ts';
import { conditionText, not, renderTest, type Test } from './predicate-tree.ts';

/** Objects that one statement asks about, each by an expression of its own; far more than any model needs. */
const MOST_TESTS = 500;

/** The builder, where what the subject has on other objects is asked in the database. */
export function withObjectTests(parts: Builder): Builder {
  const left = new WeakMap<Next, number>();
  const builder: Builder = {
    ...parts,
    holds: (name, polarity) => (id, next) => {
      const tests = (left.get(next) ?? 0) + 1;
      left.set(next, tests);
      if (tests > MOST_TESTS)
        throw engineErrors.PERMISSION_SET_TOO_LARGE({
          message: `This subject reaches too many objects to name them, and the action asks more than ${MOST_TESTS} times about objects on the way; check single objects, or define it with fewer arrows and sets`,
        });
      return objectText(builder, { name, polarity }, id, next);
    },
  };
  return builder;
}

/** True when whoever has the name can be found out about in SQL, and so for everything that it hangs on. */
export const isTestable = (model: Model, name: Name): boolean => knotOf(model, name) === undefined;

/** A name on which this one hangs that needs two ways through itself at once. */
const knotOf = (model: Model, name: Name): Name | undefined =>
  model.derived(`knot ${keyOf(name)}`, () => {
    const done = new Set<string>();
    for (const one of [name, ...reachable(name, model.dependencies).edges.map(({ on }) => on)]) {
      if (done.has(keyOf(one)) || isExact(model, one)) continue;
      const cycle = cycleOf(model, one);
      for (const key of [keyOf(one), ...cycle.keys()]) done.add(key);
      const knot = [...cycle.values()].find((inner) => stepsOf(model, inner, cycle) === undefined);
      if (knot) return knot;
    }
    return undefined;
  });

/** What a subject reaches is too large, and cannot be asked in the database either: says why, and what to do. */
export function tooLargeFor(model: Model, name: Name, bound: number): PenstockError {
  const knot = knotOf(model, name);
  return engineErrors.PERMISSION_SET_TOO_LARGE(
    knot && {
      message: `This subject reaches more than ${bound} objects on the way, and "${knot.name}" of ${knot.type} needs two ways through itself at once; check single objects, or define it by one way through itself`,
    },
  );
}

interface Goal {
  readonly name: Name;
  readonly polarity: Polarity;
}

function objectText(builder: Builder, { name, polarity }: Goal, id: string, next: Next): string {
  const { model, subject } = builder;
  if (isPublic(model, name)) return 'true';
  if (isExact(model, name)) return descentText(model, { subject, name }, id, next);
  const cycle = cycleOf(model, name);
  if (cycle.size > 0) return cycleText({ builder, cycle, polarity }, { name, id, next });
  const test = nameTest(builder, name, polarity);
  return `exists (select 1 from (select (${id}) collate "C" as id) o where ${atObject(test, { id: 'o.id', type: name.type, next })})`;
}

const atObject = (
  test: Test,
  place: { readonly id: string; readonly type: string; readonly next: Next },
): string => `(${renderTest(test, { ...place, far: true })})`;

/* Names that refer to themselves through other objects. */

type Cycle = ReadonlyMap<string, Name>;

/** The names that lead to this one and that it leads to, itself among them; none where it does not refer to itself. */
const cycleOf = (model: Model, name: Name): Cycle =>
  model.derived(`cycle ${keyOf(name)}`, () => {
    const { edges, canReach } = reachable(name, model.dependencies);
    const key = keyOf(name);
    if (!edges.some(({ on }) => keyOf(on) === key)) return new Map<string, Name>();
    const all = edges.map(({ on }) => [keyOf(on), on] as const);
    return new Map(all.filter(([one]) => canReach(one, key)));
  });

/** From an object to those of another one that stand in a relation to it, where the object lets them through. */
interface Step {
  readonly relation: string;
  /** Form of the subjects. */
  readonly as: SubjectRef;
  readonly target: Name;
  readonly filters: readonly { readonly expression: Expression; readonly against?: true }[];
}

/** The steps of a name within its cycle; `undefined` when it needs two of them at once. Each action is looked at once. */
function stepsOf(model: Model, name: Name, cycle: Cycle): readonly Step[] | undefined {
  if (name.kind === 'relation') return setSteps(model, name, cycle);
  return model.derived(`steps ${keyOf(name)} in ${[...cycle.keys()].sort().join(' ')}`, () => {
    const expression = model.expression(name) ?? { kind: 'none' };
    const steps = expressionSteps(model, name.type, expression, cycle);
    return steps && [...new Map(steps.map((step) => [JSON.stringify(step), step])).values()];
  });
}

function expressionSteps(
  model: Model,
  type: string,
  expression: Expression,
  cycle: Cycle,
): readonly Step[] | undefined {
  const steps = (part: Expression) => expressionSteps(model, type, part, cycle);
  switch (expression.kind) {
    case 'none':
    case 'everyone':
    case 'rule':
      return [];
    case 'relation':
      return stepsOf(model, { type, kind: 'relation', name: expression.relation }, cycle);
    case 'action':
      return stepsOf(model, { type, kind: 'action', name: expression.action }, cycle);
    case 'arrow': {
      const found = arrowSteps(model, type, expression, cycle);
      return expression.all && found.length > 0 ? undefined : found;
    }
    case 'union': {
      const all = childrenOf(expression).map(steps);
      return all.every((one) => one !== undefined) ? all.flat() : undefined;
    }
    case 'intersection': {
      const all = expression.of.map((part) => ({ part, found: steps(part) }));
      const [leading, ...more] = all.filter(({ found }) => found?.length !== 0);
      if (!leading) return [];
      if (!leading.found || more.length > 0) return undefined;
      const filters = all.flatMap(({ part }) =>
        part === leading.part ? [] : [{ expression: part }],
      );
      return leading.found.map((step) => ({ ...step, filters: [...step.filters, ...filters] }));
    }
    case 'exclusion': {
      const found = steps(expression.base);
      if (!found || steps(expression.subtract)?.length !== 0) return undefined;
      const filter = { expression: expression.subtract, against: true as const };
      return found.map((step) => ({ ...step, filters: [...step.filters, filter] }));
    }
  }
}

/** By members of sets that may stand in a relation. */
function setSteps(model: Model, { type, name: relation }: Name, cycle: Cycle): readonly Step[] {
  const sets = (model.get(type)?.relations.get(relation) ?? []).flatMap((allowed) => {
    const meant =
      allowed.relation === '' ? undefined : model.member(allowed.type, allowed.relation);
    if (!meant || !cycle.has(keyOf(meant))) return [];
    const as = { type: allowed.type, id: '', relation: allowed.relation };
    return [{ relation, as, target: meant, filters: [] }];
  });
  return [...new Map(sets.map((step) => [`${step.as.type}#${step.as.relation}`, step])).values()];
}

function arrowSteps(
  model: Model,
  type: string,
  arrow: Extract<Expression, { kind: 'arrow' }>,
  cycle: Cycle,
): readonly Step[] {
  const subjects = model.get(type)?.relations.get(arrow.relation) ?? [];
  return leadingSubjects(subjects, model.types()).flatMap(({ type: subjectType, via }) => {
    const target = model.action(subjectType, arrow.target);
    if (!target || !cycle.has(keyOf(target))) return [];
    const as = { type: subjectType, id: '', relation: via };
    return [{ relation: arrow.relation, as, target, filters: [] }];
  });
}

interface CycleGoal {
  readonly builder: Builder;
  readonly cycle: Cycle;
  readonly polarity: Polarity;
}

/** What is found from the object on, until a name holds without the others of its cycle. */
function cycleText(
  { builder, cycle, polarity }: CycleGoal,
  { name, id, next }: { readonly name: Name; readonly id: string; readonly next: Next },
): string {
  const { model } = builder;
  const names = [...cycle.values()];
  const steps = names.flatMap((from) =>
    (stepsOf(model, from, cycle) ?? []).map((step) => ({ from, step })),
  );
  const source = sourceOf(
    model,
    steps.map(({ from, step }) => ({ type: from.type, relation: step.relation })),
  );
  const word = (text: string): string => literalOf(text, 'text');
  const ways = steps.map(({ from: { type, ...rest }, step: { relation, as, target, filters } }) => {
    const conditions = conditionsFor(builder, { type, relation, polarity, as });
    const through = filters.map(({ expression, against }) => {
      const test = expressionTest(
        builder,
        { type, expression },
        against ? opposite(polarity) : polarity,
      );
      return ` and ${atObject(against ? not(test) : test, { id: 'b.id', type, next })}`;
    });
    const isPossible =
      conditions.unconditional || conditions.satisfied !== undefined ? 'true' : 'false';
    return `select ${word(keyOf(target))} as name, t.subject_id as id from ${source.rows} t
      where b.name = ${word(keyOf({ type, ...rest }))} and ${isPossible} and t.resource_type = ${word(type)} and t.resource_id = b.id${source.resource('t', 'b.id')}
        and t.relation = ${word(relation)} and t.subject_type = ${word(as.type)} and t.subject_relation = ${word(as.relation)} and t.subject_id <> '*'
        and ${liveTuple('t')}${conditionText(conditions, next)}${through.join('')}`;
  });
  const without: Builder = { ...builder, without: new Set(cycle.keys()), known: new Map() };
  const ends = names.map((end) => {
    const test = nameTest(without, end, polarity);
    return `(b.name = ${word(keyOf(end))} and ${atObject(test, { id: 'b.id', type: end.type, next })})`;
  });
  return `exists (
    with recursive below(name, id) as (
      select ${word(keyOf(name))} collate "C", (${id}) collate "C"
      union
      select w.name collate "C", w.id collate "C" from below b cross join lateral (${ways.join(' union all ')} offset 0) w)
    select 1 from below b where ${ends.join(' or ')})`;
}
