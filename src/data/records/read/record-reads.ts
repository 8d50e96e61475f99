/** The reading half of the record store: each call with the schemas as its caller sees them. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { errors } from '../../../kernel/errors.ts';
import { equals } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isTrusted, requireOffered } from '../access/operation-access.ts';
import type { OpenRequestScope, RequestScope } from '../access/request-scope.ts';
import { resolveFilter } from '../filter/record-filter.ts';
import { trashOf } from '../sql/row-id.ts';
import type {
  MatchingOptions,
  ReadOptions,
  RecordHistory,
  RecordStore,
  RecordText,
  VisibleLink,
} from '../store.ts';
import { aggregateSelected } from './aggregate.ts';
import { readRestricted } from './checked-record.ts';
import { foundFirst } from './found-first.ts';
import { nearestSelected } from './nearest.ts';
import { readGuarded, readOptimistically } from './optimistic-read.ts';
import { matchingSelected, rankedSelected, requireVisible } from './ranked.ts';
import {
  listRecords,
  type RecordDependencies,
  runRead,
  showsAll,
  viewOf,
  wholeView,
} from './record-view.ts';
import {
  createRecordStreams,
  filteredStatement,
  findSelected,
  listSelected,
  type Selection,
  selectionOf,
  selectionText,
} from './selection.ts';
import { getRecord } from './single-record.ts';

/** What a caller reads with. */
type Readers = RequestScope<RecordDependencies>;

export type RecordReads = Pick<
  RecordStore,
  | 'list'
  | 'get'
  | 'select'
  | 'find'
  | 'stream'
  | 'nearest'
  | 'ranked'
  | 'matching'
  | 'aggregate'
  | 'shows'
>;

export const createReads = (requestScopeOf: OpenRequestScope<RecordDependencies>): RecordReads => ({
  ...createRouteReads(requestScopeOf),
  ...createSelectedReads(requestScopeOf),
  ...createSearchReads(requestScopeOf),
  stream: createStream(requestScopeOf),
  async shows(caller, name, link) {
    const { dependencies, schema: find } = await requestScopeOf(caller, name);
    const schema = readable(caller, find(name), {});
    return isLinkVisible(dependencies, { ...link, caller, schema });
  },
});

/** What the routes of a schema read: only what the schema offers to the caller. */
function createRouteReads(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
): Pick<RecordReads, 'list' | 'get'> {
  return {
    list(caller, name, listOptions = {}) {
      const read = ({ dependencies: own, schema: find }: Readers): Promise<string> => {
        const schema = readable(caller, find(name), listOptions);
        return readGuarded(searching(own, caller), (given) => {
          const view = viewOf(given, caller, schema, listOptions);
          if (view instanceof Promise)
            return view.then((found) => listRecords(given, schema, listOptions, found));
          return listRecords(given, schema, listOptions, view);
        });
      };
      const requestScope = requestScopeOf(caller, name);
      return requestScope instanceof Promise ? requestScope.then(read) : read(requestScope);
    },
    get(caller, name, id, readOptions = {}) {
      const read = ({ dependencies: own, schema: find }: Readers): Promise<RecordText> => {
        const schema = readable(caller, find(name), readOptions);
        const record = { ...readOptions, id };
        const asked = { ...readOptions, ids: [id] };
        // Where everybody may read everything, nothing is remembered that would have to be confirmed.
        if (showsAll(caller, schema, asked)) return getRecord(own, schema, record, wholeView);
        return readRestricted(own, { caller, schema, record, asked });
      };
      const requestScope = requestScopeOf(caller, name);
      return requestScope instanceof Promise ? requestScope.then(read) : read(requestScope);
    },
  };
}

/** What endpoints, queries of clients and modules put together. */
function createSelectedReads(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
): Pick<RecordReads, 'select' | 'find' | 'nearest' | 'aggregate'> {
  return {
    async select(caller, name, selectOptions) {
      const { dependencies: own, schema: find } = await requestScopeOf(caller, name);
      const schema = requested(caller, find(name), selectOptions);
      return readGuarded(searching(own, caller, selectOptions.granted), async (given) =>
        listSelected(
          given,
          await foundFirst(given, await selectionOf(given, { caller, schema }, selectOptions)),
          selectOptions,
        ),
      );
    },
    async find(caller, name, selectOptions) {
      const { dependencies: own, schema: find } = await requestScopeOf(caller, name);
      const schema = requested(caller, find(name), selectOptions);
      return readOptimistically(searching(own, caller, selectOptions.granted), async (given) =>
        findSelected(
          given,
          await foundFirst(given, await selectionOf(given, { caller, schema }, selectOptions)),
          selectOptions.sort ?? [],
        ),
      );
    },
    async nearest(caller, name, nearestOptions) {
      const { filter, granted = false, scope } = nearestOptions;
      const { dependencies: own, schema: find } = await requestScopeOf(caller, name);
      const schema = find(name);
      const rows = { filter, granted, ...(scope !== undefined && { scope }) };
      const request = {
        ...nearestOptions,
        hidden: (granted || isTrusted(caller)) && !schema.fieldVisibility,
      };
      const limited = searching(own, caller, granted);
      return readOptimistically(limited, async (given) =>
        nearestSelected(given, await selectionOf(given, { caller, schema }, rows), request),
      );
    },
    async aggregate(caller, name, aggregateOptions) {
      const { filter, granted = false, offered, scope, action, needs } = aggregateOptions;
      const { dependencies: own, schema: find } = await requestScopeOf(caller, name);
      const asked = {
        ...(action !== undefined && { action }),
        ...(needs && { needs }),
        ...(offered && { offered }),
      };
      const rows = { filter, granted, ...(scope !== undefined && { scope }), ...asked };
      const schema = find(name);
      return readOptimistically(searching(own, caller, granted), async (given) =>
        aggregateSelected(
          given,
          await selectionOf(given, { caller, schema }, rows),
          aggregateOptions,
        ),
      );
    },
  };
}

/** What search indexes have found, as far as the caller may read it. */
function createSearchReads(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
): Pick<RecordReads, 'ranked' | 'matching'> {
  const searched =
    <O extends MatchingOptions, T>(
      read: (given: RecordDependencies, selection: Selection, options: O) => Promise<T>,
    ) =>
    async (caller: Caller, name: string, options: O): Promise<T> => {
      const { dependencies: own, schema: find } = await requestScopeOf(caller, name);
      const schema = find(name);
      if (!isTrusted(caller)) requireVisible(schema, options.looksInto);
      return readOptimistically(searching(own, caller), async (given) =>
        read(given, await selectionOf(given, { caller, schema }, options), options),
      );
    };
  return { ranked: searched(rankedSelected), matching: searched(matchingSelected) };
}

/** What clients put together themselves may run for a shorter time than what operators have made for them. */
function searching(
  dependencies: RecordDependencies,
  caller: Caller,
  granted = false,
): RecordDependencies {
  if (granted || isTrusted(caller)) return dependencies;
  return { ...dependencies, limitMs: dependencies.searchLimitMs };
}

interface AskedLink extends VisibleLink {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
}

const asReader = system('records.shows');

/** A field that is shown in some records only cannot be asked about by anybody: here nobody learns more than they are shown. */
async function isLinkVisible(
  dependencies: RecordDependencies,
  { caller, schema, field, id, scope }: AskedLink,
): Promise<boolean> {
  const rule = schema.fieldVisibility?.conditional.get(field);
  if (schema.tree.fields.get(field)?.hidden !== false && !rule) return false;
  const view = await viewOf(dependencies, caller, schema, scope === undefined ? {} : { scope });
  const condition = equals(field, id);
  const filter = await resolveFilter(dependencies, { caller: asReader, schema, condition });
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const fits = selectionText({ schema, view, filter }, parameters);
    const visible = rule && view.conditions?.test(schema, rule, { alias: 't0', parameters });
    const also = rule ? ` and (${visible ?? 'false'})` : '';
    return `select 1 from ${schema.rows} t0 where ${fits}${also} limit 1`;
  });
  return (await runRead(dependencies, schema, statement)).length > 0;
}

/** The rows that are asked for: those that are alive, or for operators those in the trash. Throws 403 and 404. */
function requested(
  caller: Caller,
  schema: CompiledSchema,
  { deleted = false }: ReadOptions,
): CompiledSchema {
  if (!deleted) return schema;
  if (!isTrusted(caller)) throw errors.FORBIDDEN();
  return trashOf(schema);
}

function readable(caller: Caller, schema: CompiledSchema, options: ReadOptions): CompiledSchema {
  requireOffered(caller, schema, 'read');
  return requested(caller, schema, options);
}

function createStream(requestScopeOf: OpenRequestScope<RecordDependencies>): RecordStore['stream'] {
  const streams = createRecordStreams();
  return async function* stream(caller, name, options) {
    const { dependencies, schema: find } = await requestScopeOf(caller, name);
    const schema = requested(caller, find(name), options);
    yield* streams.read(
      dependencies,
      await selectionOf(dependencies, { caller, schema }, options),
      options,
    );
  };
}

/*
 * Reads that find a table other than the schema says, because that is being changed at this moment, on this node or on
 * another one: they are asked again, until the node has heard of the change.
 */

/** Nodes hear of a change within 300 ms. */
const PAUSES_MS = [5, 20, 75, 250, 500];

/** undefined_table and undefined_column. */
const isOutdated = (error: unknown): boolean =>
  codeOf(error) === '42P01' || codeOf(error) === '42703';

const changing = (cause: unknown): Error =>
  errors.UNAVAILABLE({
    message: 'The schema was changed at this moment: try again',
    retryAfter: 1,
    cause,
  });

/** Rejects with 503 when the change takes too long, or in a transaction, which is lost then. */
function retryOnStaleSchema<T>(database: Database, read: () => Promise<T>): Promise<T> {
  const again = (error: unknown): Promise<T> => readAgain(database, read, error);
  try {
    return read().catch(again);
  } catch (error) {
    return again(error);
  }
}

async function readAgain<T>(
  database: Database,
  read: () => Promise<T>,
  failure: unknown,
): Promise<T> {
  let latest = failure;
  for (const pause of PAUSES_MS) {
    if (!isOutdated(latest)) throw latest;
    if (database.inTransaction()) throw changing(latest);
    await sleep(pause);
    try {
      return await read();
    } catch (error) {
      latest = error;
    }
  }
  throw isOutdated(latest) ? changing(latest) : latest;
}

/** The same for a stream, as long as nothing of it was read. */
async function* retryStream<T>(
  database: Database,
  read: () => AsyncIterable<T>,
): AsyncGenerator<T> {
  const { rest, first } = await retryOnStaleSchema(database, async () => {
    const iterator = read()[Symbol.asyncIterator]();
    return { rest: iterator, first: await iterator.next() };
  });
  try {
    if (first.done) return;
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => rest };
  } finally {
    await rest.return?.();
  }
}

/** The same reads, where each begins with the schema. */
export const retryingReads = (database: Database, reads: RecordReads): RecordReads => ({
  list: (...input) => retryOnStaleSchema(database, () => reads.list(...input)),
  get: (...input) => retryOnStaleSchema(database, () => reads.get(...input)),
  select: (...input) => retryOnStaleSchema(database, () => reads.select(...input)),
  find: (...input) => retryOnStaleSchema(database, () => reads.find(...input)),
  nearest: (...input) => retryOnStaleSchema(database, () => reads.nearest(...input)),
  ranked: (...input) => retryOnStaleSchema(database, () => reads.ranked(...input)),
  matching: (...input) => retryOnStaleSchema(database, () => reads.matching(...input)),
  aggregate: (...input) => retryOnStaleSchema(database, () => reads.aggregate(...input)),
  shows: (...input) => retryOnStaleSchema(database, () => reads.shows(...input)),
  stream: (...input) => retryStream(database, () => reads.stream(...input)),
});

export const retryingHistory = (database: Database, history: RecordHistory): RecordHistory => ({
  ...history,
  list: (...input) => retryOnStaleSchema(database, () => history.list(...input)),
  get: (...input) => retryOnStaleSchema(database, () => history.get(...input)),
});
