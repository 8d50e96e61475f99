/** The SQL of vectors and words. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import type { GenerationRow } from './configs.ts';
import { fillRecords, hasColumn } from './pgvector.ts';

/** A passage on its way into the table. */
export interface PassageRow {
  readonly recordId: string;
  readonly ordinal: number;
  readonly starts: number;
  readonly ends: number;
  /** Of the whole text of the record. Null: the record is gone. */
  readonly hash: Buffer | null;
  readonly vector: Buffer | null;
}

/** What is known of the texts: digest by record. */
export async function knownHashes(
  database: Queryable,
  generationId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Buffer>> {
  const { rows } = await database.query<{ id: string; hash: Buffer }>(sql`
    select record_id as id, hash from penstock.embeddings_vectors
    where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) and ordinal = 0 and hash is not null`);
  return new Map(rows.map(({ id, hash }) => [id, hash]));
}

/** Their vectors are of other texts than their words: none is as it was, also not one that gets its former text back. */
export const outdateHashes = (
  database: Queryable,
  generationId: string,
  ids: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    update penstock.embeddings_vectors set hash = ''::bytea
    where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) and ordinal = 0 and hash <> ''::bytea`);

/** With the names of its fields where texts were read by them: what was read by former names is not written. */
type Held = Pick<GenerationRow, 'id'> & Partial<Pick<GenerationRow, 'sourceFields'>>;

/** The number of the next change. Who has it holds the generation until the transaction ends. Nothing: it is gone, or its fields were renamed. */
export async function nextVersion(
  database: Queryable,
  { id, sourceFields }: Held,
): Promise<string | undefined> {
  const { rows } = await database.query<{ version: string }>(shortSql`
    update penstock.embeddings_generations set version = version + 1
    where id = ${id}::uuid and source_fields = coalesce(${sourceFields}::text[], source_fields) returning version`);
  return rows[0]?.version;
}

/** Holds the generation until the transaction ends, without a change of its vectors. False: it is gone, or its fields were renamed. */
export async function lockGeneration(
  database: Queryable,
  { id, sourceFields }: Required<Held>,
): Promise<boolean> {
  const { rows } = await database.query(shortSql`
    select from penstock.embeddings_generations
    where id = ${id}::uuid and source_fields = ${sourceFields}::text[] for no key update`);
  return rows.length > 0;
}

export async function isThere(database: Queryable, generationId: string): Promise<boolean> {
  const { rows } = await database.query(
    shortSql`select from penstock.embeddings_generations where id = ${generationId}::uuid`,
  );
  return rows.length > 0;
}

/** Puts the passages of these records in the place of those that they had. */
export async function replacePassages(
  database: Queryable,
  { generationId, version }: { readonly generationId: string; readonly version: string },
  passages: readonly PassageRow[],
): Promise<void> {
  const ids = [...new Set(passages.map(({ recordId }) => recordId))];
  await database.query(sql`
    delete from penstock.embeddings_vectors where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[])`);
  // Bytes behind each other go as they are; in a list each of them would be written out.
  const vectors = Buffer.concat(passages.flatMap(({ vector }) => vector ?? []));
  let end = 1;
  const places = passages.map(({ vector }) => {
    end += vector?.length ?? 0;
    return vector ? end - vector.length : null;
  });
  await database.query(sql`
    insert into penstock.embeddings_vectors (generation_id, record_id, ordinal, starts, ends, hash, vector, version)
    select ${generationId}::uuid, p.id, p.ordinal, p.starts, p.ends, p.hash,
      substring(${vectors}::bytea from p.place for p.length), ${version}::bigint
    from unnest(
      ${passages.map((p) => p.recordId)}::text[], ${passages.map((p) => p.ordinal)}::integer[],
      ${passages.map((p) => p.starts)}::integer[], ${passages.map((p) => p.ends)}::integer[],
      ${passages.map((p) => p.hash)}::bytea[], ${places}::integer[],
      ${passages.map((p) => p.vector?.length ?? null)}::integer[]) p(id, ordinal, starts, ends, hash, place, length)`);
  if (await hasColumn(database)) await fillRecords(database, generationId, passages);
}

/** Ids of records that were looked at and were there, in order. */
export async function embeddedRecords(
  database: Queryable,
  generationId: string,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    select record_id as id from penstock.embeddings_vectors
    where generation_id = ${generationId}::uuid and record_id > ${after} and ordinal = 0 and hash is not null
    order by record_id limit ${limit}::integer`);
  return rows.map(({ id }) => id);
}

/** Passages that have a vector; counted no further than `max`. */
export async function countVectors(
  database: Queryable,
  generationId: string,
  max: number,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`
    select count(*)::integer as count from (
      select 1 from penstock.embeddings_vectors where generation_id = ${generationId}::uuid limit ${max}::integer) v`);
  return rows[0]?.count ?? 0;
}

/** Where a reader stands: changes up to a version, and within the next one a record. */
export interface Place {
  readonly version: number;
  readonly recordId: string;
  readonly ordinal: number;
}

/** Passages in their order. Those without a vector, or with one of another length, have `present` false. */
export interface PassagePage {
  readonly ids: readonly string[];
  readonly ordinals: readonly number[];
  /** Where they stand in the texts of their records. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly present: readonly boolean[];
  /** Vectors of those that are present behind each other: hexadecimal, which costs nobody anything on the way. */
  readonly vectors: string;
  /** Of the last one. */
  readonly last: Place;
}

interface PageRange {
  readonly after: Place;
  readonly upTo: number;
  readonly limit: number;
  readonly dimensions: number;
}

/** Passages that were written after a place, in order, as one row. Nothing: there are none. */
export async function passagesAfter(
  database: Queryable,
  generationId: string,
  { after, upTo, limit, dimensions }: PageRange,
): Promise<PassagePage | undefined> {
  const { rows } = await database.query<Omit<PassagePage, 'last'> & { version: string | null }>(sql`
    select coalesce(json_agg(record_id), '[]') as ids, json_agg(ordinal) as ordinals, json_agg(starts) as starts,
      json_agg(ends) as ends, json_agg(vector is not null) as present, max(version) as version,
      encode(coalesce(string_agg(vector, ''::bytea), ''), 'hex') as vectors
    from (
      select record_id, ordinal, starts, ends, version,
        case when octet_length(vector) = 4 * ${dimensions}::integer then vector end as vector
      from penstock.embeddings_vectors
      where generation_id = ${generationId}::uuid and version >= ${after.version}::bigint and version <= ${upTo}::bigint
        and (version, record_id, ordinal) > (${after.version}::bigint, ${after.recordId}, ${after.ordinal}::integer)
      order by version, record_id, ordinal limit ${limit}::integer) page`);
  const { version, ...page } = rows[0] ?? { version: null, ids: [], ordinals: [] };
  const [recordId, ordinal] = [page.ids.at(-1), page.ordinals?.at(-1)];
  if (version === null || recordId === undefined || ordinal === undefined) return undefined;
  const last = { version: Number(version), recordId, ordinal };
  return { ...(page as Omit<PassagePage, 'last'>), last };
}

export interface Coverage {
  readonly generationId: string;
  /** Records that were looked at and are there. */
  readonly records: number;
  readonly passages: number;
}

export async function coverage(
  database: Queryable,
  generations: readonly string[],
): Promise<readonly Coverage[]> {
  const { rows } = await database.query<Coverage>(sql`
    select generation_id::text as "generationId", count(*) filter (where ordinal = 0)::integer as records,
      count(vector)::integer as passages
    from penstock.embeddings_vectors where generation_id = any(${generations}::uuid[]) and hash is not null
    group by generation_id`);
  return rows;
}
