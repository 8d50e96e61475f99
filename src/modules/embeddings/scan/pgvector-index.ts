/** The search in the database itself, where it has pgvector; other generations are searched in memory. */

import type { IndexFacts } from '../measure.ts';
import type { GenerationRow } from '../queries/configs.ts';
import {
  addColumn,
  buildIndex,
  type DatabaseIndex,
  dropIndex,
  fillColumn,
  hasColumn,
  indexedGenerations,
  isAvailable,
  isIndexable,
  type NearPassage,
  nearestOfRecords,
  nearPassages,
} from '../queries/pgvector.ts';
import { countVectors, coverage } from '../queries/vectors.ts';
import type { Nearest } from './table.ts';
import { createMemoryIndex, type VectorIndex, type VectorIndexParts } from './vector-index.ts';

/** Milliseconds for which a node relies on what it knows of indexes. */
const KNOWN_MS = 5_000;

type Indexes = ReadonlyMap<string, DatabaseIndex>;

/** The way to search that fits each generation. */
export function createVectorIndex(parts: VectorIndexParts): VectorIndex {
  const { database, config } = parts;
  const memory = createMemoryIndex(parts);
  let known: { readonly indexes: Promise<Indexes>; readonly at: number } | undefined;

  const indexes = (): Promise<Indexes> => {
    if (!known || performance.now() - known.at > KNOWN_MS) {
      known = { indexes: indexedGenerations(database), at: performance.now() };
      known.indexes.catch(() => {
        known = undefined;
      });
    }
    return known.indexes;
  };
  const inDatabase = async ({ id }: GenerationRow): Promise<DatabaseIndex | undefined> => {
    const index = config().search.index === 'auto' ? (await indexes()).get(id) : undefined;
    return index?.valid ? index : undefined;
  };

  return {
    async nearest(generation, query, options) {
      const own = await inDatabase(generation);
      if (!own) return memory.nearest(generation, query, options);
      const { k, within } = options;
      const passages = within
        ? await nearestOfRecords(database, generation, query, { ids: within, k })
        : await nearestRecords(parts, generation, query, k);
      return { ...listed(passages), passages: own.passages };
    },
    async prepare(generation) {
      if (!(await inDatabase(generation))) await memory.prepare(generation);
    },
    async facts(generation) {
      const own = await inDatabase(generation);
      return own ? databaseFacts(parts, generation, own.bytes) : memory.facts(generation);
    },
    close: memory.close,
  };
}

/** Several passages of a record are one hit: more of them are asked for until there are enough records. */
async function nearestRecords(
  { database }: Pick<VectorIndexParts, 'database'>,
  generation: GenerationRow,
  query: Float32Array,
  k: number,
): Promise<readonly NearPassage[]> {
  for (let limit = k; ; limit *= 2) {
    const passages = await nearPassages(database, generation, query, limit);
    const records = new Map<string, NearPassage>();
    for (const one of passages) if (!records.has(one.recordId)) records.set(one.recordId, one);
    if (records.size >= k || passages.length < limit) return [...records.values()].slice(0, k);
  }
}

const listed = (passages: readonly NearPassage[]): Omit<Nearest, 'passages'> => ({
  ids: passages.map(({ recordId }) => recordId),
  starts: passages.map(({ starts }) => starts),
  ends: passages.map(({ ends }) => ends),
  distances: passages.map(({ distance }) => distance),
});

async function databaseFacts(
  { database }: VectorIndexParts,
  { id }: GenerationRow,
  bytes: number,
): Promise<IndexFacts> {
  const [{ passages } = { passages: 0 }] = await coverage(database, [id]);
  const megabytes = Math.ceil(bytes / 1_000_000);
  return { kind: 'pgvector', state: 'ready', passages, indexed: passages, megabytes };
}

const FILL = 1_000;

/** Follows the database in the background: writes vectors into its column, makes indexes, and drops those of generations that are gone. */
export async function keepDatabaseIndexes(
  parts: Pick<VectorIndexParts, 'database' | 'config'>,
  generations: readonly GenerationRow[],
  signal: AbortSignal,
): Promise<void> {
  const { database, config } = parts;
  if (!(await hasColumn(database))) {
    if (config().search.index !== 'auto' || !(await isAvailable(database))) return;
    await addColumn(database);
  }
  while (!signal.aborted && (await fillColumn(database, FILL)) > 0);
  const there = await indexedGenerations(database);
  for (const generation of generations) {
    const isDone = there.get(generation.id)?.valid === true;
    if (!isDone && !signal.aborted && (await isLarge(parts, generation)))
      await database.session((session) => buildIndex(session, generation));
  }
  const used = new Set(generations.map(({ id }) => id));
  for (const id of there.keys())
    if (!used.has(id)) await database.session((session) => dropIndex(session, id));
}

async function isLarge(
  { database, config }: Pick<VectorIndexParts, 'database' | 'config'>,
  generation: GenerationRow,
): Promise<boolean> {
  const max = config().search.exactUpTo;
  return isIndexable(generation) && (await countVectors(database, generation.id, max + 1)) > max;
}
