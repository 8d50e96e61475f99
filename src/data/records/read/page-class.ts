/** How long the statement of a page can take, by what it touches (`StatementClass`). */
import type { StatementClass } from '../../../kernel/database/database.ts';
import type { FirstWay, ReachedRows, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Page } from '../page/page.ts';
import type { CountMode } from '../store.ts';
import {
  isFewRecords,
  isLightlyRestricted,
  isRestricted,
  type PopulateTree,
  type RowConditions,
} from './projection.ts';

/** Records of a page that is read like single records. */
const SHORT_PAGE = 50;
/** Records up to the last one of a page that is nearly as short as single reads. */
const MAX_SHOWN = 500;

/** What a page shows (`View`). */
interface PageView {
  readonly predicate: RowPredicate | undefined;
  readonly populate: PopulateTree;
  readonly conditions: RowConditions | undefined;
}

/** What the statement of a list is made of. */
interface ListParts {
  readonly page: Page;
  readonly mode: CountMode;
  readonly first?: FirstWay | undefined;
  readonly reached?: ReachedRows | undefined;
}

export function classOfList(
  schema: CompiledSchema,
  { page, mode, first, reached }: ListParts,
  view: PageView,
): StatementClass {
  if (reached) return classOfReached(reached, page, view);
  if (!first || schema.rows !== schema.table) return classOfPage(schema, page, { mode, ...view });
  return classOfBounded(mode === 'none' && first.isBounded === true, page, view);
}

/** A page in the order of the ids touches as many rows as it has. Counting, sorting and permissions may touch any number. */
function classOfPage(
  { rows, table, mapping }: CompiledSchema,
  { among }: Page,
  { mode, predicate, populate, conditions }: PageView & { readonly mode: CountMode },
): StatementClass {
  const isWhole = rows === table && mapping === undefined && mode === 'none';
  const isFirst = among.order === undefined && among.count <= SHORT_PAGE + 1;
  if (!isWhole || !isFirst || predicate !== undefined || !isShortView({ populate, conditions }))
    return 'pooled';
  // Who may see what the records lead to is asked of each.
  return isRestricted(populate) ? 'list' : 'short';
}

/**
 * Of a way that looks at few rows. What is counted beside it, and what a filter passes over, may be any number. Where rows
 * that were few are so no longer, or a filter takes long, the statement is stopped and has a connection for itself.
 */
const classOfBounded = (isBounded: boolean, { among }: Page, view: PageView): StatementClass =>
  isBounded && among.count <= MAX_SHOWN && isShortView(view) ? 'list' : 'pooled';

/** The same of a page and its number from rows that are few. */
export const classOfReached = (
  { isBounded }: ReachedRows,
  page: Page,
  view: PageView,
): StatementClass => classOfBounded(isBounded, page, view);

/** What is shown of each record, and with it, takes as long as the record itself. */
export const isShortView = ({ populate, conditions }: Omit<PageView, 'predicate'>): boolean =>
  conditions === undefined && isFewRecords(populate) && isLightlyRestricted(populate);
