/**
 * A page and its number from the same rows: where somebody sees few, all of them are found once, put in order and counted.
 * Otherwise each would be found for the page and once more for the number.
 */
import { identifier } from '../../../kernel/database/sql.ts';
import type { ReachedRows, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import type { CountMode } from '../store.ts';
import type { Page } from './page.ts';

/**
 * The rows from which a page, and the number where it is asked for, are read: all that somebody sees, where they are few.
 * `undefined`: page and number are read by themselves.
 */
export const reachedFor = (
  { mapping }: Pick<CompiledSchema, 'mapping'>,
  mode: CountMode,
  predicate: RowPredicate | undefined,
): ReachedRows | undefined =>
  mapping === undefined && (mode === 'exact' || (mode === 'none' && predicate?.reached?.isBounded))
    ? predicate?.reached
    : undefined;

export interface ReachedPage {
  /** What the statement begins with: a name for the rows. */
  readonly named: string;
  /** What stands behind `from` for the rows of the page. */
  readonly source: string;
  /** How many rows there are. */
  readonly number: string;
}

interface PageParts extends Pick<Page, 'among'> {
  readonly schema: Pick<CompiledSchema, 'rows'>;
  /** The schema's own rows, or those of them that fit a filter. */
  readonly rows: string;
}

/** Of all rows only what the order needs is kept, and a row of the page is read by its id. */
export function reachedPage(
  { schema, among, rows }: PageParts,
  reached: ReachedRows,
  { next }: Parameters,
): ReachedPage {
  const columns = among.columns.map((name) => `d.${identifier(name)}`).join(', ');
  const order = among.order?.('s') ?? 's."_id"';
  const count = among.fixed ? String(among.count) : `(select ${next(among.count)}::bigint)`;
  const pages = among.stretches.map((stretch) => {
    const following = stretch === 'true' ? '' : ` where ${stretch}`;
    const first = `select s.* from (select t0.* from reached t0${following}) s order by ${order} limit ${count}`;
    return `select r.* from (${first}) s cross join lateral (select d.* from ${schema.rows} d where d."_id" = s."_id" offset 0) r`;
  });
  return {
    named: `reached as materialized (select ${columns} from (${reached.compile(rows, next)}) d)`,
    source: `(${pages.length === 1 ? pages[0] : pages.map((page) => `(${page})`).join(' union all ')})`,
    number: '(select count(*) from reached)',
  };
}
