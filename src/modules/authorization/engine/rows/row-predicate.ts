/**
 * The rows of a type on which a subject may act, as pieces for the record
 * engine's own statement. The objects through which the subject acts are found
 * first (principals.ts, bounded) or were kept from an earlier time; what is left
 * is asked of each row's own tuples, or found from the subject's.
 */
import { isDeepStrictEqual } from 'node:util';
import { codeOf } from '../../../../kernel/database/failures.ts';
import type { MaybePromise } from '../../../../kernel/maybe-promise.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { isExact } from '../../model/expansion-rules.ts';
import { keyOf } from '../../model/model.ts';
import { type EngineScope, isSelf, keepAllowed, requireSubject, resolveName } from '../ask.ts';
import type { RowQuestion } from '../engine.ts';
import { type DatabaseSnapshot, guardText } from '../grant-cache/change-tracker.ts';
import { type CachedValue, together } from '../grant-cache/grant-cache.ts';
import { engineErrors, limits, sizesOf } from '../limits.ts';
import type { ReachableQuery } from '../principals.ts';
import type { ReachableSet } from '../reverse-expansion.ts';
import {
  emptyContext,
  keptReach,
  largeKey,
  namedSetOf,
  nothing,
  restingOnNothing,
  setsByName,
} from './named-sets.ts';
import { originsBelow } from './predicate-builder.ts';
import { compiled, isTakenWhole, type KnownOfRows, type RowPlan } from './row-pieces.ts';
import { type Goal, keptPlan, type PredicateCache, planOf } from './row-plans.ts';
import { keptStart, rememberStart } from './row-start.ts';
import { keptSize, sizeOf } from './size-estimate.ts';

/**
 * Compiles the predicate, at once where everything is kept. A few rows that are known need not everything that the
 * subject reaches: where that is much, they are decided by themselves.
 * A value that only a request could give counts as not given: such rows are not shown. With
 * `catchUp`, what was kept is used, and the predicate says how to find out whether it stands.
 */
export const rowPredicate = (
  engineScope: EngineScope,
  question: RowQuestion,
  memory: PredicateCache,
  catchUp?: () => Promise<DatabaseSnapshot>,
): MaybePromise<RowPredicate> =>
  (catchUp && keptRows(engineScope, question, memory, catchUp)) ??
  foundRows(engineScope, question, memory, catchUp);

/** By what is kept of the subject, of the plan and of sizes; `undefined` where some of it is to be found first. */
function keptRows(
  engineScope: EngineScope,
  { subject, action, type, ids }: RowQuestion,
  memory: PredicateCache,
  catchUp: () => Promise<DatabaseSnapshot>,
): RowPredicate | undefined {
  const { model } = engineScope;
  const goal = model.action(type, action);
  if (!goal) return undefined;
  const few = fewOf(ids);
  const { way, bound } = searchFor(engineScope, { subject, goal, few });
  const reach = keptReach(engineScope, way, memory);
  if (!reach || reach.value.reached.length > bound) return undefined;
  const plan = keptPlan(model, memory, { subject, goal }, reach.value);
  if (!plan) return undefined;
  const isSized = few === undefined && plan.source !== undefined;
  const size = isSized ? keptSize({ subject, goal }, memory.sizes) : undefined;
  const isTaken = isSized && plan.taken !== undefined;
  const takenSize = isTaken
    ? keptSize({ subject, goal: plan.taken.name }, memory.sizes)
    : undefined;
  if ((isSized && !size) || (isTaken && !takenSize)) return undefined;
  const known = { size, takenSize };
  return withMemory(engineScope, { plan, type, known }, { reach, memory, catchUp });
}

const fewOf = (ids: RowQuestion['ids']): readonly string[] | undefined =>
  ids !== undefined && ids.length <= limits.fewRows ? ids : undefined;

async function foundRows(
  engineScope: EngineScope,
  question: RowQuestion,
  memory: PredicateCache,
  catchUp?: () => Promise<DatabaseSnapshot>,
): Promise<RowPredicate> {
  const { subject, action, type, ids } = question;
  const { model } = engineScope;
  requireSubject(model, subject);
  const goal = resolveName(model, type, action);
  const few = fewOf(ids);
  const search = { subject, goal, few };
  if (!few) return searchedRows(engineScope, search, memory, catchUp);
  try {
    return await searchedRows(engineScope, search, memory, catchUp);
  } catch (error) {
    if (codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
    const check = () => checkedRows(engineScope, { subject, goal }, few);
    const allowed = await check();
    const predicate = anyOfRows(allowed);
    if (!catchUp) return predicate;
    const reach = restingOnNothing(nothing, memory.reach);
    const recheck = async () => isDeepStrictEqual(await check(), allowed);
    return { ...predicate, ...confirmation(model.revision, reach, catchUp), recheck };
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
): Promise<readonly string[]> {
  const questions = ids.map((id) => ({ subject, object: { type: goal.type, id }, name: goal }));
  const bounds = await keepAllowed(engineScope, questions, emptyContext);
  const held = questions.filter((question, i) => bounds[i]?.sure || isSelf(question));
  return held.map(({ object }) => object.id);
}

const anyOfRows = (ids: readonly string[]): RowPredicate => ({
  shape: 'checked',
  compile: (id, next) => `(${id})::text = any(${next(ids)}::text[])`,
});

/** What must be reached for the rows, and how many objects of it at most. */
function searchFor(
  engineScope: EngineScope,
  { subject, goal, few }: RowsSought,
): { readonly way: ReachableQuery; readonly bound: number } {
  const { model } = engineScope;
  const { names, named } = model.derived(`rows ${keyOf(goal)}`, () => {
    const origins = originsBelow(model, goal);
    // Where each object must be evaluated as well, a check is sooner less work.
    return { names: origins, named: origins.every((name) => isExact(model, name)) ? 1 : 0.1 };
  });
  const { reached, reachedForFew } = sizesOf(engineScope);
  return { way: { subject, names }, bound: few ? reachedForFew * named : reached };
}

/** By the objects through which the subject acts. Throws `PERMISSION_SET_TOO_LARGE`. */
async function searchedRows(
  engineScope: EngineScope,
  { subject, goal, few }: RowsSought,
  memory: PredicateCache,
  catchUp?: () => Promise<DatabaseSnapshot>,
): Promise<RowPredicate> {
  const { type } = goal;
  const useKept = catchUp !== undefined;
  const { way, bound } = searchFor(engineScope, { subject, goal, few });
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
  const known = { size, takenSize };
  if (!catchUp) return compiled(plan, type, { ...known, start: undefined });
  const { recheck } = plan;
  const predicate = withMemory(engineScope, { plan, type, known }, { reach, memory, catchUp });
  return { ...predicate, ...(recheck && { recheck }) };
}

interface PlannedRows {
  readonly plan: RowPlan;
  readonly type: string;
  readonly known: Omit<KnownOfRows, 'start'>;
}

interface Remembered {
  readonly reach: CachedValue<ReachableSet>;
  readonly memory: PredicateCache;
  readonly catchUp: () => Promise<DatabaseSnapshot>;
}

/** With what is kept of where they begin, and what all of it rests on. */
function withMemory(
  engineScope: EngineScope,
  { plan, type, known }: PlannedRows,
  { reach, memory, catchUp }: Remembered,
): RowPredicate {
  const kept = known.takenSize && keptStart(plan, memory.reach);
  const start = kept?.value.start;
  const rests = kept && start ? together(reach, kept) : reach;
  const predicate = {
    ...compiled(plan, type, { ...known, start }),
    ...confirmation(engineScope.model.revision, rests, catchUp),
  };
  const cache = memory.reach;
  const { leading } = sizesOf(engineScope);
  const { size, takenSize } = known;
  // To find it out takes as long as to find what is taken away as a whole.
  const isWorth = takenSize && takenSize.seen >= leading && isTakenWhole(size, takenSize);
  if (kept || !cache || !plan.startPlace || !isWorth) return predicate;
  const remember = () => rememberStart(engineScope.database, plan, cache, leading);
  return { ...predicate, rememberStart: remember };
}

function confirmation(
  revision: number,
  { stands, rests }: Omit<CachedValue<object>, 'value'>,
  catchUp: () => Promise<DatabaseSnapshot>,
): Pick<RowPredicate, 'confirm' | 'guard'> {
  const confirm = async (): Promise<boolean> => {
    const moment = await catchUp();
    return moment.revision === revision && stands(moment);
  };
  return { confirm, ...(rests && { guard: (next) => guardText({ ...rests, revision }, next) }) };
}
