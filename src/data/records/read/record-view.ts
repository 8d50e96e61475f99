/** Reading: one statement per request, whose answer is the JSON that goes out. */

import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Statement, StatementClass } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type {
  FirstWay,
  PermissionPort,
  ReachedRows,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import { currentAccount } from '../../../kernel/request-account/request-account.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { asksMore, grantedRows } from '../access/granted-rows.ts';
import { isRowAuthorised, rowPredicate } from '../access/operation-access.ts';
import { tooMany } from '../answer-bytes.ts';
import { recordErrors } from '../errors.ts';
import { externalReadError } from '../external-table-errors.ts';
import { countText, orCountTimeout } from '../page/count.ts';
import { firstRowsText, readByFirstRows } from '../page/first-rows.ts';
import { type Cursors, isIndexed } from '../page/keyset.ts';
import { type Page, type PageRow, pageOf, pageStatement } from '../page/page.ts';
import { reachedFor, reachedPage } from '../page/reached-rows.ts';
import { type PlanCache, restriction } from '../sql/prepared-statements.ts';
import type { CountMode, Grant, ListOptions, ReadOptions, RecordText } from '../store.ts';
import { classOfList, isShortView } from './page-class.ts';
import {
  conditionsOf,
  isRestricted,
  noPopulate,
  type PopulateTree,
  populateShape,
  type RowConditions,
  resolvePopulate,
} from './projection.ts';
import { createRenderContext, recordJson, renderingOf } from './render.ts';

export interface RecordDependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly plans: PlanCache;
  readonly cursors: Cursors;
  /** Milliseconds that a statement of this call may run; without it, as long as the request has. */
  readonly limitMs?: number | undefined;
  /** Milliseconds that the statement of a list or search by a client may run. */
  readonly searchLimitMs?: number;
}

/** What a read shows, with the rights of the caller worked out. */
export interface View {
  readonly predicate: RowPredicate | undefined;
  readonly populate: PopulateTree;
  /** For fields that are shown in some records only. */
  readonly conditions: RowConditions | undefined;
}

export const wholeView: View = {
  predicate: undefined,
  populate: noPopulate,
  conditions: undefined,
};

/** Whether the caller reads every record of the schema, and no relations with it. */
export const showsAll = (caller: Caller, schema: CompiledSchema, options: ViewOptions): boolean =>
  !isRowAuthorised(caller, schema, 'read') && isPlain(caller, schema, options);

/** Answers without waiting when nothing has to be asked: the common case. */
export function viewOf(
  dependencies: RecordDependencies,
  caller: Caller,
  schema: CompiledSchema,
  options: ViewOptions,
): View | Promise<View> {
  if (showsAll(caller, schema, options)) return wholeView;
  const { scope, ids, offered } = options;
  const restricted = isRowAuthorised(caller, schema, 'read');
  const about = offered === 'content' ? 'refer' : 'read';
  const rows = restricted
    ? rowPredicate(dependencies.permissions, { caller, schema, action: about, scope, ids })
    : undefined;
  if (options.action === undefined && isPlain(caller, schema, options))
    return andThen(rows, viewOfRows);
  return resolveView(dependencies, { caller, schema, options }, rows);
}

/** Whether nothing is asked but which rows the caller may read. */
export const isPlain = (caller: Caller, schema: CompiledSchema, options: ViewOptions): boolean =>
  (options.populate === undefined || options.populate.length === 0) &&
  !schema.fieldVisibility?.conditional.size &&
  !asksMore(caller, options);

const viewOfRows = (predicate: RowPredicate | undefined): View => ({ ...wholeView, predicate });

export type ViewOptions = ReadOptions &
  AskedOfCallers & {
    /** The records that are read, where they are known. */
    readonly ids?: readonly string[];
  };

/** What an offer asks beside `read`. */
type AskedOfCallers = Pick<Grant, 'action' | 'needs' | 'offered'>;

interface ViewRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly options: ViewOptions;
}

/** `rows`: those that the caller may read. */
async function resolveView(
  dependencies: RecordDependencies,
  { caller, schema, options }: ViewRequest,
  rows: MaybePromise<RowPredicate | undefined>,
): Promise<View> {
  const { populate: paths = [], scope, ids, needs, action } = options;
  const also = action === undefined ? undefined : { schema: schema.name, action };
  const asked = { caller, scope, also, needs, ids };
  const predicate = await grantedRows(dependencies, asked, await rows);
  const populate = await resolvePopulate(dependencies, { caller, schema, paths, scope });
  const rules = [...(schema.fieldVisibility?.conditional.values() ?? [])];
  return {
    predicate,
    populate,
    conditions: await conditionsOf(dependencies.permissions, {
      caller,
      schema,
      rules,
      populate,
      scope,
    }),
  };
}

export const viewShape = ({ predicate, populate, conditions }: View): string =>
  `${predicate?.shape ?? ''}|${populateShape(populate)}|${conditions?.shape ?? ''}`;
export const isDynamic = ({ predicate, populate, conditions }: View): boolean =>
  predicate !== undefined || conditions !== undefined || isRestricted(populate);

/** With the same, a statement of the same shape adds the same values. */
export const identityOf = ({ predicate, populate, conditions }: View): object | undefined =>
  conditions === undefined && !isRestricted(populate) ? predicate?.identity : undefined;

/**
 * Of a statement about one record: what relations bring into it may be of any size where they are more than a few others by
 * their ids, and what permissions do where they are not known to be light.
 */
export const classOf = ({ predicate, populate, conditions }: View): StatementClass =>
  (predicate === undefined || predicate.isLight === true) && isShortView({ populate, conditions })
    ? 'short'
    : 'pooled';

/** Runs a statement that reads. What tables of others refuse has errors of its own. */
export const runRead = <R>(
  { database, limitMs }: Pick<RecordDependencies, 'database' | 'limitMs'>,
  schema: CompiledSchema,
  statement: Statement,
): Promise<R[]> =>
  database.query<R>(limitMs === undefined ? statement : { ...statement, limitMs }).then(
    ({ rows }) => {
      chargeJson(rows);
      return rows;
    },
    (error: unknown) => {
      throw readError(schema, error);
    },
  );

export function readError(schema: CompiledSchema, error: unknown): unknown {
  // numeric_value_out_of_range: what was worked out, such as a sum
  if (codeOf(error) === '22003')
    return recordErrors.RECORD_INVALID({
      message: 'A result is too large for a number',
      cause: error,
    });
  // program_limit_exceeded: a text of more than 1 GB
  if (codeOf(error) === '54000') return tooMany();
  return schema.mapping ? externalReadError(schema, error) : error;
}

/** What the database has rendered counts in the account of the request. Throws 400 beyond it. */
export function chargeJson(rows: readonly unknown[]): void {
  const account = currentAccount();
  if (!account) return;
  let bytes = 0;
  for (const row of rows as readonly { readonly json?: unknown }[])
    if (typeof row.json === 'string') bytes += row.json.length;
  if (bytes > 0) account.charge('bytesOut', bytes);
}

/** A row of what every statement on records answers; it is the record text as it stands. */
export type RecordRow = RecordText;

/** What a statement answers of the record `x`. */
export const recordColumns = (schema: CompiledSchema): string =>
  `x."_id" as id, x."__v" as version, ${recordJson(schema, 'x')}::text as json`;

/** `undefined` when the view has a guard (permissions.ts) that does not hold any more. Throws or rejects with 400. */
export function listRecords(
  dependencies: RecordDependencies,
  schema: CompiledSchema,
  options: ListOptions,
  view: View,
): Promise<string | undefined> {
  const page = pageOf({ schema, options, cursors: dependencies.cursors });
  const { database, plans, limitMs } = dependencies;
  const { predicate } = view;
  const read = (mode: CountMode, pageMs: number | undefined) => {
    const by = (way: PageWay): Promise<PageRow | undefined> => {
      const statement = listStatement(plans, schema, { options, page, mode, way }, view);
      return runRead<PageRow>({ database, limitMs: pageMs }, schema, statement).then(firstOf);
    };
    const reached = reachedFor(schema, mode, predicate);
    if (reached) return by({ reached });
    return readByFirstRows({ schema, page, predicate, filtered: false }, (first) => by({ first }));
  };
  return read(options.count ?? 'exact', limitMs).then(
    (row) => (row?.current === false ? undefined : page.answer(row)),
    orCountTimeout(options, limitMs, (pageMs) => read('none', pageMs)),
  );
}

const firstOf = <R>([row]: readonly R[]): R | undefined => row;

/** How the rows of a page are come by, where not simply by asking them in turn. */
export interface PageWay {
  readonly first?: FirstWay | undefined;
  readonly reached?: ReachedRows;
}

interface ListRequest {
  readonly options: ListOptions;
  readonly page: Page;
  readonly mode: CountMode;
  readonly way: PageWay;
}

function listStatement(
  plans: PlanCache,
  schema: CompiledSchema,
  { options, page, mode, way }: ListRequest,
  view: View,
): Statement {
  const { first, reached } = way;
  const guard = view.predicate?.guard;
  const rendering = renderingOf(schema, options, view.populate);
  const shape = `list|${mode}|${rendering.key}|${page.shape}|${reached ? 'reached' : first?.key}|${guard !== undefined}|${view === wholeView ? '' : viewShape(view)}`;
  return plans.statement(
    {
      schema,
      shape,
      // What the statement adds is of this one: the page may be read once more.
      values: [...page.values],
      dynamic: isDynamic(view),
      // How many rows come before the page is a value of what finds its first ones.
      identity: (first || reached) && !page.among.fixed ? undefined : identityOf(view),
      guard,
      class: classOfList(schema, { page, mode, first, reached }, view),
    },
    (parameters, guardText) => {
      const columns = rendering.columns('t0', createRenderContext(parameters, view.conditions));
      const use = isIndexed(schema, options.sort) ? 'rows' : 'sorted';
      const parts = { schema, rows: schema.rows, among: page.among };
      const found = reached && reachedPage(parts, reached, parameters);
      const source = found?.source ?? (first && firstRowsText(first, parts, parameters));
      const where = `true${source ? '' : restriction(view.predicate, 't0', parameters, use)}`;
      const text = page.text(where, source);
      return pageStatement(found ? { ...text, named: [found.named, ...text.named] } : text, {
        columns,
        related: view.populate.size > 0,
        json: rendering.json,
        counted:
          found && mode === 'exact'
            ? `',"count":' || ${found.number}`
            : countText(schema, mode, view.predicate, parameters),
        mayBeShort: first?.otherwise !== undefined,
        also: guard ? `, ${guardText()} as current` : '',
      });
    },
  );
}
