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
} from '../../../kernel/operations/live-read.ts';
import { type Condition, leavesOf } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isRowAuthorised, isTrusted } from '../access/operation-access.ts';
import type { OpenRequestScope } from '../access/request-scope.ts';
import { resolveFilter } from '../filter/record-filter.ts';
import { resolveTarget } from '../filter/target.ts';
import { listRange, pageOf } from '../page/page.ts';
import { idsTest } from '../sql/row-id.ts';
import type { LiveOptions, LiveRecords } from '../store.ts';
import { foundFirst } from './found-first.ts';
import { readOptimistically } from './optimistic-read.ts';
import { isRestricted, type PopulateTree } from './projection.ts';
import { type RecordDependencies, recordColumns, runRead } from './record-view.ts';
import { createRenderContext, selectList } from './render.ts';
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
  live: (caller, name, options) => openLive(requestScopeOf, { caller, name, options }),
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
  const { byRights, related, hops } = await opened(async (given, { selection, byRights }) => {
    pageOf({ schema: selection.schema, options, cursors: given.cursors, filter: options.filter });
    const hops = hopsOf(given, selection.schema, options.filter);
    return { byRights, hops, related: relatedTo(selection, hops) };
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
    ...(byRights && caller.kind === 'user' && { rightsOf: caller.userId }),
    schema: name,
    related,
    rows: {
      limit: listRange(limit === undefined ? {} : { limit }).limit,
      byId: sort.length === 0,
      ...(hops.length === 0 && filterOf(filter)),
      all: () => rows(),
      among: (ids) => rows(ids),
    },
  };
}

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

interface Fitting {
  readonly name: string;
  readonly ids: readonly string[];
  readonly filters: readonly RecordLiveFilter[];
}

async function fitting(
  platform: RecordDependencies,
  { name, ids, filters }: Fitting,
): Promise<readonly ReadonlySet<string>[]> {
  const schema = platform.schemas.get(name);
  const found = filters.map(() => new Set<string>());
  if (!schema || ids.length === 0) return found;
  for (let from = 0; from < filters.length; from += FILTERS_AT_ONCE) {
    const part = filters.slice(from, from + FILTERS_AT_ONCE);
    const ready = await Promise.all(
      part.map(({ condition }) =>
        resolveFilter(platform, { caller: system('live lists'), schema, condition }),
      ),
    );
    const statement = filteredStatement(platform.plans, { schema }, (parameters) => {
      const tests = ready.map((filter) => filter.compile('t0', parameters)).join(', ');
      const among = idsTest(schema, 't0', parameters.next(ids));
      return `select t0."_id"::text as id, array[${tests}]::boolean[] as fits from ${schema.rows} t0 where ${among}`;
    });
    const rows = await runRead<{ id: string; fits: readonly boolean[] }>(
      platform,
      schema,
      statement,
    );
    for (const { id, fits } of rows)
      for (const [at, fit] of fits.entries()) if (fit) found[from + at]?.add(id);
  }
  return found;
}
