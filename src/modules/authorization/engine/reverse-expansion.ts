/**
 * The way up: every object on which a subject has one of the names that
 * something hangs on, in one statement of bounded index lookups.
 */
import type { DirectRule, ExpansionRules } from '../model/expansion-rules.ts';
import { formsOf, isEverybody, type SubjectRef } from '../model/grammar.ts';
import { grantedAction, type Model } from '../model/model.ts';
import { allows } from '../model/tuple.ts';
import { liveTuple } from '../tuple-sql.ts';
import type { EngineScope } from './ask.ts';
import { engineErrors, limits, sizesOf } from './limits.ts';
import {
  recordRelationsNaming,
  sourcedStatement,
  sourceOf,
  type TupleSource,
} from './tuple-source.ts';

/** An object and the key of a name (`keyOf`) that the subject has on it. */
export interface ReachableObject {
  readonly type: string;
  readonly id: string;
  readonly name: string;
}

/** Tuples that are looked up by the subject that is written in them. */
export interface Lookup {
  readonly rule: DirectRule;
  readonly subject: SubjectRef;
}

/** A direct rule as lookups: the subject itself, and everybody of its type, each where the model lets them stand. */
export function lookupsOf(
  model: Model,
  subject: SubjectRef,
  rules: readonly DirectRule[],
): readonly Lookup[] {
  const forms = formsOf(subject);
  return rules.flatMap((rule) =>
    forms.filter((form) => mayStand(model, form, rule)).map((form) => ({ rule, subject: form })),
  );
}

export function mayStand(
  model: Model,
  subject: SubjectRef,
  { type, relation }: Pick<DirectRule, 'type' | 'relation'>,
): boolean {
  if (grantedAction(relation) !== undefined)
    return subject.relation === '' && !isEverybody(subject);
  return (model.get(type)?.relations.get(relation) ?? []).some((allowed) =>
    allows(allowed, subject),
  );
}

const max = limits.reached + 1;

/**
 * Every object that stands in any tuple, for each open name. PostgreSQL takes it for as many rows as there are tuples, and
 * makes room for them before it begins: a fifth of a second among a million. So it is only there where it is needed.
 */
const openObjects = (from: TupleSource): string => `
      union all
      select o.type, r.subject_id, o.name, null
        from unnest((select $19::text[]), (select $20::text[])) o(type, name)
        cross join lateral (
          select distinct t.subject_id from ${from.rows} t
           where t.subject_type = o.type and t.subject_id <> '*' limit ${max}) r`;

const expansionText = (from: TupleSource, open: string): string => `with recursive
  direct as materialized (
    select * from unnest((select $1::text[]), (select $2::text[]), (select $3::text[]), (select $4::text[]), (select $5::text[]), (select $6::text[]), (select $7::boolean[]))
      x(s_type, s_id, s_relation, type, relation, name, exact)),
  step as materialized (
    select * from unnest((select $8::text[]), (select $9::text[]), (select $10::text[]), (select $11::text[]), (select $12::text[]), (select $13::text[]), (select $14::boolean[]))
      x(from_type, from_name, set_relation, type, relation, name, exact)),
  has(type, id, name, until) as (
    (
      select d.type collate "C", r.resource_id collate "C", d.name collate "C", r.expires_at
        from direct d
        cross join lateral (
          select t.resource_id, t.expires_at from ${from.rows} t
           where t.subject_type = d.s_type and t.subject_id = d.s_id${from.subject('t', 'd.s_id')} and t.subject_relation = d.s_relation
             and t.resource_type = d.type and t.relation = d.relation and ${liveTuple('t')} and (t.condition is null or not d.exact)
           limit ${max}) r
      union all
      select *, null::timestamptz from unnest((select $15::text[]), (select $16::text[]), (select $17::text[]))${open}
    )
    union
    select p.type, r.resource_id, p.name, r.expires_at
      from has h join step p on p.from_type = h.type and p.from_name = h.name
      cross join lateral (
        select t.resource_id, t.expires_at from ${from.rows} t
         where t.subject_type = h.type and t.subject_id = h.id${from.subject('t', 'h.id')} and t.subject_relation = p.set_relation
           and t.resource_type = p.type and t.relation = p.relation and ${liveTuple('t')} and (t.condition is null or not p.exact)
         limit ${max}) r
  )
  select type, id, name, extract(epoch from until) * 1000 as until from has limit (select $18::bigint)`;

const expansion = sourcedStatement((from) => expansionText(from, ''));
const expansionWithOpen = sourcedStatement((from) => expansionText(from, openObjects(from)));

/** Where a reverse expansion starts. */
export interface Start {
  readonly lookups: readonly Lookup[];
  readonly seeds: readonly ReachableObject[];
  /** Names for which every object that stands in any tuple is a start. */
  readonly open: readonly { readonly type: string; readonly name: string }[];
}

/** What was reached. */
export interface ReachableSet {
  readonly reached: readonly ReachableObject[];
  /** By the clock of the database, ms since 1970: when the first tuple that was passed stops to count. */
  readonly until: number | undefined;
  /** Names (`keyOf`) that the subject has on more objects than are named; these are not among them. */
  readonly unnamed?: ReadonlySet<string>;
}

/** Follows the rules. Throws `PERMISSION_SET_TOO_LARGE` when more than `bound` is reached. */
export async function expandReverse(
  scope: EngineScope,
  { lookups, seeds, open }: Start,
  { steps }: ExpansionRules,
  bound: number = sizesOf(scope).reached,
): Promise<ReachableSet> {
  const { model, database } = scope;
  if (lookups.length + seeds.length + open.length === 0) return { reached: [], until: undefined };
  const { rows } = await database.query<ReachableObject & { readonly until: string | null }>({
    ...(open.length === 0 ? expansion : expansionWithOpen)(
      sourceOf(model, [
        ...lookups.map((l) => l.rule),
        ...steps,
        ...open.flatMap(({ type }) => recordRelationsNaming(model, type)),
      ]),
    ),
    values: [
      lookups.map((l) => l.subject.type),
      lookups.map((l) => l.subject.id),
      lookups.map((l) => l.subject.relation),
      lookups.map((l) => l.rule.type),
      lookups.map((l) => l.rule.relation),
      lookups.map((l) => l.rule.name),
      lookups.map((l) => l.rule.exact),
      steps.map((s) => s.fromType),
      steps.map((s) => s.fromName),
      steps.map((s) => s.setRelation),
      steps.map((s) => s.type),
      steps.map((s) => s.relation),
      steps.map((s) => s.name),
      steps.map((s) => s.exact),
      seeds.map((s) => s.type),
      seeds.map((s) => s.id),
      seeds.map((s) => s.name),
      bound + 1,
      ...(open.length === 0 ? [] : [open.map((o) => o.type), open.map((o) => o.name)]),
    ],
  });
  if (rows.length > bound) throw engineErrors.PERMISSION_SET_TOO_LARGE();
  const ends = rows.flatMap(({ until }) => (until === null ? [] : [Number(until)]));
  return {
    reached: distinct(rows),
    until: ends.length === 0 ? undefined : ends.reduce((a, b) => Math.min(a, b)),
  };
}

export const reachableKey = ({
  type,
  id,
  name,
}: Pick<ReachableObject, 'type' | 'id' | 'name'>): string => `${type}:${id}#${name}`;

/** Each object and name once. */
export const distinct = (rows: readonly ReachableObject[]): readonly ReachableObject[] => [
  ...new Map(rows.map((row) => [reachableKey(row), row])).values(),
];
