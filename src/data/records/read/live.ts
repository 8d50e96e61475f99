/**
 * Lists that somebody listens to. Each reading is a `select` of its own, with the schemas and the rights of the caller as
 * they are then; there is no second rule for what a listener may see.
 */
import { type Caller, callerKey, system } from '../../../kernel/caller.ts';
import {
  AudienceChanged,
  type LiveFilter,
  type LiveRead,
  type LiveRow,
  type LiveTerm,
} from '../../../kernel/operations/live-read.ts';
import { type Condition, leavesOf } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isRowAuthorised, isTrusted } from '../access/operation-access.ts';
import type { OpenRequestScope } from '../access/request-scope.ts';
import { resolveFilter } from '../filter/record-filter.ts';
import { resolveTarget } from '../filter/target.ts';
import { sortTerms } from '../page/keyset.ts';
import { listRange, pageOf } from '../page/page.ts';
import type { FittingRecords, LiveFitting } from '../read-contract.ts';
import { idsTest } from '../sql/row-id.ts';
import type { LiveOptions, LiveRecords } from '../store.ts';
import { foundFirst } from './found-first.ts';
import { readOptimistically } from './optimistic-read.ts';
import { isRestricted, noPopulate, type PopulateTree } from './projection.ts';
import { type RecordDependencies, recordColumns, runRead } from './record-view.ts';
import { createRenderContext, recordJson, selectList } from './render.ts';
import { filteredStatement, type Selection, selectionOf, selectionText } from './selection.ts';

/** A filter that comes from here, with what it tests. */
interface RecordLiveFilter extends LiveFilter {
  readonly condition: Condition;
}

type RowsRead = Extract<LiveRead, { kind: 'rows' }>;

export const createLiveRecords = (
  requestScopeOf: OpenRequestScope<RecordDependencies>,
  platform: RecordDependencies,
): LiveRecords => ({
  live: (caller, name, options) => openLive(requestScopeOf, platform, { caller, name, options }),
  fitting: (name, ids, filters) =>
    fitting(platform, { name, ids, filters: filters as readonly RecordLiveFilter[] }),
});

interface Question {
  readonly caller: Caller;
  readonly name: string;
  readonly options: LiveOptions;
}

interface Opened {
  readonly selection: Selection;
  /** Whether all callers of this kind are answered the same, or each by their own rights. */
  readonly byRights: boolean;
}

async function openLive(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
  { schemas }: RecordDependencies,
  question: Question,
): Promise<RowsRead> {
  const { caller, name, options } = question;
  const opened = async <T>(
    read: (given: RecordDependencies, opened: Opened) => Promise<T>,
  ): Promise<T> => {
    const { dependencies, viewer, schema: find } = await requestScopeOf(caller, name);
    const schema = find(name);
    const bounded = options.granted || isTrusted(caller);
    const own = bounded ? dependencies : { ...dependencies, limitMs: dependencies.searchLimitMs };
    return readOptimistically(own, async (given) => {
      const selection = await selectionOf(given, { caller, schema }, options);
      const byRights = viewer !== undefined || hangsOnRights(given, caller, selection, options);
      return read(given, { selection, byRights });
    });
  };
  const { byRights, related, hops, order, ordersTexts } = await opened(async (given, now) => {
    const { selection, byRights } = now;
    pageOf({ schema: selection.schema, options, cursors: given.cursors, filter: options.filter });
    const hops = hopsOf(given, selection.schema, options.filter);
    const isShared = selection.schema === schemas.get(name) && readsTheSame(now);
    const order =
      isShared && hops.length === 0 ? liveOrder(selection.schema, options.sort) : undefined;
    // Keys of the tables of others are numbers, or texts in an order of their own.
    const ordersTexts = !selection.schema.mapping;
    return { byRights, hops, order, ordersTexts, related: relatedTo(selection, hops) };
  });
  const rows = (ids?: readonly string[]): Promise<readonly LiveRow[]> =>
    opened(async (given, now) => {
      if (now.byRights !== byRights) throw new AudienceChanged();
      return readRows(given, now.selection, options, ids);
    });
  const { filter, sort = [], limit } = options;
  return {
    kind: 'rows',
    key: JSON.stringify([name, options]),
    audience: byRights ? callerKey(caller) : caller.kind,
    ...(byRights && { rightsOf: caller.kind === 'user' ? caller.userId : ofVisitors }),
    schema: name,
    related,
    rows: {
      limit: listRange(limit === undefined ? {} : { limit }).limit,
      byId: sort.length === 0 && ordersTexts,
      ...(order && { order }),
      ...(hops.length === 0 && filterOf(filter)),
      all: () => rows(),
      among: (ids) => rows(ids),
    },
  };
}

/** No id of a user: what is granted to one of them gives visitors nothing. */
const ofVisitors = 'visitors';

/** Whether each record is shown as it is to all who are shown any: nothing but its own fields, and these by no rights. */
const readsTheSame = ({ byRights, selection: { schema, view } }: Opened): boolean =>
  !byRights &&
  !schema.mapping &&
  !schema.fieldVisibility &&
  !view.predicate &&
  !view.conditions &&
  view.populate.size === 0;

/** The order of a list, where it can be told from records as they are shown: instants to the millisecond, and numbers. */
function liveOrder(
  schema: CompiledSchema,
  sort: readonly string[] = [],
): readonly LiveTerm[] | undefined {
  const terms = sortTerms(schema, sort).map(({ name, descending }): LiveTerm | undefined => {
    const field = schema.tree.fields.get(name);
    const isText = instants.has(name) || name === '_id' || field?.kind === 'date';
    const isNumber = field?.kind === 'number' && exactNumbers.has(field.storage);
    if (!isText && !isNumber) return undefined;
    return { field: name, kind: isText ? 'text' : 'number', descending };
  });
  return terms.every((term) => term !== undefined) ? terms : undefined;
}

/** Automatic fields, and storage whose numbers a program has exactly as the database does. */
const instants: ReadonlySet<string> = new Set(['createdAt', 'updatedAt']);
const exactNumbers: ReadonlySet<string> = new Set(['double precision', 'integer']);

/** What a record alone decides can be asked of many records for many listeners; what relations lead to cannot. */
function filterOf(condition: Condition): { readonly filter?: RecordLiveFilter } {
  if ([...leavesOf(condition)].length === 0) return {};
  return { filter: { key: JSON.stringify(condition), condition } };
}

function hangsOnRights(
  dependencies: RecordDependencies,
  caller: Caller,
  { schema, view }: Selection,
  { filter, action, needs }: LiveOptions,
): boolean {
  if (isTrusted(caller)) return false;
  if (isRowAuthorised(caller, schema, 'read') || action !== undefined || needs) return true;
  if (view.predicate || view.conditions || isRestricted(view.populate)) return true;
  return hopsOf(dependencies, schema, filter).some((target) =>
    isRowAuthorised(caller, target, 'read'),
  );
}

/** Schemas that the paths of a condition lead through. It was bound before, so each of them leads somewhere. */
const hopsOf = (
  { schemas }: RecordDependencies,
  schema: CompiledSchema,
  filter: Condition,
): readonly CompiledSchema[] =>
  [...leavesOf(filter)].flatMap(({ left }) =>
    resolveTarget(schema, left.path, {
      schema: (name) => schemas.get(name),
      hidden: true,
    }).hops.map(({ target }) => target),
  );

function relatedTo({ view }: Selection, hops: readonly CompiledSchema[]): ReadonlySet<string> {
  const names = new Set(hops.map(({ name }) => name));
  const add = (tree: PopulateTree): void => {
    for (const { target, children } of tree.values()) {
      names.add(target.name);
      add(children);
    }
  };
  add(view.populate);
  return names;
}

async function readRows(
  given: RecordDependencies,
  asked: Selection,
  { sort, limit, filter }: LiveOptions,
  ids: readonly string[] | undefined,
): Promise<readonly LiveRow[]> {
  const selection = ids ? { ...asked, hits: ids } : await foundFirst(given, asked);
  const { schema, view } = selection;
  const options = { ...(sort && { sort }), ...(limit !== undefined && { limit }) };
  const page = pageOf({ schema, options, cursors: given.cursors, filter });
  const statement = filteredStatement(
    given.plans,
    { schema, values: page.values },
    (parameters) => {
      const { rows } = page.text(selectionText(selection, parameters));
      const context = createRenderContext(parameters, view.conditions);
      const list = selectList(schema, 't0', view.populate, context);
      return `select ${recordColumns(schema)} from (select ${list} from (${rows}) t0) x`;
    },
  );
  return runRead<LiveRow>(given, schema, statement);
}

/** Filters of one statement. */
const FILTERS_AT_ONCE = 100;
/** Records that are read with what they fit; of more, each list reads its own. */
const MAX_SHOWN = 100;

interface Fitting {
  readonly name: string;
  readonly ids: readonly string[];
  readonly filters: readonly RecordLiveFilter[];
}

async function fitting(
  platform: RecordDependencies,
  { name, ids, filters }: Fitting,
): Promise<LiveFitting> {
  const schema = platform.schemas.get(name);
  if (!schema || ids.length === 0)
    return { all: new Map(), byFilter: filters.map(() => new Map()) };
  const parts = [];
  for (let from = 0; from === 0 || from < filters.length; from += FILTERS_AT_ONCE) {
    const part = filters.slice(from, from + FILTERS_AT_ONCE);
    const rows = await fittingRows(platform, schema, { ids, filters: part });
    parts.push({
      rows,
      byFilter: part.map((_, at) => recordsOf(rows.filter(({ fits }) => fits[at]))),
    });
  }
  return {
    all: recordsOf(parts[0]?.rows ?? []),
    byFilter: parts.flatMap(({ byFilter }) => byFilter),
  };
}

interface FittingRow {
  readonly id: string;
  readonly fits: readonly boolean[];
  readonly json: string | null;
}

const recordsOf = (rows: readonly FittingRow[]): FittingRecords =>
  new Map(rows.map(({ id, json }) => [id, json ?? undefined]));

async function fittingRows(
  platform: RecordDependencies,
  schema: CompiledSchema,
  { ids, filters }: Omit<Fitting, 'name'>,
): Promise<readonly FittingRow[]> {
  const ready = await Promise.all(
    filters.map(({ condition }) =>
      resolveFilter(platform, { caller: system('live lists'), schema, condition }),
    ),
  );
  const statement = filteredStatement(platform.plans, { schema }, (parameters) => {
    const tests = ready.map((filter) => filter.compile('t0', parameters)).join(', ');
    const among = idsTest(schema, 't0', parameters.next(ids));
    const list = selectList(schema, 't0', noPopulate, createRenderContext(parameters));
    const json =
      ids.length > MAX_SHOWN || schema.mapping
        ? 'null'
        : `(select ${recordJson(schema, 'x')}::text from (select ${list}) x)`;
    return `select t0."_id"::text as id, array[${tests}]::boolean[] as fits, ${json} as json from ${schema.rows} t0 where ${among}`;
  });
  return runRead<FittingRow>(platform, schema, statement);
}
