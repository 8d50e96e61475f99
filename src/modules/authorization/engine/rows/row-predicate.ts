/**
 * The rows of a type on which a subject may act, as pieces for the record
 * engine's own statement. The objects through which the subject acts are found
 * first (principals.ts, bounded) or were kept from an earlier time; what is left
 * is asked of each row's own tuples, or found from the subject's.
 */
import type { LRUCache } from 'lru-cache';
import { codeOf } from '../../../../kernel/database/failures.ts';
import { createLru } from '../../../../kernel/lru.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import {
  isExact,
  isPublic,
  mayBeOpen,
  originsOf,
  rulesTo,
  takenAway,
} from '../../model/expansion-rules.ts';
import { formatSubject, formsOf, type SubjectRef } from '../../model/grammar.ts';
import { grantRelation, keyOf, type Model, type Name } from '../../model/model.ts';
import { type EngineScope, isSelf, keepAllowed, requireSubject, resolveName } from '../ask.ts';
import type { RowQuestion } from '../engine.ts';
import { type DatabaseSnapshot, guardText } from '../grant-cache/change-tracker.ts';
import type { CachedValue } from '../grant-cache/grant-cache.ts';
import { engineErrors, limits, sizesOf } from '../limits.ts';
import { principalsAmong } from '../principals.ts';
import { factsBelow, factsFor, rulesOf } from '../record-rules.ts';
import { type Lookup, lookupsOf, type ReachableSet } from '../reverse-expansion.ts';
import {
  conditionalTuples,
  conditionValues,
  noConditional,
  takesConditions,
} from './conditional-tuples.ts';
import {
  emptyContext,
  largeKey,
  namedSetOf,
  nothing,
  type ReachMemory,
  restingOnNothing,
  setsByName,
} from './named-sets.ts';
import { withObjectTests } from './object-test.ts';
import {
  type Builder,
  givenTest,
  nameTest,
  originsBelow,
  ownTest,
  setsOf,
} from './predicate-builder.ts';
import { anyOf, never, not, type Test } from './predicate-tree.ts';
import { compiled, type RowPlan, type Taken } from './row-pieces.ts';
import {
  lookupSource,
  lookupsTo,
  type RowSearch,
  type RowSource,
  rowSource,
} from './row-sources.ts';
import { type SizeEstimates, sizeOf } from './size-estimate.ts';

/** What an engine remembers between questions. */
export interface PredicateCache extends ReachMemory {
  readonly sizes: SizeEstimates;
  /** Plans by what the subject reaches, which is another object for each subject and each change of it. */
  readonly plans: WeakMap<ReachableSet, Map<string, RowPlan>>;
  /** Plans of subjects who reach nothing beyond themselves: these rest on the model alone. */
  readonly plansOfNothing: LRUCache<string, RowPlan>;
}

/** Some 1 kB each. */
const MOST_PLANS = 10_000;

export const createPlansOfNothing = (): LRUCache<string, RowPlan> => createLru(MOST_PLANS);

/**
 * Compiles the predicate. A few rows that are known need not everything that the subject reaches: where that is much,
 * they are decided by themselves.
 * A value that only a request could give counts as not given: such rows are not shown. With
 * `catchUp`, what was kept is used, and the predicate says how to find out whether it stands.
 */
export async function rowPredicate(
  engineScope: EngineScope,
  question: RowQuestion,
  memory: PredicateCache,
  catchUp?: () => Promise<DatabaseSnapshot>,
): Promise<RowPredicate> {
  const { subject, action, type, ids } = question;
  const { model } = engineScope;
  requireSubject(model, subject);
  const goal = resolveName(model, type, action);
  const few = ids !== undefined && ids.length <= limits.fewRows ? ids : undefined;
  const search = { subject, goal, few };
  if (!few) return searchedRows(engineScope, search, memory, catchUp);
  try {
    return await searchedRows(engineScope, search, memory, catchUp);
  } catch (error) {
    if (codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
    const predicate = await checkedRows(engineScope, { subject, goal }, few);
    const reach = restingOnNothing(nothing, memory.reach);
    return catchUp ? { ...predicate, ...confirmation(model.revision, reach, catchUp) } : predicate;
  }
}

interface RowsSought extends Goal {
  /** The rows, where they are known and few. */
  readonly few: readonly string[] | undefined;
}

/** Those of the rows that a check lets through, each from the smaller side. */
async function checkedRows(
  engineScope: EngineScope,
  { subject, goal }: Goal,
  ids: readonly string[],
): Promise<RowPredicate> {
  const questions = ids.map((id) => ({ subject, object: { type: goal.type, id }, name: goal }));
  const bounds = await keepAllowed(engineScope, questions, emptyContext);
  const held = questions.filter((question, i) => bounds[i]?.sure || isSelf(question));
  const allowed = held.map(({ object }) => object.id);
  return {
    shape: 'checked',
    compile: (id, next) => `(${id})::text = any(${next(allowed)}::text[])`,
  };
}

/** By the objects through which the subject acts. Throws `PERMISSION_SET_TOO_LARGE`. */
async function searchedRows(
  engineScope: EngineScope,
  { subject, goal, few }: RowsSought,
  memory: PredicateCache,
  catchUp?: () => Promise<DatabaseSnapshot>,
): Promise<RowPredicate> {
  const { model } = engineScope;
  const { type } = goal;
  const way = { subject, names: originsBelow(model, goal) };
  const useKept = catchUp !== undefined;
  // Where each object must be evaluated as well, a check is sooner less work.
  const named = way.names.every((name) => isExact(model, name)) ? 1 : 0.1;
  const { reached: most, reachedForFew } = sizesOf(engineScope);
  const bound = few ? reachedForFew * named : most;
  const request = { goal, way, useKept, bound, few: few !== undefined };
  let reach = await namedSetOf(engineScope, request, memory);
  const plan = await planOf(engineScope, { subject, goal, bound }, memory, reach.value).catch(
    async (error: unknown) => {
      // Tuples of the rows themselves, with conditions.
      if (codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
      if (few || reach.value.unnamed) throw error;
      memory.large.add(largeKey(request));
      reach = await setsByName(engineScope, request, memory);
      return planOf(engineScope, { subject, goal, bound }, memory, reach.value);
    },
  );
  const { source, principals, taken } = plan;
  const size =
    few === undefined && source
      ? await sizeOf(engineScope, { subject, goal, principals }, source.lookups, memory.sizes)
      : undefined;
  const takenSize =
    size && taken
      ? await sizeOf(
          engineScope,
          { subject, goal: taken.name, principals },
          taken.source.lookups,
          memory.sizes,
        )
      : undefined;
  const predicate = compiled(plan, type, size, takenSize);
  return catchUp ? { ...predicate, ...confirmation(model.revision, reach, catchUp) } : predicate;
}

function confirmation(
  revision: number,
  { stands, rests }: CachedValue<ReachableSet>,
  catchUp: () => Promise<DatabaseSnapshot>,
): Pick<RowPredicate, 'confirm' | 'guard'> {
  const confirm = async (): Promise<boolean> => {
    const moment = await catchUp();
    return moment.revision === revision && stands(moment);
  };
  return { confirm, ...(rests && { guard: (next) => guardText({ ...rests, revision }, next) }) };
}

interface Goal {
  readonly subject: SubjectRef;
  readonly goal: Name;
}

interface PlanRequest extends Goal {
  /** Most tuples with conditions that are evaluated. */
  readonly bound: number;
}

/** The plan that was made from this reach before, where it rests on nothing else. */
async function planOf(
  engineScope: EngineScope,
  request: PlanRequest,
  { plans, plansOfNothing }: PredicateCache,
  reach: ReachableSet,
): Promise<RowPlan> {
  const { subject, goal } = request;
  const key = reach === nothing ? `${formatSubject(subject)} ${keyOf(goal)}` : keyOf(goal);
  const known = reach === nothing ? plansOfNothing : plans.get(reach);
  const before = known?.get(key);
  if (before) return before;
  const plan = await makePlan(engineScope, request, reach);
  if (!plan.lasting) return plan;
  if (known) known.set(key, plan);
  else plans.set(reach, new Map([[key, plan]]));
  return plan;
}

/** Whether a plan rests on the model and on what the subject reaches alone, not on tuples of the rows or on facts. */
const isLasting = (model: Model, goal: Name, { unnamed }: ReachableSet): boolean =>
  !unnamed &&
  rulesOf(model, goal).length === 0 &&
  !takesConditions(model, goal) &&
  originsBelow(model, goal).every((name) => isExact(model, name));

async function makePlan(
  engineScope: EngineScope,
  { subject, goal, bound }: PlanRequest,
  reach: ReachableSet,
): Promise<RowPlan> {
  const { model } = engineScope;
  const lasting = isLasting(model, goal, reach);
  const { unnamed } = reach;
  const names = originsBelow(model, goal).filter((name) => !unnamed?.has(keyOf(name)));
  const principals = await principalsAmong(
    engineScope,
    { subject, names },
    reach.reached,
    emptyContext,
  );
  const subjects = [...formsOf(subject), ...setsOf(model, principals)];
  const common = {
    model,
    subject,
    principals: Map.groupBy(principals, (p) => p.name),
    known: new Map(),
    now: new Date().toISOString(),
    facts: unnamed
      ? await factsBelow(engineScope, subject, goal)
      : await factsFor(engineScope, subject, goal.type, rulesOf(model, goal)),
  };
  const builder: Builder = !unnamed
    ? { ...common, conditional: await conditionalTuples(engineScope, { goal, subjects, bound }) }
    : withObjectTests({
        ...common,
        named: new Set(names.map(keyOf)),
        conditional: noConditional,
        conditions: await conditionValues(engineScope, goal, emptyContext),
      });
  const self = isSelf({ subject, object: { type: goal.type, id: subject.id }, name: goal });
  const lookups = lookupsTo(model, { subject, goal, principals });
  const named = nameTest(builder, goal, 'sure');
  const own: Test = self ? { kind: 'row', id: subject.id } : never;
  const isSought = !unnamed && isFound(model, goal);
  const taken = isSought ? takenOf(builder, { goal, principals, own }) : undefined;
  // What something is taken away from is made of alternatives as well: there, conditions count for nothing.
  const exact = isExact(model, goal) || taken !== undefined;
  const from = lookupSource(model, lookups);
  return {
    exact: isExact(model, goal),
    test: anyOf([own, named]),
    self: self ? subject.id : undefined,
    source: isSought ? rowSource({ type: goal.type, exact, from }, lookups) : undefined,
    taken,
    principals,
    packedFrom: lasting ? sizesOf(engineScope).packedFrom : undefined,
    lasting,
    shapes: new Map(),
    last: undefined,
  };
}

function takenOf(
  builder: Builder,
  { goal, principals, own }: Omit<RowSearch, 'subject'> & { readonly own: Test },
): Taken | undefined {
  const { model, subject } = builder;
  const name = takenAway(model, goal);
  if (!name || !isFound(model, name)) return undefined;
  const lookups = lookupsTo(model, { subject, goal: name, principals });
  const grants = rulesTo(model, goal).direct.filter(
    ({ relation }) => relation === grantRelation(goal.name),
  );
  const granted = lookupsOf(model, subject, grants);
  const found = (all: readonly Lookup[]): RowSource =>
    rowSource({ type: goal.type, exact: true, from: lookupSource(model, all) }, all);
  return {
    name,
    test: anyOf([own, givenTest(builder, goal), not(nameTest(builder, name, 'possible'))]),
    source: found(lookups),
    granted: granted.length > 0 ? found(granted) : undefined,
    own: anyOf([own, ownTest(builder, goal)]),
  };
}

/** True when every row is found by a tuple. */
const isFound = (model: Model, goal: Name): boolean =>
  !mayBeOpen(model, goal) && !originsOf(model, goal).some((name) => isPublic(model, name));
