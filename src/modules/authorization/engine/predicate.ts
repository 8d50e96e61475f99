/**
 * The rows of a type on which a subject may act, as pieces for the record
 * engine's own statement. The objects through which the subject acts are found
 * first (principals.ts, bounded) or were kept from an earlier time; what is left
 * is asked of each row's own tuples, or found from the subject's.
 */
import { createHash } from 'node:crypto';
import type { RowPredicate, RowUse } from '../../../kernel/permissions.ts';
import { ascentTo, isExact, mayBeOpen, originsOf } from '../model/ascent.ts';
import { formatSubject, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import type { Reach } from './ascend.ts';
import { type Circumstances, isSelf, requireSubject, resolveName, type World } from './ask.ts';
import type { ResourceQuestion } from './engine.ts';
import { guardText, type Moment } from './follower.ts';
import type { Believed, Found, KeptReach } from './kept-reach.ts';
import { lookupsTo } from './lookups.ts';
import { type Climb, climb, type Principal, principalsAmong } from './principals.ts';
import { isPublic } from './public.ts';
import { conditionalTuples, takesConditions } from './row-conditions.ts';
import { formsOf, nameTest, originsBelow, setsOf } from './row-plan.ts';
import { firstRows, foundIds, type RowSource, rowCount, rowSource } from './row-sources.ts';
import { anyOf, never, renderTest, type Test } from './row-test.ts';
import { type Size, type SizeHints, sizeOf } from './size-hints.ts';

/** What an engine remembers between questions. */
export interface Memory {
  readonly sizes: SizeHints;
  /** Absent: nothing is kept. */
  readonly reach: KeptReach<Reach> | undefined;
  /** Distinguishes the model from others that share `reach`. */
  readonly scope: string;
  readonly plans: WeakMap<Reach, Map<string, RowPlan>>;
}

/** How rows are found and tested, with the ids of everything beyond them. */
export interface RowPlan {
  readonly exact: boolean;
  readonly test: Test;
  /** Id of the row that the subject itself is. */
  readonly self: string | undefined;
  /** Absent when rows are open without any tuple: then there is no other way than to ask each row. */
  readonly source: RowSource | undefined;
  readonly principals: readonly Principal[];
  /** By what is known of the size. */
  readonly shapes: Map<string, string>;
}

const noCircumstances: Circumstances = { context: {}, contextual: [] };
const nothing: Reach = { reached: [], until: undefined };
/** Ids that the first rows of a page may be chosen from. */
const MOST_FIRST = 20_000;

/**
 * Compiles the predicate. A value that only a request could give counts as not given: such rows are not shown. With
 * `catchUp`, what was kept is used, and the predicate says how to find out whether it stands.
 */
export async function rowPredicate(
  world: World,
  question: ResourceQuestion,
  memory: Memory,
  catchUp?: () => Promise<Moment>,
): Promise<RowPredicate> {
  const { subject, action, type } = question;
  const { model } = world;
  requireSubject(model, subject);
  const goal = resolveName(model, type, action);
  const reach = await reachOf(world, { subject, names: originsBelow(model, goal) }, memory, catchUp !== undefined);
  const plan = await planOf(world, { subject, goal }, memory, reach.value);
  const { source, principals } = plan;
  const size = source && (await sizeOf(world, { subject, goal, principals }, source.lookups, memory.sizes));
  const predicate = compiled(plan, { id: subject.id, type }, size);
  return catchUp ? { ...predicate, ...belief(model.revision, reach, catchUp) } : predicate;
}

function belief(
  revision: number,
  { stands, rests }: Believed<Reach>,
  catchUp: () => Promise<Moment>,
): Pick<RowPredicate, 'confirm' | 'guard'> {
  const confirm = async (): Promise<boolean> => {
    const moment = await catchUp();
    return moment.revision === revision && stands(moment);
  };
  return { confirm, ...(rests && { guard: (next) => guardText({ ...rests, revision }, next) }) };
}

async function reachOf(world: World, way: Climb, { reach, scope }: Memory, useKept: boolean): Promise<Believed<Reach>> {
  const { subject, names } = way;
  if (names.length === 0) {
    const position = reach?.position();
    return { value: nothing, stands: () => true, ...(position && { rests: { ...position, types: [] } }) };
  }
  const ascent = ascentTo(world.model, names);
  // Whoever starts from every object there is hangs on every tuple: not worth keeping.
  if (!useKept || !reach || ascent.open.length > 0) {
    return { value: await climb(world, way, noCircumstances), stands: () => true };
  }
  return reach.believe({
    key: `${scope} ${formatSubject(subject)} ${names.map(keyOf).join(' ')}`,
    types: [...new Set([...ascent.direct, ...ascent.steps].map((rule) => rule.type))],
    find: async () => foundOn(subject, await climb(world, way, noCircumstances)),
  });
}

/** What was reached hangs on the tuples of the subject, of everybody of its type, and of everything on the way. */
const foundOn = ({ type, id }: SubjectRef, value: Reach): Found<Reach> => ({
  value,
  subjects: [...new Set([`${type}:${id}`, `${type}:*`, ...value.reached.map((r) => `${r.type}:${r.id}`)])],
  until: value.until,
});

interface Goal {
  readonly subject: SubjectRef;
  readonly goal: Name;
}

/** The plan that was made from this reach before, where it rests on nothing else. */
async function planOf(world: World, { subject, goal }: Goal, { plans }: Memory, reach: Reach): Promise<RowPlan> {
  const { model } = world;
  const lasting = reach !== nothing && !takesConditions(model, goal) && originsBelow(model, goal).every((name) => isExact(model, name));
  if (!lasting) return makePlan(world, { subject, goal }, reach);
  const known = plans.get(reach) ?? new Map<string, RowPlan>();
  plans.set(reach, known);
  const plan = known.get(keyOf(goal)) ?? (await makePlan(world, { subject, goal }, reach));
  known.set(keyOf(goal), plan);
  return plan;
}

async function makePlan(world: World, { subject, goal }: Goal, { reached }: Reach): Promise<RowPlan> {
  const { model } = world;
  const principals = await principalsAmong(world, { subject, names: originsBelow(model, goal) }, reached, noCircumstances);
  const conditional = await conditionalTuples(world, { goal, subjects: [...formsOf(subject), ...setsOf(model, principals)] });
  const self = isSelf({ subject, object: { type: goal.type, id: subject.id }, name: goal });
  const named = nameTest(
    { model, subject, principals: Map.groupBy(principals, (p) => p.name), conditional, known: new Map() },
    goal,
    'sure',
  );
  return {
    exact: isExact(model, goal),
    test: anyOf([self ? { kind: 'row', id: subject.id } : never, named]),
    self: self ? subject.id : undefined,
    source: isFound(model, goal) ? rowSource(goal.type, lookupsTo(model, { subject, goal, principals }), isExact(model, goal)) : undefined,
    principals,
    shapes: new Map(),
  };
}

/** True when every row is found by a tuple. */
const isFound = (model: Model, goal: Name): boolean =>
  !mayBeOpen(model, goal) && !originsOf(model, goal).some((name) => isPublic(model, name));

type Pieces = Pick<RowPredicate, 'compile' | 'first' | 'number'>;

function compiled(plan: RowPlan, row: { readonly id: string; readonly type: string }, size: Size | undefined): RowPredicate {
  const pieces = piecesOf(plan, row.type, size);
  const key = `${size?.few} ${size?.known} ${size?.largest}`;
  let shape = plan.shapes.get(key);
  if (shape === undefined) {
    shape = shapeOf(pieces);
    plan.shapes.set(key, shape);
  }
  return { ...pieces, shape };
}

/** Distinguishes predicates by their text. */
function shapeOf({ compile, first, number }: Pieces): string {
  const uses: readonly RowUse[] = ['row', 'rows', 'count'];
  const mark = (): string => '?';
  const texts = [
    ...uses.map((use) => compile('id', mark, use)),
    first?.compile({ rows: 'rows', count: '?' }, mark) ?? '',
    number?.('rows', mark) ?? '',
  ];
  return createHash('sha256').update(texts.join('\n')).digest('base64url').slice(0, 24);
}

function piecesOf({ exact, test, self, source }: RowPlan, type: string, size: Size | undefined): Pieces {
  const tested: RowPredicate['compile'] = (id, next) => renderTest(test, { id, type, next });
  if (!source || !size) return { compile: tested };
  const compile: RowPredicate['compile'] = (id, next, use = 'rows') => {
    if (use === 'row' || (use === 'rows' && !size.few)) return tested(id, next);
    const found = `${id} in (${foundIds(source, next)})`;
    // "is true" makes it a hash table that is filled once, whatever the planner believes about its size.
    const among = `${size.few ? found : `(${found}) is true`}${self === undefined ? '' : ` or (${id})::text = ${next(self)}::text`}`;
    return exact ? among : `(${among}) and (${tested(id, next)})`;
  };
  const first: RowPredicate['first'] = {
    most: Math.floor(MOST_FIRST / Math.max(1, source.lookups.length)),
    compile({ rows, count }, next) {
      const found = firstRows(source, { rows, count, test: exact ? undefined : tested('d."_id"', next) }, next);
      const own = self === undefined ? '' : ` union all select * from ${rows} d where d."_id"::text = ${next(self)}::text`;
      return `select distinct on (f."_id") f.* from (${found}${own}) f order by f."_id"`;
    },
  };
  if (!exact || self !== undefined || !size.known) return { compile, first };
  return { compile, first, number: (table, next) => rowCount(source, { table, largest: size.largest }, next) };
}
