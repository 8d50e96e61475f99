/**
 * Loads every tuple that a set of questions can hang on, in one statement: a
 * walk from the asked objects along the relations of the footprint. Each step
 * is an index lookup with a bound, so that no plan can turn into a scan. The
 * values stand in sub-selects, where the planner does not look at them: a plan
 * for these values is then no better than one for all, and planning (1 to 2 ms,
 * far more than running) happens once per connection.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import type { Footprint } from '../model/footprint.ts';
import { formatSubject, type ObjectRef, type SubjectRef } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import { fits } from '../model/validity.ts';
import { engineErrors } from './errors.ts';
import { limits } from './limits.ts';
import type { Tuple } from './tuple.ts';
import { type TupleRow, tupleColumns, tupleOf } from './tuple-row.ts';

const most = limits.tuples + 1;

/** Tuples of one object (given as SQL expressions) that the footprint names; `onward` ones lead to further objects. */
const outOf = (type: string, id: string): string => `
  select f.*, false as onward
    from probe p cross join subject s cross join lateral (
      select ${tupleColumns} from penstock.tuples t
       where t.resource_type = p.type and t.resource_id = ${id} and t.relation = p.relation
         and t.subject_type = s.s_type and t.subject_id = s.s_id and t.subject_relation = s.s_relation
       limit 1) f
   where p.type = ${type}
  union all
  select f.*, true from follow w cross join lateral (
    select ${tupleColumns} from penstock.tuples t
     where t.resource_type = w.type and t.resource_id = ${id} and t.relation = w.relation
       and t.subject_type = w.subject_type and t.subject_relation = '' and t.subject_id <> '*'
     limit ${most}) f
   where w.type = ${type}
  union all
  select f.*, true from sets w cross join lateral (
    select ${tupleColumns} from penstock.tuples t
     where t.resource_type = w.type and t.resource_id = ${id} and t.relation = w.relation and t.subject_relation <> ''
     limit ${most}) f
   where w.type = ${type}`;

const text = `with recursive
  probe as materialized (select * from unnest((select $1::text[]), (select $2::text[])) x(type, relation)),
  follow as materialized (select * from unnest((select $3::text[]), (select $4::text[]), (select $5::text[])) x(type, relation, subject_type)),
  sets as materialized (select * from unnest((select $6::text[]), (select $7::text[])) x(type, relation)),
  subject as materialized (select * from unnest((select $8::text[]), (select $9::text[]), (select $10::text[])) x(s_type, s_id, s_relation)),
  edge as (
    select e.* from unnest((select $11::text[]), (select $12::text[])) root(type, id) cross join lateral (${outOf('root.type', 'root.id')}) e
    union
    select e.* from edge b cross join lateral (${outOf('b.subject_type', 'b.subject_id')}) e where b.onward
  )
  select ${tupleColumns}, coalesce(expires_at <= now(), false) as expired from edge limit ${most}`;
const name = statementName(text);

/** What is to be loaded. */
export interface LoadRequest {
  readonly footprint: Footprint;
  readonly subjects: readonly SubjectRef[];
  readonly objects: readonly ObjectRef[];
}

/** Loads for all subjects and objects at once; tuples that do not fit the model count for nothing. Throws `BREADTH_LIMIT`. */
export async function loadTuples(database: Queryable, model: Model, request: LoadRequest): Promise<readonly Tuple[]> {
  // Up to `limits.tuples` rows: this is no short statement.
  const { rows } = await database.query<TupleRow>({ name, text, values: valuesOf(request), class: 'pooled' });
  if (rows.length > limits.tuples) throw engineErrors.BREADTH_LIMIT();
  return rows.map(tupleOf).filter((tuple) => fits(model, tuple));
}

function valuesOf({ footprint: { probes, follows, sets }, subjects, objects }: LoadRequest): readonly unknown[] {
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

/** A plain subject is also meant by `Type:*`. */
function withWildcards(subjects: readonly SubjectRef[]): readonly SubjectRef[] {
  const all = new Map(subjects.map((s) => [formatSubject(s), s]));
  for (const { type, relation } of subjects) if (relation === '') all.set(`${type}:*`, { type, id: '*', relation: '' });
  return [...all.values()];
}
