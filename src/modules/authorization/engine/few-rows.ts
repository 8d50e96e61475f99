/**
 * A subject that sees few rows of a large table: they are found from his tuples
 * instead of by asking each row. Which way is taken changes speed only, so it
 * may rest on what was found a while ago.
 */
import { LRUCache } from 'lru-cache';
import { statementName } from '../../../kernel/database/sql.ts';
import { isExact, mayBeOpen, originsOf, rulesTo } from '../model/ascent.ts';
import { formatSubject, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { type Lookup, lookupsOf } from './ascend.ts';
import type { World } from './ask.ts';
import type { Principal } from './principals.ts';
import type { RowPlace } from './row-test.ts';
import { liveTuple } from './tuple-row.ts';

/** Up to this many tuples lead to few rows. */
const FEW = 1_000;
const HINTS = 10_000;
const HINT_MS = 60_000;

/** Whether a subject was found to see few rows. */
export interface SizeHints {
  get(key: string): boolean | undefined;
  set(key: string, few: boolean): unknown;
}

export const createSizeHints = (): SizeHints => new LRUCache({ max: HINTS, ttl: HINT_MS });

/** True when everybody has the name on every object. */
export const isPublic = (model: Model, name: Name): boolean => mayBeOpen(model, name) && isExact(model, name);

/** Whose rows are sought, and the objects through which he acts. */
export interface RowSearch {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly principals: readonly Principal[];
}

/** The lookups that give every resource on which the subject may have the goal; those of public names are not among them. */
export function lookupsTo(model: Model, { subject, goal, principals }: RowSearch): readonly Lookup[] {
  const rules = rulesTo(model, goal);
  const byName = Map.groupBy(principals, (p) => p.name);
  return [
    ...lookupsOf(model, subject, rules.direct),
    ...rules.steps.flatMap((rule) =>
      (byName.get(rule.fromName) ?? []).map(({ type, id }) => ({ rule, subject: { type, id, relation: rule.setRelation } })),
    ),
  ];
}

/** Lookups as the columns of `unnest`. */
export const lookupColumns = (lookups: readonly Lookup[]): readonly unknown[] => [
  lookups.map((l) => l.subject.type),
  lookups.map((l) => l.subject.id),
  lookups.map((l) => l.subject.relation),
  lookups.map((l) => l.rule.relation),
  lookups.map((l) => l.rule.exact),
];

const columnTypes = ['text', 'text', 'text', 'text', 'boolean'];

/** `l(...)`: lookups as a relation; in sub-selects, so that one plan fits all (load.ts). */
export const lookupRows = (next: (i: number) => string): string =>
  `unnest(${columnTypes.map((type, i) => `(select ${next(i)}::${type}[])`).join(', ')}) l(s_type, s_id, s_relation, relation, exact)`;

/** Tuples `t` of a lookup `l` that count, of resources of a type (SQL). */
export const lookupCondition = (type: string): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id and t.subject_relation = l.s_relation
   and t.resource_type = ${type} and t.relation = l.relation and ${liveTuple('t')} and (t.condition is null or not l.exact)`;

const probeText = `select count(*)::integer as count from (
  select 1 from ${lookupRows((i) => `$${i + 1}`)}
    cross join lateral (select 1 from penstock.tuples t where ${lookupCondition('$6::text')} limit ${FEW + 1}) r
  limit ${FEW + 1}) x`;
const probeName = statementName(probeText);

/** What is known about the rows of a subject. */
export interface RowLookups {
  /** Every resource on which the subject may have the goal is found by one of them. */
  readonly lookups: readonly Lookup[];
  readonly few: boolean;
}

/** Nothing when rows are open without any tuple: then there is no other way than to ask each row. */
export async function findLookups({ model, database }: World, search: RowSearch, hints: SizeHints): Promise<RowLookups | undefined> {
  const { subject, goal } = search;
  if (mayBeOpen(model, goal) || originsOf(model, goal).some((name) => isPublic(model, name))) return undefined;
  const key = `${formatSubject(subject)} ${keyOf(goal)}`;
  const lookups = lookupsTo(model, search);
  let few = hints.get(key);
  if (few === undefined) {
    const values = [...lookupColumns(lookups), goal.type];
    const { rows } = await database.query<{ count: number }>({ name: probeName, text: probeText, values });
    few = (rows[0]?.count ?? 0) <= FEW;
    hints.set(key, few);
  }
  return { lookups, few };
}

/**
 * Condition that a row is found by the lookups. For few rows they lead to the rows; for many the rows are looked up
 * among them. Ids of resources that are no row ids lead to no row.
 */
export function amongLookups({ lookups, few }: RowLookups, { id, type, next }: RowPlace): string {
  const columns = lookupColumns(lookups);
  const rows = lookupRows((i) => next(columns[i]));
  const found = `select r.id from ${rows} cross join lateral (
    select t.resource_uuid as id from penstock.tuples t where ${lookupCondition(`${next(type)}::text`)} offset 0) r where r.id is not null`;
  // "is true" makes it a hash table that is filled once, whatever the planner believes about its size.
  return few ? `${id} in (${found})` : `(${id} in (${found})) is true`;
}
