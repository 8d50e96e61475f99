/** The SQL of functions, their versions and secrets. Values are always parameters. */
import Type from 'typebox';
import type { Queryable, Row } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import { storedShape } from '../../../kernel/operations/problems.ts';
import {
  DEFAULT_TIMEOUT,
  type FunctionDefinition,
  functionKinds,
  InputsShape,
  ReturnsShape,
  type StoredFunction,
  TimeoutShape,
} from '../definition/definition.ts';
import { type CheckedFacts, sourceForms } from '../engine/protocol.ts';

/** What of a function is stored beside its name and kind. */
export interface StoredDefinition
  extends Pick<FunctionDefinition, 'inputs' | 'returns' | 'timeout'> {
  readonly facts: Pick<CheckedFacts, 'form' | 'language'>;
}

interface FunctionRow extends Row {
  readonly id: string;
  readonly name: string;
  readonly kind: StoredFunction['functionType'];
  readonly definition: StoredDefinition;
  readonly enabled: boolean;
  readonly version: number;
  readonly checksum: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const definitionProblem = storedShape(
  Type.Object({
    kind: Type.Enum([...functionKinds]),
    inputs: InputsShape,
    returns: Type.Union([ReturnsShape, Type.Null()]),
    timeout: TimeoutShape,
    facts: Type.Object({
      form: Type.Enum([...sourceForms]),
      language: Type.Enum(['javascript', 'typescript']),
    }),
  }),
);
const isTrigger = storedShape(Type.Object({ inputs: InputsShape.properties.trigger }));

/**
 * Stands in for a definition that cannot be used, which only a hand in the database or another version can have stored.
 * What is asked before something is kept: without it that is refused, and not let through.
 */
function standIn({ kind, definition }: FunctionRow): StoredDefinition & Pick<FunctionRow, 'kind'> {
  const { trigger } = (definition as Partial<StoredDefinition> | null)?.inputs ?? {};
  const isHook = kind === 'hook' && trigger && isTrigger({ inputs: trigger }) === undefined;
  return {
    kind: functionKinds.includes(kind) ? kind : 'middleware',
    inputs: isHook ? { trigger } : {},
    returns: null,
    timeout: DEFAULT_TIMEOUT,
    facts: { form: 'module', language: 'javascript' },
  };
}

function storedOf(row: FunctionRow): StoredFunction {
  const problem = definitionProblem({ ...row.definition, kind: row.kind });
  const { kind, ...definition } =
    problem === undefined ? { ...row.definition, kind: row.kind } : standIn(row);
  return {
    ...rowView(row),
    functionType: kind,
    ...definition,
    ...(problem === undefined
      ? { enabled: row.enabled }
      : { enabled: false, damage: { problem, enabled: row.enabled } }),
  };
}

const rowView = (row: FunctionRow) => ({
  _id: row.id,
  name: row.name,
  version: row.version,
  checksum: row.checksum,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

/** All of them, by name. */
export async function loadFunctions(database: Queryable): Promise<readonly StoredFunction[]> {
  const { rows } = await database.query<FunctionRow>(sql`
    select id, name, kind, definition, enabled, version, checksum, created_at as "createdAt", updated_at as "updatedAt"
    from penstock.functions order by name collate "C"`);
  return rows.map(storedOf);
}

/** A version as it is written. */
export interface NewVersion {
  readonly id: string;
  readonly version: number;
  readonly definition: FunctionDefinition;
  readonly facts: Pick<CheckedFacts, 'form' | 'language'>;
  /** As it was written. */
  readonly code: string;
  /** Without types. */
  readonly running: string;
  readonly packages: Readonly<Record<string, string>>;
  readonly checksum: string;
  readonly by: string;
}

const bodyOf = ({ definition: { inputs, returns, timeout }, facts }: NewVersion): string =>
  JSON.stringify({ inputs, returns, timeout, facts } satisfies StoredDefinition);

/** Throws a unique violation where the name is taken. */
export async function insertFunction(database: Queryable, given: NewVersion): Promise<void> {
  const { id, version, definition, checksum } = given;
  await database.query(sql`
    insert into penstock.functions (id, name, kind, definition, enabled, version, checksum)
    values (${id}::uuid, ${definition.name}, ${definition.functionType}, ${bodyOf(given)}::json, true, ${version}, ${checksum})`);
  await insertVersion(database, given);
}

export async function updateFunction(database: Queryable, given: NewVersion): Promise<void> {
  const { id, version, definition, checksum } = given;
  await database.query(sql`
    update penstock.functions set name = ${definition.name}, definition = ${bodyOf(given)}::json, version = ${version},
      checksum = ${checksum}, updated_at = now() where id = ${id}::uuid`);
  await insertVersion(database, given);
}

/** Versions that are kept of one function. */
const KEPT_VERSIONS = 50;

async function insertVersion(database: Queryable, given: NewVersion): Promise<void> {
  const { id, version, code, running, packages, by } = given;
  await database.query(sql`
    insert into penstock.function_versions (function_id, version, code, running, packages, definition, created_by)
    values (${id}::uuid, ${version}, ${code}, ${running}, ${JSON.stringify(packages)}::json, ${bodyOf(given)}::json, ${by})`);
  await database.query(
    sql`delete from penstock.function_versions where function_id = ${id}::uuid and version <= ${version - KEPT_VERSIONS}`,
  );
}

/** The version that is in force, kept from changing until the transaction ends. */
export async function lockFunction(database: Queryable, id: string): Promise<number | undefined> {
  const { rows } = await database.query<{ version: number }>(
    sql`select version from penstock.functions where id = ${id}::uuid for update`,
  );
  return rows[0]?.version;
}

/** The highest version that there was. */
export async function lastVersion(database: Queryable, id: string): Promise<number> {
  const { rows } = await database.query<{ version: number }>(
    sql`select max(version) as version from penstock.function_versions where function_id = ${id}::uuid`,
  );
  return rows[0]?.version ?? 0;
}

export async function deleteFunctions(
  database: Queryable,
  ids: readonly string[],
): Promise<number> {
  const { count } = await database.query(
    sql`delete from penstock.functions where id = any(${ids}::uuid[])`,
  );
  return count;
}

export async function enableFunction(
  database: Queryable,
  id: string,
  enabled: boolean,
): Promise<boolean> {
  const { count } = await database.query(
    sql`update penstock.functions set enabled = ${enabled}, updated_at = now() where id = ${id}::uuid`,
  );
  return count > 0;
}

export interface VersionRow extends Row {
  readonly version: number;
  readonly code: string;
  readonly running: string;
  readonly packages: Readonly<Record<string, string>>;
  readonly definition: StoredDefinition;
}

export async function versionOf(
  database: Queryable,
  id: string,
  version: number,
): Promise<VersionRow | undefined> {
  const { rows } = await database.query<VersionRow>(shortSql`
    select version, code, running, packages, definition from penstock.function_versions
    where function_id = ${id}::uuid and version = ${version}`);
  return rows[0];
}

/** The texts in force of several functions, by id. */
export async function codesOf(
  database: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await database.query<{ id: string; code: string }>(sql`
    select f.id, v.code from penstock.functions f
    join penstock.function_versions v on v.function_id = f.id and v.version = f.version
    where f.id = any(${ids}::uuid[])`);
  return new Map(rows.map(({ id, code }) => [id, code]));
}

export async function listVersions(
  database: Queryable,
  id: string,
): Promise<readonly { version: number; createdAt: Date; createdBy: string; bytes: number }[]> {
  const { rows } = await database.query<{
    version: number;
    createdAt: Date;
    createdBy: string;
    bytes: number;
  }>(sql`
    select version, created_at as "createdAt", created_by as "createdBy", octet_length(code) as bytes
    from penstock.function_versions where function_id = ${id}::uuid order by version desc`);
  return rows;
}

/* Secrets: sealed, and read one at a time by a run. */

export async function putSecret(
  database: Queryable,
  { id, key, sealed }: { readonly id: string; readonly key: string; readonly sealed: string },
): Promise<void> {
  await database.query(sql`
    insert into penstock.function_secrets (function_id, key, sealed) values (${id}::uuid, ${key}, ${sealed})
    on conflict (function_id, key) do update set sealed = excluded.sealed, updated_at = now()`);
}

export async function secretOf(
  database: Queryable,
  id: string,
  key: string,
): Promise<string | undefined> {
  const { rows } = await database.query<{ sealed: string }>(
    shortSql`select sealed from penstock.function_secrets where function_id = ${id}::uuid and key = ${key}`,
  );
  return rows[0]?.sealed;
}

export async function secretKeys(
  database: Queryable,
  id: string,
): Promise<readonly { key: string; updatedAt: Date }[]> {
  const { rows } = await database.query<{ key: string; updatedAt: Date }>(
    sql`select key, updated_at as "updatedAt" from penstock.function_secrets where function_id = ${id}::uuid order by key`,
  );
  return rows;
}

export async function deleteSecret(database: Queryable, id: string, key: string): Promise<boolean> {
  const { count } = await database.query(
    sql`delete from penstock.function_secrets where function_id = ${id}::uuid and key = ${key}`,
  );
  return count > 0;
}
