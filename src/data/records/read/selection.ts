/** What reads and writes of many records by condition have in common: which rows they are about. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Statement, StatementClass } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { streamRows } from '../../../kernel/database/stream-rows.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { RowUse } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { shortName } from '../../schema/language/names.ts';
import { requireGranted, requireOffered } from '../access/operation-access.ts';
import { boundedPage, requireWhole } from '../answer-bytes.ts';
import { recordErrors } from '../errors.ts';
import { externalReadError } from '../external-table-errors.ts';
import { type RecordFilter, resolveFilter } from '../filter/record-filter.ts';
import { filteredCountText, orCountTimeout } from '../page/count.ts';
import { firstRowsText, readByFirstRows } from '../page/first-rows.ts';
import { orderOf } from '../page/keyset.ts';
import {
  MAX_LIMIT,
  type Page,
  type PageRow,
  pageOf,
  pageStatement,
  rangeText,
} from '../page/page.ts';
import { reachedFor, reachedPage } from '../page/reached-rows.ts';
import {
  createParameters,
  type Parameters,
  type PlanCache,
  restriction,
} from '../sql/prepared-statements.ts';
import { idsTest } from '../sql/row-id.ts';
import type { CountMode, ReadOptions, SelectOptions, StreamOptions } from '../store.ts';
import { classOfReached } from './page-class.ts';
import {
  type PageWay,
  type RecordDependencies,
  runRead,
  type View,
  viewOf,
} from './record-view.ts';
import { createRenderContext, recordJson, renderingOf, selectList } from './render.ts';

/** Rows of a schema that fit a filter and that the caller may read. */
export interface Selection {
  readonly schema: CompiledSchema;
  readonly view: View;
  readonly filter: RecordFilter;
  /** Ids among which all that fit are. */
  readonly hits?: readonly string[];
}

/** Throws 400, 401, 403, 404 or 503. */
export async function selectionOf(
  dependencies: RecordDependencies,
  { caller, schema }: { readonly caller: Caller; readonly schema: CompiledSchema },
  options: SelectOptions,
): Promise<Selection> {
  const { filter: condition, granted, offered, scope, populate, action, needs } = options;
  if (granted || offered) requireGranted(caller, schema, 'read');
  else requireOffered(caller, schema, 'read');
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const view = await viewOf(dependencies, caller, schema, {
    ...(scope !== undefined && { scope }),
    ...(populate && { populate }),
    ...(action !== undefined && { action }),
    ...(needs && { needs }),
    ...(offered && { offered }),
  });
  return { schema, view, filter };
}

/** What stands behind `where`, for the rows `t0`; `use`: how they are come by. */
export const selectionText = (selection: Selection, parameters: Parameters, use?: RowUse): string =>
  `${fittingText(selection, parameters)}${restriction(selection.view.predicate, 't0', parameters, use)}`;

/** The same without what permissions say. */
function fittingText({ schema, filter, hits }: Selection, parameters: Parameters): string {
  const among = hits ? `${idsTest(schema, 't0', parameters.next(hits))} and ` : '';
  return `${among}${filter.compile('t0', parameters)}`;
}

interface FilteredRequest {
  readonly schema: CompiledSchema;
  readonly values?: readonly unknown[];
  readonly class?: StatementClass;
}

/** A statement whose text depends on a filter: it is compiled each time, because compiling gathers its values. */
export function filteredStatement(
  plans: PlanCache,
  { schema, values = [], class: kind = 'pooled' }: FilteredRequest,
  compile: (parameters: Parameters) => string,
): Statement {
  const parameters = createParameters([...values]);
  const text = compile(parameters);
  return plans.statement(
    { schema, shape: `filter|${text}`, values: parameters.values, dynamic: true, class: kind },
    () => text,
  );
}

/* Lists of the records that fit a filter. */

/**
 * `{"documents":[...],"count":n}`; `count` is of all that fit, made as the options say. `undefined` when the view has a
 * guard (permissions.ts) that does not hold any more.
 */
export async function listSelected(
  dependencies: RecordDependencies,
  selection: Selection,
  options: SelectOptions,
): Promise<string | undefined> {
  const { schema, view, hits } = selection;
  const { database, plans, cursors, limitMs } = dependencies;
  const page = pageOf({ schema, options, cursors, filter: options.filter });
  // Among hits there is no faster way than asking those.
  const predicate = hits ? undefined : view.predicate;
  const read = (mode: CountMode, pageMs: number | undefined) => {
    const by = async (way: PageWay): Promise<PageRow | undefined> => {
      const statement = selectedStatement(plans, selection, { page, mode, options, ...way });
      const [row] = await runRead<PageRow>({ database, limitMs: pageMs }, schema, statement);
      return row;
    };
    const reached = reachedFor(schema, mode, predicate);
    if (reached) return by({ reached });
    return readByFirstRows({ schema, page, predicate, filtered: true }, (first) => by({ first }));
  };
  const row = await read(options.count ?? 'exact', limitMs).catch(
    orCountTimeout(options, limitMs, (pageMs) => read('none', pageMs)),
  );
  return row?.current === false ? undefined : page.answer(row);
}

interface SelectedPage extends PageWay {
  readonly page: Page;
  readonly mode: CountMode;
  readonly options: ReadOptions;
}

function selectedStatement(
  plans: PlanCache,
  selection: Selection,
  { page, mode, options, first, reached }: SelectedPage,
): Statement {
  const { schema, view } = selection;
  const { among } = page;
  const request = {
    schema,
    values: page.values,
    ...(reached && { class: classOfReached(reached, page, view) }),
  };
  return filteredStatement(plans, request, (parameters) => {
    const rendering = renderingOf(schema, options, view.populate);
    const columns = rendering.columns('t0', createRenderContext(parameters, view.conditions));
    // What the statement does not say must add no value to it: PostgreSQL refuses values of no type.
    const rows = (): string => fittingRows(selection, parameters);
    const found = reached && reachedPage({ schema, rows: rows(), among }, reached, parameters);
    const source =
      found?.source ?? (first && firstRowsText(first, { rows: rows(), among }, parameters));
    const text = page.text(source ? 'true' : selectionText(selection, parameters), source);
    const counted =
      found && mode === 'exact'
        ? `',"count":' || ${found.number}`
        : filteredCountText(schema, mode, {
            fitting: () => fittingText(selection, parameters),
            visible: (use) => selectionText(selection, parameters, use),
            predicate: view.predicate,
          });
    const guard = view.predicate?.guard;
    return pageStatement(found ? { ...text, named: [found.named, ...text.named] } : text, {
      columns,
      related: view.populate.size > 0,
      json: rendering.json,
      counted,
      mayBeShort: first?.otherwise !== undefined,
      also: guard ? `, ${guard(parameters.next)} as current` : '',
    });
  });
}

/** Those that fit, as what stands behind `from`. */
const fittingRows = ({ schema, filter }: Selection, parameters: Parameters): string =>
  `(select t0.* from ${schema.rows} t0 where ${filter.compile('t0', parameters)})`;

/** A bare JSON list of all that fit. Throws 400 when they are more than one list holds. */
export async function findSelected(
  dependencies: RecordDependencies,
  selection: Selection,
  sort: readonly string[],
): Promise<string> {
  const { schema, view } = selection;
  const order = orderOf(schema, sort);
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(
      schema,
      't0',
      view.populate,
      createRenderContext(parameters, view.conditions),
    );
    const page = `select t0.* from ${schema.rows} t0 where ${where} order by ${order} ${rangeText(0, MAX_LIMIT + 1)}`;
    const records = `select ${recordJson(schema, 'x')}::text as t from (select ${list} from (${page}) t0) x`;
    return `select '[' || coalesce(p.page, '') || ']' as json, p.n::integer as found from (${boundedPage(records, { limit: MAX_LIMIT, related: true })}) p`;
  });
  const [row] = await runRead<{ json: string; found: number }>(dependencies, schema, statement);
  if ((row?.found ?? 0) > MAX_LIMIT) throw recordErrors.RECORD_LIMIT_EXCEEDED();
  return requireWhole(row?.json ?? '[]');
}

/* All records that fit a condition, however many, as they are at one moment. */

/** Each holds a connection for as long as its reader takes. */
const MAX_STREAMS = 3;
/** Seconds. */
const RETRY_AFTER = 10;

interface RecordStreams {
  /** Batches of records as JSON. Throws 503 when too many are read at once. */
  read(
    dependencies: RecordDependencies,
    selection: Selection,
    options: StreamOptions,
  ): AsyncGenerator<readonly string[]>;
}

export function createRecordStreams(): RecordStreams {
  let open = 0;
  return {
    async *read({ database }, selection, options) {
      const statement = statementOf(selection, options);
      if (open >= MAX_STREAMS) throw tooMany();
      open++;
      try {
        const rows = streamRows<{ json: string }>(database, statement, {
          sizeOf: ({ json }) => json.length,
          ...(options.signal && { signal: options.signal }),
        });
        for await (const batch of rows) yield batch.map(({ json }) => json);
      } catch (error) {
        throw selection.schema.mapping ? externalReadError(selection.schema, error) : error;
      } finally {
        open--;
      }
    },
  };
}

const tooMany = () =>
  errors.UNAVAILABLE({
    message: `${MAX_STREAMS} exports are being read at this moment: wait for one of them`,
    retryAfter: RETRY_AFTER,
  });

function statementOf(selection: Selection, { sort = [], select }: StreamOptions): Statement {
  const { schema, view } = selection;
  const order = orderOf(schema, sort);
  const parameters = createParameters();
  const where = selectionText(selection, parameters);
  const list = selectList(
    schema,
    't0',
    view.populate,
    createRenderContext(parameters, view.conditions),
  );
  const json = chosen(schema, recordJson(schema, 'x'), select);
  const rows = `select t0.* from ${schema.rows} t0 where ${where} order by ${order}`;
  return {
    text: `select (${json})::text as json from (select ${list} from (${rows}) t0) x`,
    values: parameters.values,
  };
}

/** The record with the asked fields only, in the order of the schema. */
export function chosen(
  schema: CompiledSchema,
  json: string,
  select: readonly string[] | undefined,
): string {
  if (!select) return json;
  // What only some records show is asked for like anything else, and left out of the others.
  const conditional = schema.fieldVisibility?.conditional.keys() ?? [];
  const known = new Set([...recordFields(schema), ...conditional]);
  const unknown = select.find((name) => !known.has(name));
  if (unknown !== undefined)
    throw invalid('select', 'field', `"${shortName(unknown)}" is not a field of ${schema.name}`);
  const members = `string_agg(to_json(f.key)::text || ':' || f.value::text, ',')`;
  return `select '{' || coalesce(${members}, '') || '}' from json_each(${json}) f where f.key = any(${literalOf(select, 'text[]')})`;
}

/** What records of a schema have on the wire, in order. */
export const recordFields = ({ tree, modelOptions }: CompiledSchema): readonly string[] => [
  '_id',
  ...[...tree.fields].flatMap(([name, { hidden }]) => (hidden ? [] : [name])),
  ...(modelOptions.timestamps ? ['createdAt', 'updatedAt'] : []),
  '__v',
];
