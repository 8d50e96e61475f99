/** The SQL of configurations and their generations. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import type { ModelChoice } from '../model.ts';

/** What the vectors of a generation are made of and with. It never changes, but that fields get other names. */
export interface Recipe extends ModelChoice {
  readonly sourceFields: readonly string[];
  /** Name of a text search configuration of PostgreSQL. */
  readonly language: string;
  /** Weight and language of fields that have their own. */
  readonly fieldOptions: Readonly<
    Record<string, { readonly weight?: number; readonly language?: string }>
  >;
}

export interface GenerationRow extends Recipe {
  readonly id: string;
  readonly configId: string;
  readonly schemaName: string;
  /** Number of the last change of its passages, when the row was read. */
  readonly version: number;
  /** A backfill into it goes on, so that records may be missing. */
  readonly filling?: boolean;
}

/** A configuration with the generation that is searched, and the one that will be. */
export interface ConfigRow {
  readonly id: string;
  readonly schemaName: string;
  readonly targetField: string;
  readonly enabled: boolean;
  readonly current: GenerationRow;
  readonly next: GenerationRow | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

interface JoinedRow extends Omit<ConfigRow, 'current' | 'next'> {
  readonly current: Omit<GenerationRow, 'schemaName'>;
  readonly next: Omit<GenerationRow, 'schemaName'> | null;
}

const toConfig = (row: JoinedRow): ConfigRow => ({
  ...row,
  current: { ...row.current, schemaName: row.schemaName },
  next: row.next && { ...row.next, schemaName: row.schemaName },
});

/** All configurations, by schema and target. They are few. */
export async function allConfigs(database: Queryable): Promise<readonly ConfigRow[]> {
  const { rows } = await database.query<JoinedRow>(sql`
    select c.id, c.schema_name as "schemaName", c.target_field as "targetField", c.enabled,
      c.created_at as "createdAt", c.updated_at as "updatedAt",
      json_build_object('id', g.id, 'configId', g.config_id, 'version', g.version, 'sourceFields', g.source_fields, 'provider', g.provider,
        'model', g.model, 'dimensions', g.dimensions, 'similarity', g.similarity, 'language', g.language,
        'fieldOptions', g.field_options, 'queryPrefix', g.query_prefix, 'passagePrefix', g.passage_prefix,
        'sendDimensions', g.send_dimensions, 'filling', exists (
          select from penstock.embeddings_runs r
          where r.config_id = c.id and r.generation_id = g.id and r.state in ('queued', 'running'))) as current,
      case when n.id is not null then
        json_build_object('id', n.id, 'configId', n.config_id, 'version', n.version, 'sourceFields', n.source_fields, 'provider', n.provider,
          'model', n.model, 'dimensions', n.dimensions, 'similarity', n.similarity, 'language', n.language,
          'fieldOptions', n.field_options, 'queryPrefix', n.query_prefix, 'passagePrefix', n.passage_prefix,
          'sendDimensions', n.send_dimensions) end as next
    from penstock.embeddings_configs c
    join penstock.embeddings_generations g on g.id = c.generation_id
    left join penstock.embeddings_generations n on n.id = c.next_generation_id
    order by c.schema_name, c.target_field`);
  return rows.map(toConfig);
}

export async function insertGeneration(
  database: Queryable,
  id: string,
  configId: string,
  recipe: Recipe,
): Promise<void> {
  await database.query(shortSql`
    insert into penstock.embeddings_generations (id, config_id, source_fields, provider, model, dimensions, similarity, language, field_options,
      query_prefix, passage_prefix, send_dimensions)
    values (${id}::uuid, ${configId}::uuid, ${recipe.sourceFields}::text[], ${recipe.provider}, ${recipe.model},
      ${recipe.dimensions}, ${recipe.similarity}, ${recipe.language}, ${JSON.stringify(recipe.fieldOptions)}::jsonb,
      ${recipe.queryPrefix}, ${recipe.passagePrefix}, ${recipe.sendDimensions})`);
}

interface NewConfig {
  readonly id: string;
  readonly schemaName: string;
  readonly targetField: string;
  readonly enabled: boolean;
  readonly generationId: string;
}

/** False when the schema has a configuration of this target already. */
export async function insertConfig(database: Queryable, config: NewConfig): Promise<boolean> {
  const { count } = await database.query(shortSql`
    insert into penstock.embeddings_configs (id, schema_name, target_field, enabled, generation_id)
    values (${config.id}::uuid, ${config.schemaName}, ${config.targetField}, ${config.enabled}, ${config.generationId}::uuid)
    on conflict do nothing`);
  return count === 1;
}

/** Sets whether it is switched on, and which generation is made beside the one that is searched. */
export async function changeConfig(
  database: Queryable,
  id: string,
  { enabled, nextId }: { readonly enabled: boolean; readonly nextId: string | null },
): Promise<void> {
  await database.query(shortSql`
    update penstock.embeddings_configs set enabled = ${enabled}, next_generation_id = ${nextId}::uuid, updated_at = now()
    where id = ${id}::uuid`);
}

/** What names fields of its schema in a generation. */
type Sources = Pick<GenerationRow, 'id' | 'sourceFields' | 'fieldOptions'>;

/** Holds the generations of a schema until the transaction ends. */
export async function lockGenerationsOf(
  database: Queryable,
  schemaName: string,
): Promise<readonly Sources[]> {
  const { rows } = await database.query<Sources>(sql`
    select g.id, g.source_fields as "sourceFields", g.field_options as "fieldOptions"
    from penstock.embeddings_configs c
    join penstock.embeddings_generations g on g.id in (c.generation_id, c.next_generation_id)
    where c.schema_name = ${schemaName} order by g.id for no key update of g`);
  return rows;
}

/** The same fields under other names: vectors and words stay as they are. */
export async function renameSources(
  database: Queryable,
  { id, sourceFields, fieldOptions }: Sources,
): Promise<void> {
  await database.query(shortSql`
    update penstock.embeddings_generations
    set source_fields = ${sourceFields}::text[], field_options = ${JSON.stringify(fieldOptions)}::jsonb
    where id = ${id}::uuid`);
}

/** From now on the next generation is searched. False when it is another one by now. */
export async function switchGeneration(
  database: Queryable,
  configId: string,
  nextId: string,
): Promise<boolean> {
  const { count } = await database.query(shortSql`
    update penstock.embeddings_configs set generation_id = next_generation_id, next_generation_id = null, updated_at = now()
    where id = ${configId}::uuid and next_generation_id = ${nextId}::uuid`);
  return count === 1;
}

/** From now on this generation is searched, and no other one is made. */
export async function renewConfig(
  database: Queryable,
  id: string,
  generationId: string,
): Promise<void> {
  await database.query(shortSql`
    update penstock.embeddings_configs set generation_id = ${generationId}::uuid, next_generation_id = null, updated_at = now()
    where id = ${id}::uuid`);
}

export async function removeConfig(database: Queryable, id: string): Promise<boolean> {
  const { count } = await database.query(
    shortSql`delete from penstock.embeddings_configs where id = ${id}::uuid`,
  );
  return count === 1;
}

/** Lets go of vectors of generations that no configuration has; answers how many rows went, at most `limit` of each kind. */
export async function purgeUnused(database: Queryable, limit: number): Promise<number> {
  const { rows } = await database.query<{ gone: number }>(sql`
    with unused as (
      select g.id from penstock.embeddings_generations g
      where not exists (select 1 from penstock.embeddings_configs c where g.id in (c.generation_id, c.next_generation_id))),
    v as (delete from penstock.embeddings_vectors where (generation_id, record_id, ordinal) in
      (select generation_id, record_id, ordinal from penstock.embeddings_vectors where generation_id in (select id from unused) limit ${limit}::integer) returning 1),
    w as (delete from penstock.embeddings_words where (generation_id, record_id) in
      (select generation_id, record_id from penstock.embeddings_words where generation_id in (select id from unused) limit ${limit}::integer) returning 1),
    t as (delete from penstock.embeddings_terms where (generation_id, term) in
      (select generation_id, term from penstock.embeddings_terms where generation_id in (select id from unused) limit ${limit}::integer) returning 1),
    p as (delete from penstock.embeddings_pending where (generation_id, record_id) in
      (select generation_id, record_id from penstock.embeddings_pending where generation_id in (select id from unused) limit ${limit}::integer) returning 1)
    select ((select count(*) from v) + (select count(*) from w) + (select count(*) from t) + (select count(*) from p))::integer as gone`);
  return rows[0]?.gone ?? 0;
}

/** Forgets generations that no configuration has and that have no rows any more. */
export async function forgetUnused(database: Queryable): Promise<void> {
  await database.query(sql`
    delete from penstock.embeddings_generations g
    where not exists (select 1 from penstock.embeddings_configs c where g.id in (c.generation_id, c.next_generation_id))
      and not exists (select 1 from penstock.embeddings_vectors v where v.generation_id = g.id)
      and not exists (select 1 from penstock.embeddings_words w where w.generation_id = g.id)
      and not exists (select 1 from penstock.embeddings_terms t where t.generation_id = g.id)`);
}

/** Lets go of what is left of records that are gone, once every node has heard of it. */
export async function purgeGone(database: Queryable, days: number): Promise<void> {
  await database.query(sql`
    delete from penstock.embeddings_vectors where hash is null and written_at < now() - ${days}::integer * interval '1 day'`);
}
