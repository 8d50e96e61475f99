/** What goes on in the background of each node: events become work, work becomes vectors, finished generations are searched. */
import { setTimeout as delay } from 'node:timers/promises';
import { fieldTest, literal } from '../../../data/conditions/condition.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { createWakeup } from '../../../kernel/events/relay.ts';
import {
  allConfigs,
  type ConfigRow,
  type GenerationRow,
  switchGeneration,
} from '../queries/configs.ts';
import { enqueueChanged, lockPosition, movePosition, reviveFailed } from '../queries/pending.ts';
import { completedRuns, moveRun, type RunRow, wholeGenerations } from '../queries/runs.ts';
import type { Backfills } from './backfills.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { generateBatch } from './generation.ts';
import { forgetRemoved, startAgain } from './removed.ts';
import { fileFieldsOf, fileSchemaName } from './texts.ts';

/* From events of records to what is to be done: each event is looked at once, in the transaction that queues its records. */

/** Files that records are looked for by at once: a filter takes no more values. */
const FILES_AT_ONCE = 1_000;
/** Records with some of these files that are queued by themselves; where there are more, all of the schema are compared anew. */
export const MAX_HOLDERS = 10_000;
/** Events of one turn. */
const PAGE = 500;

/**
 * Looks at the events since the last time. Answers whether there are more. While another node looks, nothing is done. When
 * events are gone that nobody looked at, everything is compared anew.
 */
async function followEvents(
  parts: EmbeddingParts & { readonly backfills: Backfills },
): Promise<boolean> {
  const { database, events } = parts;
  return database.transaction(async (transaction) => {
    const position = await lockPosition(transaction);
    if (position === undefined) return false;
    const page = await events.since(position, PAGE);
    if (!page) {
      await startOver(parts);
      await movePosition(transaction, await events.position());
      return false;
    }
    const last = page.events.at(-1);
    if (!last) return false;
    await startAgain(transaction, page.events);
    for (const [schema, ids] of changedRecords(page.events))
      await enqueueChanged(transaction, schema, [...ids]);
    const files = new Set(
      page.events.flatMap(({ topic, ids = [] }) => (isOfFiles(topic) ? ids : [])),
    );
    if (files.size > 0) await enqueueChanged(transaction, fileSchemaName, [...files]);
    for (const config of await enqueueHolders(parts, transaction, files))
      await parts.backfills.replace(config, config.next ?? config.current);
    await forgetRemoved(transaction, page.events, (one) => !isReady(parts, one));
    await movePosition(transaction, last.sequence);
    return page.more;
  });
}

/** Fields with files whose texts are searched, in what is searched now and in what will be. */
const fileFieldsIn = (
  schemas: Pick<SchemaRegistry, 'get'>,
  { schemaName, current, next }: ConfigRow,
): readonly string[] =>
  fileFieldsOf(schemas.get(schemaName), [...current.sourceFields, ...(next?.sourceFields ?? [])]);

const isOfFiles = (topic: string): boolean => /^storage:\w+:File$/.test(topic);

function changedRecords(
  events: readonly PublishedEvent[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const changed = new Map<string, Set<string>>();
  for (const { schema, ids = [], operation } of events) {
    if (schema === undefined || !operation || ids.length === 0) continue;
    const known = changed.get(schema) ?? new Set();
    changed.set(schema, known);
    for (const id of ids) known.add(id);
  }
  return changed;
}

type HolderParts = Pick<EmbeddingParts, 'database' | 'schemas' | 'records'>;

/**
 * Records that hold these files are looked at again: their texts are others now. Answers of which schemas these are more
 * than are queued.
 */
export async function enqueueHolders(
  parts: HolderParts,
  transaction: Transaction,
  files: ReadonlySet<string>,
): Promise<readonly ConfigRow[]> {
  if (files.size === 0) return [];
  const crowded: ConfigRow[] = [];
  for (const config of await allConfigs(parts.database)) {
    if (config.schemaName === fileSchemaName) continue;
    const isWhole = await enqueueHoldersOf(parts, transaction, config, [...files]);
    if (!isWhole && config.enabled) crowded.push(config);
  }
  return crowded;
}

/** Answers whether all of them are queued. */
async function enqueueHoldersOf(
  { schemas, records }: HolderParts,
  transaction: Transaction,
  config: ConfigRow,
  files: readonly string[],
): Promise<boolean> {
  const { schemaName } = config;
  let isWhole = true;
  for (const field of new Set(fileFieldsIn(schemas, config)))
    for (let at = 0; at < files.length; at += FILES_AT_ONCE) {
      const some = files.slice(at, at + FILES_AT_ONCE);
      const filter = fieldTest(field, { kind: 'in', right: literal(some) });
      const options = { filter, looksInto: [], limit: MAX_HOLDERS };
      const held = await records.matching(system('embeddings.files'), schemaName, options);
      if (held.length > 0) await enqueueChanged(transaction, schemaName, held);
      if (held.length === MAX_HOLDERS) isWhole = false;
    }
  return isWhole;
}

async function startOver({
  database,
  backfills,
  log,
}: EmbeddingParts & { readonly backfills: Backfills }): Promise<void> {
  const configs = await allConfigs(database);
  log.warn({}, 'Events are gone that embeddings have not seen: all records are compared anew');
  for (const config of configs)
    if (config.enabled) await backfills.replace(config, config.next ?? config.current);
}

interface EventReader {
  /** Something was written. */
  hear(): void;
  /** Looks at the events since the last time, where something was heard of or none was for a while. */
  catchUp(): Promise<void>;
}

/** Batches of a backfill follow one another fast: where nothing was written meanwhile, they ask the database nothing. */
function createEventReader(parts: BackgroundParts, isStopped: () => boolean): EventReader {
  let heard = true;
  let last = 0;
  return {
    hear() {
      heard = true;
    },
    async catchUp() {
      const all = { ...parts, backfills: parts.backfills() };
      while (!isStopped() && (heard || performance.now() - last > LOOK_MS)) {
        heard = false;
        last = performance.now();
        if (await followEvents(all)) heard = true;
      }
    },
  };
}

export interface Background {
  start(): void;
  /** There may be something to do. */
  wake(): void;
  stop(): Promise<void>;
}

/** Milliseconds after which it looks by itself: while there is a configuration, and while there is none. */
const LOOK_MS = 2_000;
const IDLE_MS = 15_000;
/** To wait after a failure of our own. */
const RECOVER_MS = 2_000;
/** Events of one moment come together. */
const GATHER_MS = 20;

interface BackgroundParts extends EmbeddingParts {
  readonly backfills: () => Backfills;
  readonly subscribe: Kernel['events']['subscribe'];
}

export function createBackground(parts: BackgroundParts): Background {
  const bell = createWakeup();
  let stopped = false;
  let running: Promise<void> | undefined;
  const reader = createEventReader(parts, () => stopped);
  const events = listening(parts, () => {
    reader.hear();
    bell.ring();
  });

  const turn = async (): Promise<boolean> => {
    const configs = await allConfigs(parts.database);
    events.follow(configs);
    if (configs.length === 0 || !parts.config().enabled) return false;
    const enabled = configs.filter((config) => config.enabled);
    await workOn(parts, enabled, { reader, isStopped: () => stopped });
    return true;
  };

  const loop = async (): Promise<void> => {
    while (!stopped) {
      let pause = IDLE_MS;
      try {
        if (await turn()) pause = LOOK_MS;
      } catch (error) {
        if (stopped) return;
        parts.log.error({ err: error }, 'Embeddings could not be brought up to date; trying again');
        await delay(RECOVER_MS);
      }
      if (await bell.wait(pause)) await delay(GATHER_MS);
    }
  };

  return {
    start() {
      running ??= loop();
    },
    wake: bell.ring,
    async stop() {
      stopped = true;
      events.end();
      bell.ring();
      await running;
    },
  };
}

interface Turn {
  readonly reader: EventReader;
  isStopped(): boolean;
}

/** Everything that can be done now. */
async function workOn(
  parts: BackgroundParts,
  configs: readonly ConfigRow[],
  { reader, isStopped }: Turn,
): Promise<void> {
  const generations = configs.flatMap(({ current, next }) => (next ? [current, next] : [current]));
  await revive(parts, generations);
  await parts.backfills().revive();
  reader.hear();
  await reader.catchUp();
  const batches = Array.from({ length: parts.config().queue.concurrency }, async () => {
    while (!isStopped() && (await generateBatch(parts, ready(parts, generations), 'vectors')) > 0)
      // What was written meanwhile does not wait for the end of a backfill.
      await reader.catchUp();
  });
  const results = await Promise.allSettled(batches);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  const away = () => generations.filter((one) => !isReady(parts, one));
  while (!isStopped() && (await generateBatch(parts, away(), 'words')) > 0) await reader.catchUp();
  for (const run of await completedRuns(parts.database)) await settle(parts, run);
  if (configs.some(({ next }) => next)) await switchWhole(parts);
}

/** Whether the provider is worth asking. */
const isReady = ({ models }: EmbeddingParts, generation: GenerationRow): boolean =>
  (models.of(generation)?.pausedUntil() ?? 0) <= performance.now();

const ready = (
  parts: EmbeddingParts,
  generations: readonly GenerationRow[],
): readonly GenerationRow[] => generations.filter((one) => isReady(parts, one));

/** What failed because of its provider is tried again after a while. */
async function revive(parts: EmbeddingParts, generations: readonly GenerationRow[]): Promise<void> {
  await reviveFailed(parts.database, {
    generations: generations.map(({ id }) => id),
    afterMs: parts.config().queue.retryFailedMs,
  });
}

/** Generations that have everything are searched from now on: after their backfill, or when what failed in it is made up for. */
async function switchWhole({ database, log }: EmbeddingParts): Promise<void> {
  for (const { configId, generationId } of await wholeGenerations(database))
    if (await switchGeneration(database, configId, generationId))
      log.info({ config: configId }, 'Searches use the new embeddings now');
}

/** A backfill is through. */
async function settle({ database, events, measures }: EmbeddingParts, run: RunRow): Promise<void> {
  const allFailed = run.failedCount > 0 && run.failedCount >= run.queuedCount;
  const error = allFailed ? 'No record could be embedded: see their failures' : null;
  await database.transaction(async (transaction) => {
    const to = allFailed ? 'failed' : 'completed';
    if (!(await moveRun(transaction, run.id, { from: ['queued', 'running'], to, error }))) return;
    measures.backfills.inc({ result: to });
    const { schemaName, configId, queuedCount, failedCount } = run;
    await events.emit(transaction, system('embeddings.backfill'), {
      topic: `embeddings:run:${to}`,
      ids: [run.id],
      payload: { schemaName, configId, queuedCount, failedCount },
    });
  });
}

/** Listens to events of records while anybody searches in them. */
function listening({ subscribe, schemas: registry }: BackgroundParts, wake: () => void) {
  let schemas: ReadonlySet<string> = new Set();
  let readsFiles = false;
  let unsubscribe: readonly (() => void)[] = [];
  const end = (): void => {
    for (const one of unsubscribe) one();
    unsubscribe = [];
  };
  return {
    follow(configs: readonly ConfigRow[]): void {
      schemas = new Set(configs.map(({ schemaName }) => schemaName));
      readsFiles = configs.some(
        (one) => one.schemaName === fileSchemaName || fileFieldsIn(registry, one).length > 0,
      );
      if (schemas.size === 0) end();
      else if (unsubscribe.length === 0)
        unsubscribe = [
          subscribe('database:*', ({ schema }) => {
            if (schema !== undefined && schemas.has(schema)) wake();
          }),
          subscribe('storage:*', ({ topic }) => {
            if (readsFiles && isOfFiles(topic)) wake();
          }),
        ];
    },
    end,
  };
}
