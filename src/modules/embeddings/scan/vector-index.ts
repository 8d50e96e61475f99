/**
 * The vectors that a node searches through: in memory, in a thread of their own, read from the database when they are
 * first asked for and brought up to date before each search. Nothing but the database knows them for good. Many of them
 * get an index, which is made in the thread while searches go on.
 */
import type { Database } from '../../../kernel/database/database.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import { createWorkerLink, type WorkerLink } from '../../../kernel/threads/worker-link.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { embeddingErrors } from '../errors.ts';
import type { EmbeddingMeasures, IndexFacts } from '../measure.ts';
import type { GenerationRow } from '../queries/configs.ts';
import { countVectors, type Place, passagesAfter } from '../queries/vectors.ts';
import { LINK_BYTES } from './graph.ts';
import { growIndex, type Loaded } from './index-growth.ts';
import type { ApplyInput, NearestInput } from './scan-thread.ts';
import type { Nearest, TableFacts } from './table.ts';

export interface VectorIndex {
  /**
   * The records with the nearest passages, as the generation stood when its row was read or later: of few passages and of `within` exactly, of many as an index finds them. Throws
   * 412 when they are too many for this node, and 503 while it has not read them yet.
   */
  nearest(
    generation: GenerationRow,
    query: Float32Array,
    options: { readonly k: number; readonly within?: readonly string[] },
  ): Promise<Nearest>;
  /** Reads many vectors before anybody searches, where there is room for them. Ends when they are read. */
  prepare(generation: GenerationRow): Promise<void>;
  /** What this node holds of a generation. */
  facts(generation: GenerationRow): Promise<IndexFacts>;
  close(): Promise<void>;
}

export interface VectorIndexParts {
  readonly database: Database;
  readonly config: () => EmbeddingsConfig;
  readonly measures: Pick<EmbeddingMeasures, 'indexes'>;
  /** How long a search waits for vectors to be read. */
  readonly readMs?: number;
}

const HEAP_MEGABYTES = 4_096;
/** Bytes of the vectors of one read, and passages at most: what comes at once holds up the event loop. */
const PAGE_BYTES = 1_000_000;
const MAX_PAGE = 2_000;
/** Passages from which on a node reads them before anybody searches. */
const MANY = 1_000;
/** Milliseconds for which a search waits until vectors are read, and seconds after which it may come again. */
const READ_MS = 5_000;
const COME_AGAIN = 3;
/** Bytes of a passage beside its vector. */
const ENTRY_BYTES = 220;

const nothing: Nearest = {
  ids: [],
  starts: [],
  ends: [],
  distances: [],
  passages: 0,
};
const noPassages = { ids: [], ordinals: [], starts: [], ends: [], present: [], vectors: '' };
const pageOf = ({ dimensions }: GenerationRow): number =>
  Math.min(MAX_PAGE, Math.max(1, Math.floor(PAGE_BYTES / (4 * dimensions))));
const atStart: Place = { version: 0, recordId: '', ordinal: -1 };
const fresh = (): Loaded => ({
  version: -1,
  reading: undefined,
  bytes: 0,
  table: { passages: 0, indexed: 0, unavailable: false },
  growing: false,
  recall: undefined,
});

interface Reader {
  /** Brings the thread up to the version of the generation, however long it takes. */
  read(generation: GenerationRow, state: Loaded): Promise<void>;
  /** The same for a search, which does not wait for long. Throws 412 and 503. */
  refresh(generation: GenerationRow): Promise<void>;
  stop(): void;
}

function createReader(
  parts: VectorIndexParts,
  thread: WorkerLink,
  loaded: Map<string, Loaded>,
): Reader {
  const { database, config, readMs = READ_MS } = parts;
  let isClosed = false;
  const reading = { database, thread, isClosed: () => isClosed };

  /** Whoever began it may give up before it is through: it goes on for those who search next. */
  const read = (generation: GenerationRow, state: Loaded): Promise<void> => {
    const { version } = generation;
    state.reading ??= offAccount(async () => {
      if (state.version < 0) await makeRoom({ ...parts, thread }, loaded, generation);
      await readPassages(reading, generation, state, version);
    })
      .then(() => growIndex({ thread, config }, generation.id, state))
      .catch((error: unknown) => {
        if (loaded.get(generation.id) === state) loaded.delete(generation.id);
        throw error;
      })
      .finally(() => {
        state.reading = undefined;
      });
    // Nobody may wait any more when it fails.
    state.reading.catch(() => undefined);
    return state.reading;
  };

  return {
    read,
    async refresh(generation) {
      const until = performance.now() + readMs;
      const known = loaded.get(generation.id);
      if (known?.reading) await inTime(known.reading, until);
      if (known && known.version >= generation.version) return;
      const state = known ?? fresh();
      loaded.set(generation.id, state);
      await inTime(read(generation, state), until);
    },
    stop() {
      isClosed = true;
    },
  };
}

export function createMemoryIndex(parts: VectorIndexParts): VectorIndex {
  const { config } = parts;
  const loaded = new Map<string, Loaded>();
  parts.measures.indexes.read = () => [...loaded.values()].map(factsOf);
  const thread = createWorkerLink({
    file: new URL('scan-thread.ts', import.meta.url),
    idleMs: () => config().search.idleMs,
    heapMegabytes: HEAP_MEGABYTES,
    onEnd: () => loaded.clear(),
  });
  const { read, refresh, stop } = createReader(parts, thread, loaded);

  return {
    async nearest(generation, query, { k, within }) {
      const exact = config().search.index === 'exact';
      const input: NearestInput = {
        table: generation.id,
        query,
        k,
        exact,
        ...(within && { within }),
      };
      await refresh(generation);
      const found = await thread.call<Nearest | undefined>('nearest', input).catch(() => undefined);
      if (found) return found;
      // The thread has ended meanwhile, and with it what it knew.
      loaded.delete(generation.id);
      await refresh(generation);
      return (await thread.call<Nearest | undefined>('nearest', input)) ?? nothing;
    },
    async prepare(generation) {
      const bytes = await bytesNeeded(parts, generation);
      const used = [...loaded.values()].reduce((sum, one) => sum + one.bytes, 0);
      const fits = used + bytes <= config().search.maxIndexMegabytes * 1_000_000;
      if (!fits || loaded.has(generation.id)) return;
      if (bytes < MANY * bytesOf(generation)) return;
      const state = fresh();
      loaded.set(generation.id, state);
      await read(generation, state);
    },
    facts: async ({ id }) => factsOf(loaded.get(id)),
    async close() {
      stop();
      await thread.close();
    },
  };
}

/** Waits for vectors that are read, but no longer than until then. Throws 503. */
async function inTime(reading: Promise<void>, until: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(
    () => late.reject(embeddingErrors.INDEX_PENDING({ retryAfter: COME_AGAIN })),
    until - performance.now(),
  );
  try {
    await Promise.race([reading, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** What the vectors of a generation take; counted no further than is allowed. */
async function bytesNeeded(
  { database, config }: Pick<VectorIndexParts, 'database' | 'config'>,
  generation: GenerationRow,
): Promise<number> {
  const max = config().search.maxIndexMegabytes * 1_000_000;
  const limit = Math.ceil(max / bytesOf(generation)) + 1;
  return (await countVectors(database, generation.id, limit)) * bytesOf(generation);
}

/** Lets go of what was used longest ago. Throws 412 when that is not enough. */
async function makeRoom(
  { database, config, thread }: VectorIndexParts & { readonly thread: WorkerLink },
  loaded: Map<string, Loaded>,
  generation: GenerationRow,
): Promise<void> {
  const max = config().search.maxIndexMegabytes * 1_000_000;
  const bytes = await bytesNeeded({ database, config }, generation);
  if (bytes > max) throw embeddingErrors.INDEX_NOT_QUERYABLE();
  const used = () => [...loaded.values()].reduce((sum, one) => sum + one.bytes, 0);
  for (const [id, state] of loaded) {
    if (used() + bytes <= max) break;
    if (state.reading) continue;
    loaded.delete(id);
    await thread.call('drop', id);
  }
}

function factsOf(state: Loaded | undefined): IndexFacts {
  if (!state) return { kind: 'memory', state: 'idle', passages: 0, indexed: 0, megabytes: 0 };
  const { table, growing, reading, bytes, recall } = state;
  return {
    kind: table.indexed > 0 || growing ? 'usearch' : 'memory',
    state: state.version < 0 && reading ? 'loading' : growing ? 'building' : 'ready',
    passages: table.passages,
    indexed: table.indexed,
    megabytes: Math.ceil(bytes / 1_000_000),
    ...(recall !== undefined && { recall }),
    ...(table.unavailable && { reason: 'usearch has no binary for this machine' }),
  };
}

interface ReadingParts {
  readonly database: Database;
  readonly thread: WorkerLink;
  isClosed(): boolean;
}

/** Brings what the thread knows of a generation up to a version. */
async function readPassages(
  { database, thread, isClosed }: ReadingParts,
  generation: GenerationRow,
  state: Loaded,
  upTo: number,
): Promise<void> {
  const { id: table, dimensions, similarity } = generation;
  const limit = pageOf(generation);
  let after: Place = { ...atStart, version: state.version + 1 };
  for (;;) {
    const page = await passagesAfter(database, table, { after, upTo, limit, dimensions });
    if (isClosed()) throw new Error('The platform stops');
    if (!page && state.version >= 0) break;
    const { ids, ordinals, starts, ends, present, vectors } = page ?? noPassages;
    const input: ApplyInput = {
      ...{ table, dimensions, similarity, ids, starts, ends, vectors },
      ordinals: ordinals.map((ordinal, i) => (present[i] ? ordinal : -1)),
    };
    state.table = await thread.call<TableFacts>('apply', input);
    state.bytes = state.table.passages * bytesOf(generation);
    if (!page || ids.length < limit) break;
    after = page.last;
  }
  state.version = upTo;
}

/** With the index of many: half of the vector once more, and the links. */
const bytesOf = ({ dimensions, similarity }: GenerationRow): number =>
  dimensions * (similarity === 'cosine' ? 6 : 8) + ENTRY_BYTES + LINK_BYTES;
