/** Backfills: records that were there before their configuration. They are queued page by page, and can be ended and resumed. */
import Type from 'typebox';
import { all, type Condition } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { embeddingErrors } from '../errors.ts';
import type { ConfigRow, GenerationRow } from '../queries/configs.ts';
import { enqueuePage, retryRun } from '../queries/pending.ts';
import {
  cancelRuns,
  hasConfig,
  insertRun,
  moveRun,
  noteStep,
  type RunRow,
  type RunState,
  runById,
  silentRuns,
} from '../queries/runs.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { removedRecords } from './removed.ts';

export interface BackfillOptions {
  readonly batchSize?: number | undefined;
  readonly onlyMissing?: boolean | undefined;
  /** In the operator language. */
  readonly filter?: unknown;
  /** Who gave the filter: how many records it finds is told, so it asks about what they may read. */
  readonly caller?: Caller | undefined;
}

export interface Backfills {
  /** Throws 409 when one of the configuration goes on. */
  start(
    config: Pick<ConfigRow, 'id' | 'schemaName'>,
    generation: Pick<GenerationRow, 'id'>,
    options?: BackfillOptions,
  ): Promise<RunRow>;
  /** One for each of these, or none: throws 409 when one of any goes on. */
  startAll(configs: readonly ConfigRow[], options: BackfillOptions): Promise<readonly RunRow[]>;
  /** The same, in the place of one that goes on. */
  replace(
    config: Pick<ConfigRow, 'id' | 'schemaName'>,
    generation: Pick<GenerationRow, 'id'>,
  ): Promise<RunRow>;
  /** Throws 404. */
  find(id: string): Promise<RunRow>;
  /** Queues nothing more. Throws 404 and 409. */
  cancel(id: string): Promise<RunRow>;
  /** Goes on where it ended. Throws 404 and 409. */
  resume(id: string): Promise<RunRow>;
  /** Records of a schema; exact for small ones. */
  estimate(schemaName: string): Promise<number>;
  /** Goes on with those whose node was killed. */
  revive(): Promise<void>;
  readonly job: JobDefinition;
}

const pageJob = 'embeddings.backfill';
const DEFAULT_BATCH = 100;
/** Milliseconds of one slice, and seconds after which one counts as lost. */
const SLICE_MS = 20_000;
const LOST_SECONDS = 300;
/** Seconds without a page after which a run is taken up by whoever notices. Two who work on one do each page once. */
const SILENT_SECONDS = 10;
/** Records of a run that wait: more are queued when they become fewer. */
const MAX_WAITING = 2_000;
const PAUSE_SECONDS = 1;
const MAX_FILTER_BYTES = 4_096;

const reader = system('embeddings.backfill');

type Parts = EmbeddingParts & { readonly wake: () => void };

export function createBackfills(parts: Parts): Backfills {
  const { database, jobs } = parts;

  const find = (id: string): Promise<RunRow> => findRun(parts, id);
  const start: Backfills['start'] = async (config, generation, options = {}) => {
    const { onlyMissing = false, filter, caller = reader } = options;
    const batchSize = batchOf(parts, options);
    // Whether it fits the schema is found out now, and not by the first page.
    const condition = { filter: checkedFilter(filter), looksInto: [], limit: 1 };
    await parts.records.matching(caller, config.schemaName, condition);
    const run = {
      id: newId(),
      schemaName: config.schemaName,
      configId: config.id,
      generationId: generation.id,
      batchSize,
      onlyMissing,
      filter,
    };
    await database.transaction(async (transaction) => {
      if (!(await insertRun(transaction, run))) throw embeddingErrors.RUN_ACTIVE();
      await jobs.enqueue(pageJob, { id: run.id }, { transaction, singletonKey: run.id });
    });
    return find(run.id);
  };

  return {
    start,
    startAll: (configs, options) =>
      database.transaction(async () => {
        const runs: RunRow[] = [];
        for (const one of configs) runs.push(await start(one, one.next ?? one.current, options));
        return runs;
      }),
    replace: (config, generation) =>
      database.transaction(async (transaction) => {
        await cancelRuns(transaction, config.id);
        return start(config, generation);
      }),
    find,
    cancel: (id) => cancelRun(parts, id),
    resume: (id) => resumeRun(parts, id),
    async estimate(schemaName) {
      const options = { filter: all(), limit: 1, count: 'estimated' } as const;
      const text = await parts.records.select(reader, schemaName, options);
      return (JSON.parse(text) as { readonly count: number }).count;
    },
    revive: () => reviveSilent(parts),
    job: jobOf(parts),
  };
}

async function findRun({ database }: Parts, id: string): Promise<RunRow> {
  const run = await runById(database, id);
  if (!run) throw embeddingErrors.RUN_NOT_FOUND();
  return run;
}

async function cancelRun(parts: Parts, id: string): Promise<RunRow> {
  await findRun(parts, id);
  await move(parts, id, { from: ['queued', 'running'], to: 'canceled' });
  return findRun(parts, id);
}

async function resumeRun(parts: Parts, id: string): Promise<RunRow> {
  const { database, jobs } = parts;
  const run = await findRun(parts, id);
  await database.transaction(async (transaction) => {
    // What it fills is gone, or was given up for something else.
    if (!(await hasConfig(transaction, run))) throw embeddingErrors.RUN_STATE_INVALID();
    await move(parts, id, { from: ['failed', 'canceled'], to: 'queued' });
    await retryRun(transaction, id);
    await jobs.enqueue(pageJob, { id }, { transaction, singletonKey: id });
  });
  parts.wake();
  return findRun(parts, id);
}

/** Throws 409. */
async function move(
  { database }: Parts,
  id: string,
  change: { readonly from: readonly RunState[]; readonly to: RunState },
): Promise<void> {
  const moved = await moveRun(database, id, change).catch((error: unknown) => {
    // Another one of the configuration has begun.
    throw codeOf(error) === '23505' ? embeddingErrors.RUN_ACTIVE() : error;
  });
  if (!moved) throw embeddingErrors.RUN_STATE_INVALID();
}

async function reviveSilent({ database, jobs }: Parts): Promise<void> {
  for (const { id } of await silentRuns(database, SILENT_SECONDS))
    await jobs.enqueue(pageJob, { id }, { singletonKey: id });
}

/** Queues pages of a run, and itself again while there are more. */
function jobOf(parts: Parts): JobDefinition {
  return defineJob({
    name: pageJob,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    expireInSeconds: LOST_SECONDS,
    async handler({ id }, { signal }) {
      const until = performance.now() + SLICE_MS;
      const seconds = await scan(parts, id, { until, signal });
      const options = { startAfterSeconds: seconds ?? 0, singletonKey: id };
      if (seconds !== undefined) await parts.jobs.enqueue(pageJob, { id }, options);
    },
  });
}

/** Throws 400. */
function batchOf({ config }: Parts, { batchSize }: BackfillOptions): number {
  const { maxBatchSize } = config().queue;
  if (batchSize !== undefined && batchSize > maxBatchSize)
    throw invalid('batchSize', 'maximum', `must be at most ${maxBatchSize}`);
  return batchSize ?? Math.min(DEFAULT_BATCH, maxBatchSize);
}

/** Throws 400. */
function checkedFilter(filter: unknown): Condition {
  if (filter === undefined || filter === null) return all();
  if (JSON.stringify(filter).length > MAX_FILTER_BYTES)
    throw invalid('filter', 'maxLength', `takes at most ${MAX_FILTER_BYTES} bytes`);
  return parseFilter(filter, 'filter');
}

interface Slice {
  readonly until: number;
  readonly signal: AbortSignal;
}

/** Queues pages for a while. Answers after how many seconds to go on; nothing when the run needs no more. */
async function scan(
  parts: Parts,
  id: string,
  { until, signal }: Slice,
): Promise<number | undefined> {
  while (!signal.aborted) {
    const run = await runById(parts.database, id);
    if (!run || run.scanned || (run.state !== 'queued' && run.state !== 'running'))
      return undefined;
    if (performance.now() > until) return 0;
    if (run.waitingCount >= MAX_WAITING) return PAUSE_SECONDS;
    if (!(await queuePage(parts, run))) return undefined;
    parts.wake();
  }
  return 0;
}

/** False when the run was ended, somebody else has queued the page, or the schema is gone. */
async function queuePage(parts: Parts, run: RunRow): Promise<boolean> {
  const { database } = parts;
  if (!parts.schemas.get(run.schemaName)) {
    const end = { from: ['queued', 'running'], to: 'failed', error: 'The schema is gone' } as const;
    await moveRun(database, run.id, end);
    return false;
  }
  const { found, ids, next } = await pageAfter(parts, run);
  return database.transaction(async (transaction) => {
    const queued = await enqueuePage(transaction, {
      runId: run.id,
      generationId: run.generationId,
      ids,
      onlyMissing: run.onlyMissing && found > 0,
    });
    const step = {
      from: run.position,
      position: next,
      scanned: next === null,
      found,
      queued,
    };
    return noteStep(transaction, run.id, step);
  });
}

interface ScanPage {
  /** Records that were seen. */
  readonly found: number;
  readonly ids: readonly string[];
  readonly next: string | null;
}

/** Place of a run that looks for what is left of records that are gone, before it looks at records: behind it, an id. */
const GONE = 'gone:';

/** A run that sees every record begins with those that are gone: nobody may have told us, while we were switched off. */
async function pageAfter(parts: Parts, run: RunRow): Promise<ScanPage> {
  const { generationId: id, schemaName, position, filter } = run;
  const looksForGone = position === null ? filter === null : position.startsWith(GONE);
  if (!looksForGone) return readPage(parts, run);
  const after = position?.slice(GONE.length) ?? '';
  const { known, ids, next } = await removedRecords(parts, { id, schemaName }, after);
  if (known === 0) return readPage(parts, { ...run, position: null });
  return { found: 0, ids, next: next === undefined ? '' : GONE + next };
}

/** The records themselves may be too large together. */
const idAlone = new Map([['_id', new Map()]]);

/** In the order of the ids. What is written behind the place that is reached, and changed later, events tell. */
async function readPage({ records }: EmbeddingParts, run: RunRow): Promise<ScanPage> {
  const text = await records.select(reader, run.schemaName, {
    filter: checkedFilter(run.filter),
    limit: run.batchSize,
    count: 'none',
    cursor: run.position ?? '',
    only: idAlone,
  });
  const { documents, nextCursor } = JSON.parse(text) as {
    readonly documents: readonly { readonly _id: string }[];
    readonly nextCursor: string | null;
  };
  const ids = documents.map(({ _id }) => _id);
  return { found: ids.length, ids, next: nextCursor };
}
