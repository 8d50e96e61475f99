/**
 * Loads every tuple that a set of questions can hang on, in one statement: a
 * walk from the asked objects along the relations of the footprint. Each step
 * is an index lookup with a bound, so that no plan can turn into a scan. The
 * values stand in sub-selects, where the planner does not look at them: a plan
 * for these values is then no better than one for all, and planning (1 to 2 ms,
 * far more than running) happens once per connection.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { childrenOf, type Expression } from '../model/expression.ts';
import { formatSubject, formsOf, type ObjectRef, type SubjectRef } from '../model/grammar.ts';
import {
  grantRelation,
  keyOf,
  leadingSubjects,
  type Model,
  type Name,
  plainTypes,
  reachable,
} from '../model/model.ts';
import { fits, type Tuple } from '../model/tuple.ts';
import { type TupleRow, tupleColumns, tupleOf } from '../tuple-sql.ts';
import { limits } from './limits.ts';
import { sourcedStatement, sourceOf, type TupleSource } from './tuple-source.ts';

/*
 * Which tuples a question can touch at all: computed once per model and name,
 * so that one statement can load everything an answer hangs on and nothing else.
 */

export interface Footprint {
  /** Relations in which the subject itself is looked for. */
  readonly probes: readonly (readonly [type: string, relation: string])[];
  /** Relations whose objects of a type lead on (arrows). */
  readonly follows: readonly (readonly [type: string, relation: string, subjectType: string])[];
  /** Relations whose subject sets lead on. */
  readonly sets: readonly (readonly [type: string, relation: string])[];
}

/** The footprint of a name, with everything below it. */
export const footprintOf = (model: Model, name: Name): Footprint =>
  model.derived(`footprint ${keyOf(name)}`, () => compute(model, name));

/** One footprint for several questions at once. */
export function mergeFootprints(footprints: readonly Footprint[]): Footprint {
  return {
    probes: unique(footprints.flatMap((f) => f.probes)),
    follows: unique(footprints.flatMap((f) => f.follows)),
    sets: unique(footprints.flatMap((f) => f.sets)),
  };
}

const unique = <T extends readonly string[]>(rows: readonly T[]): readonly T[] => [
  ...new Map(rows.map((row) => [row.join(' '), row])).values(),
];

function compute(model: Model, start: Name): Footprint {
  const names = new Map([[keyOf(start), start]]);
  for (const { on } of reachable(start, model.dependencies).edges) names.set(keyOf(on), on);
  const probes: [string, string][] = [];
  const follows: [string, string, string][] = [];
  const sets: [string, string][] = [];
  for (const name of names.values()) {
    probes.push([name.type, name.kind === 'relation' ? name.name : grantRelation(name.name)]);
    if (name.kind === 'action') {
      follows.push(...arrowRows(model, name));
      sets.push(...arrowSetRows(model, name));
    }
    if (name.kind === 'relation' && takesSets(model, name)) sets.push([name.type, name.name]);
  }
  return { probes: unique(probes), follows: unique(follows), sets: unique(sets) };
}

const takesSets = (model: Model, { type, name }: Name): boolean =>
  (model.get(type)?.relations.get(name) ?? []).some((allowed) => allowed.relation !== '');

function arrowRows(model: Model, name: Name): [string, string, string][] {
  const expression = model.expression(name);
  if (!expression) return [];
  return arrowsIn(expression).flatMap(({ relation, target, all }) => {
    const types = plainTypes(model.get(name.type)?.relations.get(relation) ?? [], model.types());
    // "every" must also see the objects that cannot have the action: they make it false.
    const leading = all ? types : types.filter((type) => model.action(type, target) !== undefined);
    return leading.map((type): [string, string, string] => [name.type, relation, type]);
  });
}

/** Relations whose sets arrows go through. */
function arrowSetRows(model: Model, name: Name): [string, string][] {
  const relations = arrowsIn(model.expression(name) ?? { kind: 'none' }).map((a) => a.relation);
  return relations.flatMap((relation): [string, string][] => {
    const subjects = model.get(name.type)?.relations.get(relation) ?? [];
    return leadingSubjects(subjects, []).some(({ via }) => via !== '')
      ? [[name.type, relation]]
      : [];
  });
}

/** All arrows of an expression. */
export function arrowsIn(
  expression: Expression,
): readonly Extract<Expression, { kind: 'arrow' }>[] {
  return expression.kind === 'arrow' ? [expression] : childrenOf(expression).flatMap(arrowsIn);
}

const max = limits.tuples + 1;

/** One that is stored, and one that the record says itself. */
const SAME = 2;

/** Tuples of one object (given as SQL expressions) that the footprint names; `onward` ones lead to further objects. */
const outOf = (from: TupleSource, type: string, id: string): string => `
  select f.*, false as onward
    from probe p cross join subject s cross join lateral (
      select ${tupleColumns} from ${from.rows} t
       where t.resource_type = p.type and t.resource_id = ${id}${from.resource('t', id)} and t.relation = p.relation
         and t.subject_type = s.s_type and t.subject_id = s.s_id and t.subject_relation = s.s_relation
       limit ${SAME}) f
   where p.type = ${type}
  union all
  select f.*, true from follow w cross join lateral (
    select ${tupleColumns} from ${from.rows} t
     where t.resource_type = w.type and t.resource_id = ${id}${from.resource('t', id)} and t.relation = w.relation
       and t.subject_type = w.subject_type and t.subject_relation = '' and t.subject_id <> '*'
     limit ${max}) f
   where w.type = ${type}
  union all
  select f.*, true from sets w cross join lateral (
    select ${tupleColumns} from ${from.rows} t
     where t.resource_type = w.type and t.resource_id = ${id}${from.resource('t', id)} and t.relation = w.relation and t.subject_relation <> ''
     limit ${max}) f
   where w.type = ${type}`;

const loadStatement = sourcedStatement(
  (from) => `with recursive
  probe as materialized (select * from unnest((select $1::text[]), (select $2::text[])) x(type, relation)),
  follow as materialized (select * from unnest((select $3::text[]), (select $4::text[]), (select $5::text[])) x(type, relation, subject_type)),
  sets as materialized (select * from unnest((select $6::text[]), (select $7::text[])) x(type, relation)),
  subject as materialized (select * from unnest((select $8::text[]), (select $9::text[]), (select $10::text[])) x(s_type, s_id, s_relation)),
  edge as (
    select e.* from unnest((select $11::text[]), (select $12::text[])) root(type, id) cross join lateral (${outOf(from, 'root.type', 'root.id')}) e
    union
    select e.* from edge b cross join lateral (${outOf(from, 'b.subject_type', 'b.subject_id')}) e where b.onward
  )
  select ${tupleColumns}, coalesce(expires_at <= now(), false) as expired from edge limit (select $13::bigint)`,
);

/** Where the tuples of a footprint are. */
export const footprintSource = (
  model: Model,
  { probes, follows }: Pick<Footprint, 'probes' | 'follows'>,
): TupleSource =>
  sourceOf(
    model,
    [...probes, ...follows].map(([type, relation]) => ({ type, relation })),
  );

/** What is to be loaded. */
interface LoadRequest {
  readonly footprint: Footprint;
  readonly subjects: readonly SubjectRef[];
  readonly objects: readonly ObjectRef[];
}

/** Loads for all subjects and objects at once; tuples that do not fit the model count for nothing. `undefined` when they are more than `bound`. */
export async function loadTuples(
  database: Queryable,
  model: Model,
  request: LoadRequest,
  bound: number = limits.tuples,
): Promise<readonly Tuple[] | undefined> {
  // Up to `limits.tuples` rows: this is no short statement.
  const { rows } = await database.query<TupleRow>({
    ...loadStatement(footprintSource(model, request.footprint)),
    values: [...valuesOf(request), bound + 1],
    class: 'pooled',
  });
  if (rows.length > bound) return undefined;
  return rows.map(tupleOf).filter((tuple) => fits(model, tuple));
}

function valuesOf({
  footprint: { probes, follows, sets },
  subjects,
  objects,
}: LoadRequest): readonly unknown[] {
  const sought = withWildcards(subjects);
  return [
    probes.map((p) => p[0]),
    probes.map((p) => p[1]),
    follows.map((f) => f[0]),
    follows.map((f) => f[1]),
    follows.map((f) => f[2]),
    sets.map((s) => s[0]),
    sets.map((s) => s[1]),
    sought.map((s) => s.type),
    sought.map((s) => s.id),
    sought.map((s) => s.relation),
    objects.map((o) => o.type),
    objects.map((o) => o.id),
  ];
}

/** A plain subject is also meant by `Type:*` and `*`. */
function withWildcards(subjects: readonly SubjectRef[]): readonly SubjectRef[] {
  const all = subjects.flatMap(formsOf);
  return [...new Map(all.map((s) => [formatSubject(s), s])).values()];
}
