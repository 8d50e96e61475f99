/**
 * The way down in one expression of SQL: whether a subject has a name on an object, however much lies between them. It ends
 * at the first way that is found. Only for names that rest on nothing but alternatives: what it meets is then what counts.
 */
import { statementName } from '../../../kernel/database/sql.ts';
import { expansionTo, isPublic } from '../model/expansion-rules.ts';
import type { SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { arrayText, liveTuple } from '../tuple-sql.ts';
import type { EngineScope, Resolved } from './ask.ts';
import { askedTuples } from './asked-tuples.ts';
import { hasOwnSet } from './principals.ts';
import { lookupsOf } from './reverse-expansion.ts';
import { sourceOf } from './tuple-source.ts';

type Next = (value: unknown) => string;

/** Whose way it is, and to what. The name must be exact. */
export interface DescentGoal {
  readonly subject: SubjectRef;
  readonly name: Name;
  /** Where the tuples are, if it is not the table (asked-tuples.ts). */
  readonly table?: string | undefined;
}

/** An expression; `id` is SQL of the object's id, a text. Its text is the same for all. */
export function descentText(
  model: Model,
  { subject, name, table }: DescentGoal,
  id: string,
  next: Next,
): string {
  const { direct, steps, names } = expansionTo(model, [name]);
  const lookups = lookupsOf(model, subject, direct);
  const from = sourceOf(model, [...steps, ...lookups.map(({ rule }) => rule)], table);
  // A set has everything of its object that it counts towards, and the way ends at any of that.
  const ends = [...names.values()].filter((one) => hasOwnSet(model, subject, one));
  const open = [...names.values()].filter((one) => isPublic(model, one));
  const array = (values: readonly string[]): string =>
    `(select ${next(arrayText(values))}::text[])`;
  const unconditional = `${liveTuple('t')} and num_nulls(t.condition) = 1`;
  return `exists (
    with recursive
      way as materialized (select * from unnest(${array(steps.map((s) => s.name))}, ${array(steps.map((s) => s.type))}, ${array(steps.map((s) => s.relation))},
        ${array(steps.map((s) => s.fromType))}, ${array(steps.map((s) => s.setRelation))}, ${array(steps.map((s) => s.fromName))})
        x(name, type, relation, from_type, set_relation, from_name)),
      own as materialized (select * from unnest(${array(lookups.map((l) => l.rule.name))}, ${array(lookups.map((l) => l.rule.type))},
        ${array(lookups.map((l) => l.rule.relation))}, ${array(lookups.map((l) => l.subject.type))}, ${array(lookups.map((l) => l.subject.id))})
        x(name, type, relation, s_type, id)),
      below(name, id) as (
        select (select ${next(keyOf(name))}::text) collate "C", (${id}) collate "C"
        union
        select w.from_name collate "C", t.subject_id from below b join way w on w.name = b.name cross join lateral (
          select t.subject_id from ${from.rows} t
           where t.resource_type = w.type and t.resource_id = b.id${from.resource('t', 'b.id')} and t.relation = w.relation and t.subject_type = w.from_type
             and t.subject_relation = w.set_relation and t.subject_id <> '*' and ${unconditional} offset 0) t)
    select 1 from below b
     where b.name = any(${array(open.map(keyOf))}::text[])
        or (b.name = any(${array(ends.map(keyOf))}::text[]) and b.id = (select ${next(subject.id)}::text))
        or exists (select 1 from own o cross join lateral (
            select 1 from ${from.rows} t
             where t.resource_type = o.type and t.resource_id = b.id${from.resource('t', 'b.id')} and t.relation = o.relation
               and t.subject_type = o.s_type and t.subject_id = o.id
               and t.subject_relation = (select ${next(subject.relation)}::text) and ${unconditional} offset 0) t
           where o.name = b.name))`;
}

/** Whether the subject of a question has its name, which must be exact. */
export async function isReachable(
  { model, database }: EngineScope,
  { subject, object, name }: Resolved,
  contextual: readonly Tuple[] = [],
): Promise<boolean> {
  const values: unknown[] = [];
  const next: Next = (value) => `$${values.push(value)}`;
  const id = `(select ${next(object.id)}::text)`;
  const { table, prelude } = askedTuples(model, contextual, next);
  const text = `${prelude}select ${descentText(model, { subject, name, table }, id, next)} as allowed`;
  const { rows } = await database.query<{ allowed: boolean }>({
    text,
    name: statementName(text),
    values,
  });
  return rows[0]?.allowed === true;
}
