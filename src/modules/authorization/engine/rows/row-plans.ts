/** Plans of rows: made from what a subject reaches, and kept as long as they rest on nothing else. */
import { isDeepStrictEqual } from 'node:util';
import type { LRUCache } from 'lru-cache';
import { createLru } from '../../../../kernel/lru.ts';
import {
  isExact,
  isPublic,
  mayBeOpen,
  originsOf,
  rulesTo,
  takenAway,
} from '../../model/expansion-rules.ts';
import type { RecordRule } from '../../model/expression.ts';
import { formatSubject, formsOf, type SubjectRef } from '../../model/grammar.ts';
import { grantRelation, keyOf, type Model, type Name } from '../../model/model.ts';
import { type EngineScope, isSelf } from '../ask.ts';
import { sizesOf } from '../limits.ts';
import { type Principal, principalsAmong } from '../principals.ts';
import { type CallerFacts, factsBelow, factsFor, recordRule, rulesOf } from '../record-rules.ts';
import {
  type Lookup,
  lookupsOf,
  type ReachableObject,
  type ReachableSet,
} from '../reverse-expansion.ts';
import {
  conditionalTuples,
  conditionValues,
  noConditional,
  takesConditions,
} from './conditional-tuples.ts';
import { MAX_SENT } from './first-ways.ts';
import { emptyContext, nothing, type ReachMemory } from './named-sets.ts';
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
import type { RowPlan, Taken } from './row-pieces.ts';
import {
  lookupSource,
  lookupsTo,
  type RowSearch,
  type RowSource,
  rowSource,
} from './row-sources.ts';
import { startPlaceOf } from './row-start.ts';
import type { SizeEstimates } from './size-estimate.ts';

/** What an engine remembers between questions. */
export interface PredicateCache extends ReachMemory {
  readonly sizes: SizeEstimates;
  /** Plans by what the subject reaches, which is another object for each subject and each change of it. */
  readonly plans: WeakMap<ReachableSet, Map<string, RowPlan>>;
  /** Plans of subjects who reach nothing beyond themselves: these rest on the model alone. */
  readonly plansOfNothing: LRUCache<string, RowPlan>;
}

/** Some 1 kB each. */
const MAX_PLANS = 10_000;

export const createPlansOfNothing = (): LRUCache<string, RowPlan> => createLru(MAX_PLANS);

/** Who seeks rows, and by what. */
export interface Goal {
  readonly subject: SubjectRef;
  readonly goal: Name;
}

interface PlanRequest extends Goal {
  /** Most tuples with conditions that are evaluated. */
  readonly bound: number;
}

const planKey = ({ subject, goal }: Goal, reach: ReachableSet): string => {
  const name = `${subject.represented ? 'represented ' : ''}${keyOf(goal)}`;
  return reach === nothing ? `${formatSubject(subject)} ${name}` : name;
};

/** The plan that was made from this reach before, where it rests on nothing else but the schema of the rows. */
export function keptPlan(
  model: Model,
  { plans, plansOfNothing }: PredicateCache,
  goal: Goal,
  reach: ReachableSet,
): RowPlan | undefined {
  const known = reach === nothing ? plansOfNothing : plans.get(reach);
  const plan = known?.get(planKey(goal, reach));
  return plan?.schema && plan.schema !== model.schemaOf(goal.goal.type) ? undefined : plan;
}

export async function planOf(
  engineScope: EngineScope,
  request: PlanRequest,
  memory: PredicateCache,
  reach: ReachableSet,
): Promise<RowPlan> {
  const before = keptPlan(engineScope.model, memory, request, reach);
  if (before) return before;
  const plan = await makePlan(engineScope, request, reach);
  if (!plan.lasting) return plan;
  const { plans, plansOfNothing } = memory;
  const known = reach === nothing ? plansOfNothing : plans.get(reach);
  const key = planKey(request, reach);
  if (known) known.set(key, plan);
  else plans.set(reach, new Map([[key, plan]]));
  return plan;
}

/** What a rule knows of whoever asks by their reference alone. */
const ofReference: ReadonlySet<string> = new Set(['caller.id', 'caller.type']);

/** Whether a rule says the same of a record whenever somebody asks: by nothing but the record and who they are. */
function isLastingRule(model: Model, type: string, rule: RecordRule): boolean {
  const record = recordRule(model, type, rule);
  return record?.rule.inputs.isSubsetOf(ofReference) ?? false;
}

/** Whether a plan rests on the model, on what the subject reaches and on the schema alone, not on tuples of the rows or on facts. */
const isLasting = (model: Model, goal: Name, { unnamed }: ReachableSet): boolean =>
  !unnamed &&
  rulesOf(model, goal).every((rule) => isLastingRule(model, goal.type, rule)) &&
  !takesConditions(model, goal) &&
  originsBelow(model, goal).every((name) => isExact(model, name));

/** What hangs on more than the tuples of what the subject reaches: nobody is told of its changes. */
interface LookedUp {
  readonly principals: readonly Principal[];
  readonly facts: CallerFacts | undefined;
}

/** What evaluations looked at, and when, is another thing each time. */
const isSame = (one: LookedUp, other: LookedUp): boolean =>
  isDeepStrictEqual(
    [one.facts, one.principals.map(held)],
    [other.facts, other.principals.map(held)],
  );

const held = ({ type, id, name, bounds: { sure, possible } }: Principal) => [
  ...[type, id, name],
  ...[sure, possible],
];

/** Whether the way up gives no more than a candidate, which was evaluated. */
function isInexactIn(model: Model, names: readonly Name[]): (one: ReachableObject) => boolean {
  const inexact = new Set(names.filter((name) => !isExact(model, name)).map(keyOf));
  return ({ name }) => inexact.has(name);
}

async function makePlan(
  engineScope: EngineScope,
  { subject, goal, bound }: PlanRequest,
  reach: ReachableSet,
): Promise<RowPlan> {
  const { model } = engineScope;
  const lasting = isLasting(model, goal, reach);
  const { unnamed } = reach;
  const names = originsBelow(model, goal).filter((name) => !unnamed?.has(keyOf(name)));
  const lookUp = async (): Promise<LookedUp> => ({
    principals: await principalsAmong(engineScope, { subject, names }, reach.reached, emptyContext),
    facts: unnamed
      ? await factsBelow(engineScope, subject, goal)
      : await factsFor(engineScope, subject, goal.type, rulesOf(model, goal)),
  });
  const found = await lookUp();
  const { principals, facts } = found;
  const isKept = facts === undefined && !reach.reached.some(isInexactIn(model, names));
  const subjects = [...formsOf(subject), ...setsOf(model, principals)];
  const common = {
    model,
    subject,
    principals: Map.groupBy(principals, (p) => p.name),
    known: new Map(),
    now: new Date().toISOString(),
    facts,
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
  const own: Test = self ? { kind: 'row', id: subject.id } : never;
  const isSought = !unnamed && isFound(model, goal);
  const sources = isSought ? sourcesOf(builder, { goal, principals, own }) : nowhere;
  return {
    exact: isExact(model, goal),
    test: anyOf([own, nameTest(builder, goal, 'sure')]),
    self: self ? subject.id : undefined,
    ...sources,
    startPlace: lasting ? startPlaceOf(sources) : undefined,
    principals,
    packedFrom: lasting ? sizesOf(engineScope).packedFrom : undefined,
    lasting,
    schema: rulesOf(model, goal).length > 0 ? model.schemaOf(goal.type) : undefined,
    recheck: isKept ? undefined : async () => isSame(await lookUp(), found),
    isLight: !unnamed && !takesConditions(model, goal) && principals.length <= MAX_SENT,
    shapes: new Map(),
    last: undefined,
  };
}

/** Where rows are found, and what is taken away from them. */
type Sources = Pick<RowPlan, 'source' | 'taken'>;
const nowhere: Sources = { source: undefined, taken: undefined };

type SourceRequest = Omit<RowSearch, 'subject'> & { readonly own: Test };

function sourcesOf(builder: Builder, request: SourceRequest): Sources {
  const { model, subject } = builder;
  const { goal, principals } = request;
  const lookups = lookupsTo(model, { subject, goal, principals });
  const taken = takenOf(builder, request);
  // What something is taken away from is made of alternatives as well: there, conditions count for nothing.
  const exact = isExact(model, goal) || taken !== undefined;
  const from = lookupSource(model, lookups);
  return { source: rowSource({ type: goal.type, exact, from }, lookups), taken };
}

function takenOf(builder: Builder, { goal, principals, own }: SourceRequest): Taken | undefined {
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
