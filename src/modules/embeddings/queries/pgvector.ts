/**
 * The SQL of vectors in a database that has pgvector: a column beside the bytes, and one HNSW index for each generation
 * that is large enough. The column is added when the extension is found, so nothing of it is in the migrations.
 */
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { identifier, sql } from '../../../kernel/database/sql.ts';
import type { Similarity } from '../model.ts';
import type { GenerationRow } from './configs.ts';

const table = 'penstock.embeddings_vectors';
const indexPrefix = 'embeddings_hnsw_';

/** Longest vectors that pgvector indexes: in full, and with half of the bits. */
const MAX_FULL = 2_000;
const MAX_HALF = 4_000;
export const isIndexable = ({ dimensions }: GenerationRow): boolean =>
  dimensions > 0 && dimensions <= MAX_HALF;

const operators = { cosine: '<=>', euclidean: '<->', dotProduct: '<#>' } as const;
const classes = { cosine: 'cosine', euclidean: 'l2', dotProduct: 'ip' } as const;

/** Whether the server has it, of a version that goes on looking until enough fits. */
export async function isAvailable(database: Queryable): Promise<boolean> {
  const { rows } = await database.query(sql`
    select from pg_available_extension_versions where name = 'vector'
      and version ~ '^[0-9]+[.][0-9]+' and string_to_array(substring(version from '^[0-9]+[.][0-9]+'), '.')::integer[] >= array[0, 8]
    limit 1`);
  return rows.length > 0;
}

/** Whether vectors are written into a column of it. */
export async function hasColumn(database: Queryable): Promise<boolean> {
  const { rows } = await database.query(sql`
    select from pg_attribute where attrelid = 'penstock.embeddings_vectors'::regclass and attname = 'embedding'
      and not attisdropped`);
  return rows.length > 0;
}

/** Makes the extension, where the role may, and the column. Throws what PostgreSQL says. */
export async function addColumn(database: Database): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.query({ text: 'create extension if not exists vector' });
    await transaction.query({
      text: `alter table ${table} add column if not exists embedding vector`,
    });
    await transaction.query({
      text: `create index if not exists embeddings_vectors_unfilled on ${table} (generation_id) where vector is not null and embedding is null`,
    });
  });
}

const literalOf = (vector: Buffer): string => {
  const aligned = new Uint8Array(vector);
  return JSON.stringify([...new Float32Array(aligned.buffer, 0, aligned.byteLength / 4)]);
};

/** Writes vectors that stand in bytes alone into the column. Answers how many. */
export async function fillColumn(database: Database, limit: number): Promise<number> {
  return database.transaction(async (transaction) => {
    const { rows } = await transaction.query<{ place: string; vector: Buffer }>(sql`
      select ctid::text as place, vector from penstock.embeddings_vectors
      where vector is not null and embedding is null limit ${limit}::integer for update skip locked`);
    await transaction.query(sql`
      update penstock.embeddings_vectors v set embedding = f.value::vector
      from unnest(${rows.map(({ place }) => place)}::text[], ${rows.map(({ vector }) => literalOf(vector))}::text[]) f(place, value)
      where v.ctid = f.place::tid`);
    return rows.length;
  });
}

/** The same for what a transaction has just written. */
export async function fillRecords(
  database: Queryable,
  generationId: string,
  passages: readonly {
    readonly recordId: string;
    readonly ordinal: number;
    readonly vector: Buffer | null;
  }[],
): Promise<void> {
  const filled = passages.flatMap(({ vector, ...rest }) => (vector ? [{ ...rest, vector }] : []));
  await database.query(sql`
    update penstock.embeddings_vectors v set embedding = f.value::vector
    from unnest(${filled.map(({ recordId }) => recordId)}::text[], ${filled.map(({ ordinal }) => ordinal)}::integer[],
      ${filled.map(({ vector }) => literalOf(vector))}::text[]) f(record_id, ordinal, value)
    where v.generation_id = ${generationId}::uuid and v.record_id = f.record_id and v.ordinal = f.ordinal`);
}

export interface DatabaseIndex {
  /** Whether it is whole. */
  readonly valid: boolean;
  readonly bytes: number;
  /** About how many passages it has. */
  readonly passages: number;
}

/** Generations that have an index. */
export async function indexedGenerations(
  database: Queryable,
): Promise<ReadonlyMap<string, DatabaseIndex>> {
  const { rows } = await database.query<DatabaseIndex & { name: string }>(sql`
    select c.relname as name, i.indisvalid as valid, pg_relation_size(c.oid)::double precision as bytes,
      greatest(c.reltuples, 0)::double precision as passages from pg_index i
    join pg_class c on c.oid = i.indexrelid
    where i.indrelid = 'penstock.embeddings_vectors'::regclass and c.relname like 'embeddings_hnsw_%'`);
  return new Map(
    rows.map(({ name, ...state }) => [name.slice(indexPrefix.length).replaceAll('_', '-'), state]),
  );
}

const indexName = (generationId: string): string =>
  identifier(`${indexPrefix}${generationId.replaceAll('-', '_')}`);

/** How vectors of a generation are compared in its index. */
function comparedAs({ dimensions, similarity }: GenerationRow): {
  readonly type: string;
  readonly operatorClass: string;
} {
  const kind = dimensions <= MAX_FULL ? 'vector' : 'halfvec';
  return {
    type: `${kind}(${dimensions})`,
    operatorClass: `${kind}_${classes[similarity]}_ops`,
  };
}

/** Ids of generations come from the database and are UUIDs: a partial index needs them in its text. */
const isOfGeneration = ({ id }: GenerationRow): string => {
  if (!/^[0-9a-f-]{36}$/.test(id)) throw new Error('A generation has an id that is no UUID');
  return `generation_id = '${id}'::uuid and embedding is not null`;
};

/**
 * Builds the index without holding up writes. What is left of an attempt that failed goes first. Right after vectors came
 * in, PostgreSQL may not know yet how many there are, and would sort all of them for each search.
 */
export async function buildIndex(session: Queryable, generation: GenerationRow): Promise<void> {
  const { type, operatorClass } = comparedAs(generation);
  await dropIndex(session, generation.id);
  await session.query({
    text: `create index concurrently ${indexName(generation.id)} on ${table} using hnsw ((embedding::${type}) ${operatorClass}) where ${isOfGeneration(generation)}`,
  });
  await session.query({ text: `analyze ${table}` });
}

export async function dropIndex(session: Queryable, generationId: string): Promise<void> {
  await session.query({
    text: `drop index concurrently if exists penstock.${indexName(generationId)}`,
  });
}

export interface NearPassage {
  readonly recordId: string;
  readonly starts: number;
  readonly ends: number;
  readonly distance: number;
}

/** Candidates of a search at least. */
const MIN_CANDIDATES = 100;
const MAX_CANDIDATES = 1_000;

/** Passages that the index finds, nearest first: it goes on until there are so many. */
export async function nearPassages(
  database: Database,
  generation: GenerationRow,
  query: Float32Array,
  limit: number,
): Promise<readonly NearPassage[]> {
  const { type } = comparedAs(generation);
  const operator = operators[generation.similarity];
  const candidates = Math.min(Math.max(limit, MIN_CANDIDATES), MAX_CANDIDATES);
  const text = `select record_id as "recordId", starts, ends, (embedding ${operator} $1::vector)::double precision as distance
    from (select record_id, ordinal, starts, ends, embedding from ${table} where ${isOfGeneration(generation)}
      order by embedding::${type} ${operator} $1::${type} limit $2::integer) n
    order by distance, record_id, ordinal`;
  return database.transaction(
    async (transaction) => {
      await transaction.query({
        text: `select set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', $1, true),
          set_config('hnsw.max_scan_tuples', $2, true)`,
        values: [String(candidates), String(Math.max(20_000, 4 * limit))],
      });
      const values = [JSON.stringify([...query]), limit];
      return (await transaction.query<NearPassage>({ text, values })).rows;
    },
    { readOnly: true },
  );
}

/** The nearest passage of each of these records, whatever index there is. */
export async function nearestOfRecords(
  database: Queryable,
  generation: GenerationRow,
  query: Float32Array,
  { ids, k }: { readonly ids: readonly string[]; readonly k: number },
): Promise<readonly NearPassage[]> {
  const operator = operators[generation.similarity satisfies Similarity];
  const text = `select * from (
      select distinct on (record_id) record_id as "recordId", starts, ends, (embedding ${operator} $1::vector)::double precision as distance
      from ${table} where ${isOfGeneration(generation)} and record_id = any($2::text[])
      order by record_id, distance, ordinal) n
    order by distance, "recordId" limit $3::integer`;
  const values = [JSON.stringify([...query]), ids, k];
  return (await database.query<NearPassage>({ text, values })).rows;
}
