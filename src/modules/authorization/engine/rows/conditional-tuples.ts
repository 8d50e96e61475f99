/** Tuples with a condition that a row predicate can meet: evaluated here, so that SQL and checks cannot differ in what a condition means. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { statementName } from '../../../../kernel/database/sql.ts';
import { evaluateCondition } from '../../model/condition.ts';
import { namesOfObject } from '../../model/expansion-rules.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import { keyOf, type Model, type Name, reachable } from '../../model/model.ts';
import { fits } from '../../model/tuple.ts';
import { liveTuple, type TupleRow, tupleColumns, tupleOf } from '../../tuple-sql.ts';
import type { EngineScope, EvaluationContext } from '../ask.ts';
import type { Bounds } from '../graph.ts';
import { engineErrors, sizesOf } from '../limits.ts';
import { arrowsIn } from '../tuple-loading.ts';

/** What tuples with a condition come to that were looked up, by relation. */
export interface ConditionalTuples {
  /** Ids of those that hold for sure. */
  holding(relation: string): readonly string[];
  /** Those that fail for sure: what was written since they were looked up is not among them. */
  failing(relation: string): SeenTuples;
}

/** Tuples as they were: one that is written anew keeps its id. */
export interface SeenTuples {
  readonly ids: readonly string[];
  /** The transaction that wrote each (`xmin`). */
  readonly written: readonly string[];
}

const noneSeen: SeenTuples = { ids: [], written: [] };

export const noConditional: ConditionalTuples = { holding: () => [], failing: () => noneSeen };

const text = `select ${tupleColumns}, id, written, false as expired from (
    select r.* from unnest((select $1::text[])) w(relation) cross join unnest((select $2::text[]), (select $3::text[]), (select $4::text[])) s(s_type, s_id, s_relation)
      cross join lateral (
        select t.*, t.xmin::text as written from penstock.tuples t
         where t.subject_type = s.s_type and t.subject_id = s.s_id and t.subject_relation = s.s_relation
           and t.resource_type = $6::text and t.relation = w.relation and t.condition is not null and ${liveTuple('t')}
         limit (select $7::bigint)) r
    union all
    select r.* from unnest((select $5::text[])) w(relation) cross join lateral (
        select t.*, t.xmin::text as written from penstock.tuples t
         where t.resource_type = $6::text and t.relation = w.relation and t.condition is not null and ${liveTuple('t')}
         limit (select $7::bigint)) r
  ) x limit (select $7::bigint)`;
const name = statementName(text);

/** Subjects that count for rows of a type, and what is asked of the rows. */
export interface RowSubjects {
  readonly goal: Name;
  readonly subjects: readonly SubjectRef[];
  /** Most that are loaded. */
  readonly bound: number;
}

/** Conditions with attributes, of which it is known what they come to. */
export interface ConditionPairs {
  readonly conditions: readonly string[];
  /** As the database writes them. */
  readonly attributes: readonly string[];
}

/** What all conditions of tuples come to that a question can meet, however many tuples have them. */
export interface ConditionValues {
  /** Those that hold for sure, or those that fail for sure, of tuples about objects of a type. */
  of(type: string, standing: 'holding' | 'failing'): ConditionPairs;
  /** Values of the request that others hang on. */
  readonly missing: readonly string[];
}

const pairsText = `select distinct t.resource_type, t.condition, coalesce(t.attributes::text, '') as attributes
  from unnest($1::text[], $2::text[]) w(type, relation) cross join lateral (
    select t.* from penstock.tuples t
     where t.resource_type = w.type and t.relation = w.relation and t.condition is not null and ${liveTuple('t')} offset 0) t
  limit $3::bigint`;

/**
 * Evaluates each condition with each set of attributes once, for everything below a name. Throws
 * `PERMISSION_SET_TOO_LARGE` when these are more than `limits.conditionValues`.
 */
export async function conditionValues(
  engineScope: EngineScope,
  goal: Name,
  { context, contextual }: Pick<EvaluationContext, 'context' | 'contextual'>,
): Promise<ConditionValues> {
  const { model, database } = engineScope;
  const most = sizesOf(engineScope).conditionValues;
  const relations = relationsWithConditions(model, goal);
  const found = new Map<string, { conditions: string[]; attributes: string[] }>();
  const missing = new Set<string>();
  const ofType = (key: string) => {
    const known = found.get(key) ?? { conditions: [], attributes: [] };
    found.set(key, known);
    return known;
  };
  const take = ({ resource_type: type, condition: name, attributes: text }: PairRow): void => {
    const condition = model.condition(type, name);
    const attributes = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
    const input = { context, attributes, now: new Date().toISOString() };
    const result = condition && evaluateCondition(condition, input);
    for (const value of result?.missing ?? []) missing.add(value);
    if (result?.possible && !result.holds) return;
    const pairs = ofType(`${type} ${result?.holds ? 'holding' : 'failing'}`);
    pairs.conditions.push(name);
    pairs.attributes.push(text);
  };
  if (relations.length > 0) {
    const values = [relations.map(({ type }) => type), relations.map((r) => r.relation), most + 1];
    const { rows } = await database.query<PairRow>({ text: pairsText, values });
    if (rows.length > most) throw tooManyValues(most);
    for (const row of rows) take(row);
  }
  for (const row of await contextualPairs(database, contextual)) take(row);
  return { of: (type, standing) => ofType(`${type} ${standing}`), missing: [...missing] };
}

/** As the database writes them. */
async function contextualPairs(
  database: Queryable,
  contextual: EvaluationContext['contextual'],
): Promise<readonly PairRow[]> {
  const conditional = contextual.filter(({ condition }) => condition !== undefined);
  if (conditional.length === 0) return [];
  const { rows } = await database.query<PairRow>({
    text: `select x.type as resource_type, x.condition, coalesce(x.attributes::jsonb::text, '') as attributes
      from unnest($1::text[], $2::text[], $3::text[]) x(type, condition, attributes)`,
    values: [
      conditional.map(({ resource }) => resource.type),
      conditional.map(({ condition }) => condition),
      conditional.map(({ attributes }) => (attributes ? JSON.stringify(attributes) : null)),
    ],
  });
  return rows;
}

const tooManyValues = (most: number) =>
  engineErrors.PERMISSION_SET_TOO_LARGE({
    message: `More than ${most} different sets of attributes stand beside conditions on the way; check single objects, or compare with fields of the record by a rule instead`,
  });

interface PairRow {
  readonly resource_type: string;
  readonly condition: string;
  readonly attributes: string;
}

/** All relations that take conditions and that an answer about a name can hang on. */
const relationsWithConditions = (
  model: Model,
  goal: Name,
): readonly { readonly type: string; readonly relation: string }[] =>
  model.derived(`conditional below ${keyOf(goal)}`, () => {
    const names = [goal, ...reachable(goal, model.dependencies).edges.map(({ on }) => on)];
    const relations = names.flatMap((one) =>
      [
        ...(one.kind === 'relation' ? [one.name] : []),
        ...arrowsIn(model.expression(one) ?? { kind: 'none' }).map(({ relation }) => relation),
      ].map((relation) => ({ type: one.type, relation })),
    );
    const conditional = relations.filter(({ type, relation }) =>
      (model.get(type)?.relations.get(relation) ?? []).some((a) => a.condition !== undefined),
    );
    return [...new Map(conditional.map((one) => [`${one.type} ${one.relation}`, one])).values()];
  });

/**
 * Loads and evaluates them. Throws `PERMISSION_SET_TOO_LARGE` when they are more than the bound. Context is not given:
 * what hangs on it is possible, not sure. The rows are asked by a later statement: what takes a right away counts there
 * unless it was seen to fail here, so that nobody slips through while a ban gets a condition.
 */
export async function conditionalTuples(
  { model, database }: EngineScope,
  { goal, subjects, bound }: RowSubjects,
): Promise<ConditionalTuples> {
  const { some, every } = conditionalRelations(model, goal);
  const holding = new Map<string, string[]>();
  const failing = new Map<string, { ids: string[]; written: string[] }>();
  if (some.length + every.length > 0) {
    const values = [
      some,
      subjects.map((s) => s.type),
      subjects.map((s) => s.id),
      subjects.map((s) => s.relation),
      every,
      goal.type,
      bound + 1,
    ];
    const { rows } = await database.query<SeenRow>({ name, text, values });
    if (rows.length > bound) throw engineErrors.PERMISSION_SET_TOO_LARGE();
    const now = new Date().toISOString();
    for (const row of rows) {
      const { sure, possible } = standingOf(model, row, now);
      if (sure) mapped(holding, row.relation, () => []).push(row.id);
      if (possible) continue;
      const seen = mapped(failing, row.relation, () => ({ ids: [], written: [] }));
      seen.ids.push(row.id);
      seen.written.push(row.written);
    }
  }
  return {
    holding: (relation) => holding.get(relation) ?? [],
    failing: (relation) => failing.get(relation) ?? noneSeen,
  };
}

type SeenRow = TupleRow & { readonly id: string; readonly written: string };

function mapped<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key) ?? make();
  map.set(key, known);
  return known;
}

function standingOf(model: Model, row: TupleRow, now: string): Bounds {
  const tuple = tupleOf(row);
  const condition = model.condition(row.resource_type, row.condition ?? '');
  if (!condition || !fits(model, tuple)) return { sure: false, possible: false };
  const { holds, possible } = evaluateCondition(condition, {
    context: {},
    attributes: tuple.attributes ?? {},
    now,
  });
  return { sure: holds, possible };
}

/** True when tuples of the rows themselves may have conditions. */
export function takesConditions(model: Model, goal: Name): boolean {
  const { some, every } = conditionalRelations(model, goal);
  return some.length + every.length > 0;
}

/** Relations of the goal's object that take conditions; those under "every" are needed whole. */
function conditionalRelations(
  model: Model,
  goal: Name,
): { readonly some: readonly string[]; readonly every: readonly string[] } {
  return model.derived(`conditional ${goal.type} ${goal.kind} ${goal.name}`, () => {
    const names = namesOfObject(model, goal, true);
    const arrows = names.flatMap((n) => arrowsIn(model.expression(n) ?? { kind: 'none' }));
    const relations = [
      ...names.filter((n) => n.kind === 'relation').map((n) => n.name),
      ...arrows.map((a) => a.relation),
    ];
    const isConditional = (relation: string) =>
      (model.get(goal.type)?.relations.get(relation) ?? []).some((a) => a.condition !== undefined);
    const conditional = [...new Set(relations.filter(isConditional))];
    const whole = new Set(arrows.filter((a) => a.all).map((a) => a.relation));
    return {
      some: conditional.filter((r) => !whole.has(r)),
      every: conditional.filter((r) => whole.has(r)),
    };
  });
}
