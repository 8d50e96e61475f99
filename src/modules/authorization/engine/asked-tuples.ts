/**
 * Tuples that count for one question alone, in statements that follow the way down in the database: a relation in the
 * place of the table, in which they stand for stored ones that are equal.
 */
import type { Model } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { countingStored, storedTable } from './tuple-source.ts';

type Next = (value: unknown) => string;

/** Where a statement finds its tuples. */
export interface AskedTuples {
  /** Stands where the table may stand, and needs an alias. Absent: in the table. */
  readonly table: string | undefined;
  /** Stands in front of the statement. */
  readonly prelude: string;
}

const key = 'subject_type, subject_id, subject_relation, relation, resource_type, resource_id';

/** Tuples that do not fit the model must not be among them. */
export function askedTuples(model: Model, contextual: readonly Tuple[], next: Next): AskedTuples {
  if (contextual.length === 0) return { table: undefined, prelude: '' };
  const texts = [
    contextual.map(({ subject }) => subject.type),
    contextual.map(({ subject }) => subject.id),
    contextual.map(({ subject }) => subject.relation),
    contextual.map(({ relation }) => relation),
    contextual.map(({ resource }) => resource.type),
    contextual.map(({ resource }) => resource.id),
    contextual.map(({ condition }) => condition ?? null),
    contextual.map(({ attributes }) => (attributes ? JSON.stringify(attributes) : null)),
  ].map((values) => `${next(values)}::text[]`);
  const ended = `${next(contextual.map(({ expired }) => expired === true))}::boolean[]`;
  const columns = [...key.split(', '), 'condition'].map(
    (name) => `g.${name} collate "C" as ${name}`,
  );
  const counting = countingStored(model.fieldRelations);
  const prelude = `with asked as materialized (
      select ${columns.join(', ')}, g.attributes::jsonb as attributes, case when g.ended then '-infinity'::timestamptz end as expires_at,
        null::uuid as resource_uuid, null::oid as row_of
        from unnest(${[...texts, ended].join(', ')}) g(${key}, condition, attributes, ended)),
    asked_tuples as not materialized (
      select ${key}, condition, attributes, expires_at::timestamptz as expires_at, resource_uuid, row_of
        from ${storedTable} t${counting === '' ? ' where' : `${counting} and`} (${key}) not in (select ${key} from asked)
      union all select * from asked) `;
  return { table: 'asked_tuples', prelude };
}
