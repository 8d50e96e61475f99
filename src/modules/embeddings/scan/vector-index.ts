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
   * 412 when they are too many for this node.
   */
  nearest(
    generation: GenerationRow,
    query: Float32Array,
    options: { readonly k: number; readonly within?: readonly string[] },
  ): Promise<Nearest>;
  /** What this node holds of a generation. */
  facts(generation: GenerationRow): Promise<IndexFacts>;
  close(): Promise<void>;
}

export interface VectorIndexParts {
  readonly database: Database;
  readonly config: () => EmbeddingsConfig;
  readonly measures: Pick<EmbeddingMeasures, 'indexes'>;
}

/** Milliseconds without a search after which the memory is given back. */
const IDLE_MS = 600_000;
const HEAP_MEGABYTES = 4_096;
/** Passages of one read. */
const PAGE = 2_000;
/** Bytes of a passage beside its vector. */
const ENTRY_BYTES = 220;

const nothing: Nearest = {
  ids: [],
  starts: [],
  ends: [],
  distances: [],
  passages: 0,
};
const atStart: Place = { version: 0, recordId: '', ordinal: -1 };
const fresh = (): Loaded => ({
  version: -1,
  reading: undefined,
  bytes: 0,
  table: { passages: 0, indexed: 0, unavailable: false },
  growing: false,
  recall: undefined,
});

export function createMemoryIndex(parts: VectorIndexParts): VectorIndex {
  const { database, config } = parts;
  const loaded = new Map<string, Loaded>();
  parts.measures.indexes.read = () => [...loaded.values()].map(factsOf);
  const thread = createWorkerLink({
    file: new URL('scan-thread.ts', import.meta.url),
    idleMs: IDLE_MS,
    heapMegabytes: HEAP_MEGABYTES,
    onEnd: () => loaded.clear(),
  });

  const refresh = async (generation: GenerationRow): Promise<void> => {
    const known = loaded.get(generation.id);
    const { version } = generation;
    if (known?.reading) await known.reading;
    if (known && known.version >= version) return;
    const state = known ?? fresh();
    if (!known) await makeRoom({ ...parts, thread }, loaded, generation);
    loaded.set(generation.id, state);
    // Whoever began it may give up before it is through: it goes on for those who search next.
    state.reading ??= offAccount(() =>
      readPassages({ database, thread }, generation, state, version),
    ).finally(() => {
      state.reading = undefined;
    });
    try {
      await state.reading;
      growIndex({ thread, config }, generation.id, state);
    } catch (error) {
      loaded.delete(generation.id);
      throw error;
    }
  };

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
    facts: async ({ id }) => factsOf(loaded.get(id)),
    close: () => thread.close(),
  };
}

/** Lets go of what was used longest ago. Throws 412 when that is not enough. */
async function makeRoom(
  { database, config, thread }: VectorIndexParts & { readonly thread: WorkerLink },
  loaded: Map<string, Loaded>,
  generation: GenerationRow,
): Promise<void> {
  const most = config().search.maxIndexMegabytes * 1_000_000;
  const limit = Math.ceil(most / bytesOf(generation)) + 1;
  const bytes = (await countVectors(database, generation.id, limit)) * bytesOf(generation);
  if (bytes > most) throw embeddingErrors.INDEX_NOT_QUERYABLE();
  const used = () => [...loaded.values()].reduce((sum, one) => sum + one.bytes, 0);
  for (const [id, state] of loaded) {
    if (used() + bytes <= most) break;
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

/** Brings what the thread knows of a generation up to a version. */
async function readPassages(
  { database, thread }: { readonly database: Database; readonly thread: WorkerLink },
  generation: GenerationRow,
  state: Loaded,
  upTo: number,
): Promise<void> {
  let after: Place = { ...atStart, version: state.version + 1 };
  for (;;) {
    const rows = await passagesAfter(database, generation.id, { after, upTo, limit: PAGE });
    const last = rows.at(-1);
    if (!last && state.version >= 0) break;
    const change = changeOf(generation, rows);
    state.table = await thread.call<TableFacts>('apply', change, [
      change.vectors.buffer as ArrayBuffer,
    ]);
    state.bytes = state.table.passages * bytesOf(generation);
    if (!last) break;
    after = { version: Number(last.version), recordId: last.recordId, ordinal: last.ordinal };
    if (rows.length < PAGE) break;
  }
  state.version = upTo;
}

/** With the index of many: half of the vector once more, and the links. */
const bytesOf = ({ dimensions, similarity }: GenerationRow): number =>
  dimensions * (similarity === 'cosine' ? 6 : 8) + ENTRY_BYTES + LINK_BYTES;

type Row = Awaited<ReturnType<typeof passagesAfter>>[number];

function changeOf({ id, dimensions, similarity }: GenerationRow, rows: readonly Row[]): ApplyInput {
  const present = rows.filter(({ vector }) => vector?.byteLength === dimensions * 4);
  const vectors = new Float32Array(present.length * dimensions);
  const bytes = Buffer.from(vectors.buffer);
  for (const [at, { vector }] of present.entries()) vector?.copy(bytes, at * dimensions * 4);
  return {
    table: id,
    dimensions,
    similarity,
    ids: rows.map(({ recordId }) => recordId),
    ordinals: rows.map(({ ordinal, vector }) => (vector ? ordinal : -1)),
    starts: rows.map(({ starts }) => starts),
    ends: rows.map(({ ends }) => ends),
    vectors,
  };
}
