/**
 * Whether a subject has a name on an object of which only the id is known, as one expression of SQL, whatever the name
 * is made of: exclusions, intersections, conditions and rules as well. Alternatives are followed down (descent.ts), what
 * refers to itself through other objects is followed as far as each object on the way lets it through, or where it needs
 * several such ways at once, worked out from below, and everything else is asked of the object. For subjects that reach
 * too much to be named.
 */
import { literalOf } from '../../../../kernel/database/literal.ts';
import { isExact, isPublic } from '../../model/expansion-rules.ts';
import { keyOf, type Name } from '../../model/model.ts';
import { liveTuple } from '../../tuple-sql.ts';
import { descentText } from '../descent.ts';
import { engineErrors } from '../limits.ts';
import { sourceOf, type TupleSource } from '../tuple-source.ts';
import { conditionText } from './counted-conditions.ts';
import { type Cycle, cycleOf, hopsOf, type Step, stepsOf } from './cycles.ts';
import {
  type Builder,
  conditionsFor,
  expressionTest,
  type Next,
  nameTest,
  opposite,
  type Polarity,
} from './predicate-builder.ts';
import { not, renderTest, type Test } from './predicate-tree.ts';

/** Objects that one statement asks about, each by an expression of its own; far more than any model needs. */
const MAX_TESTS = 500;

/** The builder, where what the subject has on other objects is asked in the database. */
export function withObjectTests(parts: Builder): Builder {
  const left = new WeakMap<Next, number>();
  const builder: Builder = {
    ...parts,
    holds: (name, polarity) => (id, next) => {
      const tests = (left.get(next) ?? 0) + 1;
      left.set(next, tests);
      if (tests > MAX_TESTS)
        throw engineErrors.PERMISSION_SET_TOO_LARGE({
          message: `This subject reaches too many objects to name them, and the action asks more than ${MAX_TESTS} times about objects on the way; check single objects, or define it with fewer arrows and sets`,
        });
      return objectText(builder, { name, polarity }, id, next);
    },
  };
  return builder;
}

interface Goal {
  readonly name: Name;
  readonly polarity: Polarity;
}

function objectText(builder: Builder, { name, polarity }: Goal, id: string, next: Next): string {
  const { model, subject } = builder;
  if (isPublic(model, name)) return 'true';
  if (isExact(model, name))
    return descentText(model, { subject, name, table: builder.table }, id, next);
  const cycle = cycleOf(model, name);
  if (cycle.size > 0) {
    const goal = { builder, cycle, polarity };
    const isOneWay = [...cycle.values()].every((inner) => stepsOf(model, inner, cycle));
    return (isOneWay ? cycleText : fixedPointText)(goal, { name, id, next });
  }
  const test = nameTest(builder, name, polarity);
  return `exists (select 1 from (select (${id}) collate "C" as id) o where ${atObject(builder, test, { id: 'o.id', type: name.type, next })})`;
}

const atObject = (
  { table }: Builder,
  test: Test,
  place: { readonly id: string; readonly type: string; readonly next: Next },
): string => `(${renderTest(test, { ...place, far: true, table })})`;

interface CycleGoal {
  readonly builder: Builder;
  readonly cycle: Cycle;
  readonly polarity: Polarity;
}

interface ObjectPlace {
  readonly name: Name;
  readonly id: string;
  readonly next: Next;
}

const word = (text: string): string => literalOf(text, 'text');

/** What is found from the object on, until a name holds without the others of its cycle. */
function cycleText(
  { builder, cycle, polarity }: CycleGoal,
  { name, id, next }: ObjectPlace,
): string {
  const { model } = builder;
  const names = [...cycle.values()];
  const steps = names.flatMap((from) =>
    (stepsOf(model, from, cycle) ?? []).map((step) => ({ from, step })),
  );
  const source = sourceOf(
    model,
    steps.map(({ from, step }) => ({ type: from.type, relation: step.relation })),
    builder.table,
  );
  const ways = steps.map(({ from: { type, ...rest }, step: { relation, as, target, filters } }) => {
    const conditions = conditionsFor(builder, { type, relation, polarity, as });
    const through = filters.map(({ expression, against }) => {
      const test = expressionTest(
        builder,
        { type, expression },
        against ? opposite(polarity) : polarity,
      );
      return ` and ${atObject(builder, against ? not(test) : test, { id: 'b.id', type, next })}`;
    });
    const isPossible =
      conditions.unconditional || conditions.satisfied !== undefined ? 'true' : 'false';
    const way = wayText({ from: { type, ...rest }, step: { relation, as, target } }, source);
    return `${way} and ${isPossible}${conditionText(conditions, next)}${through.join('')}`;
  });
  const without: Builder = { ...builder, without: new Set(cycle.keys()), known: new Map() };
  const ends = names.map((end) => {
    const test = nameTest(without, end, polarity);
    return `(b.name = ${word(keyOf(end))} and ${atObject(without, test, { id: 'b.id', type: end.type, next })})`;
  });
  return `exists (
    with recursive below(name, id) as (
      select ${word(keyOf(name))} collate "C", (${id}) collate "C"
      union
      select w.name collate "C", w.id collate "C" from below b cross join lateral (${ways.join(' union all ')} offset 0) w)
    select 1 from below b where ${ends.join(' or ')})`;
}

/** Objects of a name that stand in a relation of an object `b`. */
function wayText(
  { from, step }: { readonly from: Name; readonly step: Pick<Step, 'relation' | 'as' | 'target'> },
  source: TupleSource,
): string {
  const { relation, as, target } = step;
  return `select ${word(keyOf(target))} as name, t.subject_id as id from ${source.rows} t
      where b.name = ${word(keyOf(from))} and t.resource_type = ${word(from.type)} and t.resource_id = b.id${source.resource('t', 'b.id')}
        and t.relation = ${word(relation)} and t.subject_type = ${word(as.type)} and t.subject_relation = ${word(as.relation)} and t.subject_id <> '*'
        and ${liveTuple('t')}`;
}

/**
 * The same for names that need several ways through themselves at once. Everything that lies below the object is gathered,
 * then what holds of it, round by round: first what holds by itself, then what that makes true, until nothing is new. More
 * that holds never takes anything away: nothing in a cycle is subtracted (reference-check.ts).
 */
function fixedPointText(
  { builder, cycle, polarity }: CycleGoal,
  { name, id, next }: ObjectPlace,
): string {
  const { model, holds } = builder;
  const hops = [...cycle.values()].flatMap((from) =>
    hopsOf(model, from, cycle).map((step) => ({ from, step })),
  );
  const source = sourceOf(
    model,
    hops.map(({ from, step }) => ({ type: from.type, relation: step.relation })),
    builder.table,
  );
  const ways = hops.map((hop) => wayText(hop, source)).join(' union all ');
  const key = (one: Name, of: string): string => `${word(`${keyOf(one)} `)} || (${of})`;
  const within: Builder = {
    ...builder,
    known: new Map(),
    holds: (one, as) => (of, more) =>
      cycle.has(keyOf(one))
        ? `(${key(one, of)}) = any(fix.held)`
        : (holds?.(one, as)(of, more) ?? 'false'),
  };
  const tests = [...cycle.values()].map((one) => {
    const test = nameTest(within, one, polarity);
    return `(n.name = ${word(keyOf(one))} and ${atObject(within, test, { id: 'n.id', type: one.type, next })})`;
  });
  return `exists (
    with recursive below(name, id) as (
      select ${word(keyOf(name))} collate "C", (${id}) collate "C"
      union
      select w.name collate "C", w.id collate "C" from below b cross join lateral (${ways} offset 0) w),
    goal as materialized (select ${key(name, id)} as key),
    node as materialized (select b.name, b.id, b.name || ' ' || b.id as key from below b),
    edge as materialized (
      select b.name || ' ' || b.id as upper, w.name || ' ' || w.id as lower from below b cross join lateral (${ways} offset 0) w),
    fix(held, fresh) as (
      select '{}'::text[] collate "C", null::text[] collate "C"
      union all
      select (fix.held || x.fresh) collate "C", x.fresh collate "C" from fix cross join lateral (select array(
          select n.key from node n
           where (fix.fresh is null or n.key in (select e.upper from edge e where e.lower = any(fix.fresh)))
             and n.key <> all(fix.held) and (${tests.join(' or ')})) as fresh) x
       where x.fresh <> '{}')
    select 1 from fix join goal on goal.key = any(fix.held))`;
}
