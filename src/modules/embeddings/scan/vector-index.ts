/**
 * The vectors that a node searches through: in memory, in a thread of their own, read from the database when they are
 * first asked for and brought up to date before each search. Nothing but the database knows them for good.
 */
import type { Database } from '../../../kernel/database/database.ts';
import { createWorkerLink, type WorkerLink } from '../../../kernel/threads/worker-link.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { embeddingErrors } from '../errors.ts';
import type { GenerationRow } from '../queries/configs.ts';
import { countVectors, type Place, passagesAfter, versionOf } from '../queries/vectors.ts';
import type { ApplyInput, NearestInput } from './scan-thread.ts';
import type { Nearest } from './table.ts';

export interface VectorIndex {
  /** The records with the nearest passages, exactly; `within`: of these. Throws 412 when they are too many for this node. */
  nearest(
    generation: GenerationRow,
    query: Float32Array,
    options: { readonly k: number; readonly within?: readonly string[] },
  ): Promise<Nearest>;
  close(): Promise<void>;
}

interface VectorIndexParts {
  readonly database: Database;
  readonly config: () => EmbeddingsConfig;
}

/** Milliseconds without a search after which the memory is given back. */
const IDLE_MS = 600_000;
const HEAP_MEGABYTES = 4_096;
/** Passages of one read. */
const PAGE = 2_000;
/** Bytes of a passage beside its vector. */
const ENTRY_BYTES = 200;

/** What is known of a generation: everything up to a version. */
interface Loaded {
  version: number;
  /** Reads that go on are waited for, not repeated. */
  reading: Promise<void> | undefined;
  bytes: number;
}

const nothing: Nearest = { ids: [], ordinals: [], distances: [] };
const atStart: Place = { version: 0, recordId: '', ordinal: -1 };

export function createVectorIndex(parts: VectorIndexParts): VectorIndex {
  const { database } = parts;
  const loaded = new Map<string, Loaded>();
  const thread = createWorkerLink({
    file: new URL('scan-thread.ts', import.meta.url),
    idleMs: IDLE_MS,
    heapMegabytes: HEAP_MEGABYTES,
    onEnd: () => loaded.clear(),
  });

  const refresh = async (generation: GenerationRow): Promise<void> => {
    const known = loaded.get(generation.id);
    const version = await versionOf(database, generation.id);
    if (known?.reading) await known.reading;
    if (known && known.version >= version) return;
    const state = known ?? { version: -1, reading: undefined, bytes: 0 };
    if (!known) await makeRoom(generation);
    loaded.set(generation.id, state);
    state.reading ??= readPassages({ database, thread }, generation, state, version).finally(() => {
      state.reading = undefined;
    });
    try {
      await state.reading;
    } catch (error) {
      loaded.delete(generation.id);
      throw error;
    }
  };

  /** Lets go of what was used longest ago. Throws 412 when that is not enough. */
  const makeRoom = async (generation: GenerationRow): Promise<void> => {
    const most = parts.config().search.maxIndexMegabytes * 1_000_000;
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
  };

  return {
    async nearest(generation, query, { k, within }) {
      const input: NearestInput = { table: generation.id, query, k, ...(within && { within }) };
      await refresh(generation);
      const found = await thread.call<Nearest | undefined>('nearest', input);
      if (found) return found;
      // The thread has ended meanwhile, and with it what it knew.
      loaded.delete(generation.id);
      await refresh(generation);
      return (await thread.call<Nearest | undefined>('nearest', input)) ?? nothing;
    },
    close: () => thread.close(),
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
    const passages = await thread.call<number>('apply', change, [
      change.vectors.buffer as ArrayBuffer,
    ]);
    state.bytes = passages * bytesOf(generation);
    if (!last) break;
    after = { version: Number(last.version), recordId: last.recordId, ordinal: last.ordinal };
    if (rows.length < PAGE) break;
  }
  state.version = upTo;
}

const bytesOf = ({ dimensions }: GenerationRow): number => dimensions * 4 + ENTRY_BYTES;

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
    vectors,
  };
}
