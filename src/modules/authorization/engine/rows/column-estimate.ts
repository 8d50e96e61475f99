/**
 * How many rows say in columns that a subject stands in a relation to them, as the statistics of PostgreSQL have it: no
 * row is looked at. It is an estimate, or nothing where the statistics are missing or too old to say.
 */
import { tableName } from '../../../../data/schema/compile/layout.ts';
import { literalOf } from '../../../../kernel/database/literal.ts';
import type { FieldRelation } from '../../model/model.ts';

const PAGE_BYTES = 8_192;
/** So many pages have no more rows than few. */
const SMALL_PAGES = 8;
/** A table that has grown by more since its statistics were made is another one. */
const GROWTH = 2;

/**
 * The estimate for lookups `l` (what stands behind `from`) as an expression of SQL, null if there is none. A value that
 * is not among the most common ones has its share of what these leave.
 */
export function estimatedRows(lookups: string, columns: readonly FieldRelation[]): string {
  return columns.map((column) => `(${estimateOf(lookups, column)})`).join(' + ');
}

function estimateOf(lookups: string, { type, relation, field }: FieldRelation): string {
  const asked = `from ${lookups} where l.relation = ${literalOf(relation, 'text')} and l.s_relation = ''`;
  const sum = `select coalesce(sum(s.total * coalesce(s.shares[array_position(s.common, l.s_id)], s.share)), 0) ${asked}`;
  return `select case
      when s.pages <= ${SMALL_PAGES} then 0
      when s.pages <= ${GROWTH} * s.known_pages and s.known then (${sum})
    end from (${statistics(type, field.field)}) s`;
}

/** One row about a column: size of its table, whether its values are `known`, the common values with the share of rows of each, and the share of any other value. */
const statistics = (type: string, column: string): string => `
  select c.relpages as known_pages, c.pages, c.pages * c.reltuples / greatest(c.relpages, 1) as total,
    p.attname is not null as known, p.common, p.most_common_freqs as shares,
    greatest(1 - p.null_frac - coalesce((select sum(f) from unnest(p.most_common_freqs) f), 0), 0)
      / greatest(case when p.n_distinct < 0 then -p.n_distinct * c.reltuples else p.n_distinct end - coalesce(cardinality(p.common), 0), 1) as share
  from (select k.*, pg_relation_size(k.oid) / ${PAGE_BYTES} as pages from pg_catalog.pg_class k
      where k.oid = ${literalOf(tableName(type), 'regclass')} and k.relkind = 'r' offset 0) c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join (select v.*, v.most_common_vals::text::text[] as common from pg_catalog.pg_stats v where not v.inherited) p
      on p.schemaname = n.nspname and p.tablename = c.relname and p.attname = ${literalOf(column, 'text')}
  offset 0`;
