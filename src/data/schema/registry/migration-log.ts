/** What was done to each table, by whom and when. */
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { checksumOf } from '../compile/declaration.ts';
import type { ChangeStep } from '../plan/schema-plan.ts';
import { dropSteps, type SchemaSnapshot, type TableWork } from '../plan/table-work.ts';

/** One entry of the log. */
export interface SchemaMigration {
  readonly id: number | string;
  readonly schema: string;
  /** Versions of the declaration (`__v`); null: it was not there. */
  readonly from: number | null;
  readonly to: number | null;
  readonly statements: readonly string[];
  /** `failed`: an index that could not be made; everything else happens as a whole or leaves no entry. */
  readonly state: 'applied' | 'failed';
  readonly reason: string | null;
  readonly checksum: string;
  readonly actor: string;
  readonly startedAt: string;
  readonly finishedAt: string;
}

interface ChangeRecord {
  readonly caller: Caller;
  readonly snapshot: SchemaSnapshot;
  readonly work: readonly TableWork[];
  readonly destroy: readonly string[];
  /** Steps that wait: they get an entry of their own when they are done. */
  readonly late: ReadonlySet<ChangeStep>;
  readonly startedAt: Date;
}

/** Writes down a change in the transaction that makes it. */
export async function recordMigrations(
  transaction: Queryable,
  { caller, snapshot, work, destroy, late, startedAt }: ChangeRecord,
): Promise<void> {
  const statementsOf = (steps: readonly ChangeStep[]): string[] =>
    steps.filter((step) => !late.has(step)).map(({ statement }) => statement);
  const rows = [
    ...work.map(({ declaration: { name, version }, steps }) => ({
      name,
      to: version,
      statements: statementsOf(steps),
    })),
    ...destroy.map((name) => ({
      name,
      to: null,
      statements: statementsOf(dropSteps(snapshot, name)),
    })),
  ];
  for (const { name, to, statements } of rows) {
    const from = snapshot.get(name.toLowerCase())?.version ?? null;
    await transaction.query(sql`
      insert into penstock.schema_migrations (schema, from_version, to_version, statements, checksum, actor, started_at)
      values (${name}, ${from}, ${to}, ${JSON.stringify(statements)}, ${checksumOf(statements)}, ${callerKey(caller)}, ${startedAt})`);
  }
}

interface IndexRecord {
  readonly schema: string;
  readonly version: number;
  readonly statement: string;
  readonly startedAt: Date;
  /** Why it failed. */
  readonly reason: string | null;
}

/** Writes down the making of an index that was left for later. */
export async function recordIndexBuild(
  database: Queryable,
  { schema, version, statement, startedAt, reason }: IndexRecord,
): Promise<void> {
  const statements = [statement];
  await database.query(sql`
    insert into penstock.schema_migrations (schema, from_version, to_version, statements, checksum, actor, started_at, state, reason)
    values (${schema}, ${version}, ${version}, ${JSON.stringify(statements)}, ${checksumOf(statements)}, ${'system:index builds'},
      ${startedAt}, ${reason === null ? 'applied' : 'failed'}, ${reason})`);
}

/** The entries of a schema, youngest first, and how many there are. */
export async function listMigrations(
  database: Queryable,
  schema: string,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly migrations: readonly SchemaMigration[]; readonly count: number }> {
  const { rows } = await database.query<
    Omit<SchemaMigration, 'startedAt' | 'finishedAt'> & { startedAt: Date; finishedAt: Date }
  >(sql`
    select id, schema, from_version as "from", to_version as "to", statements, state, reason, checksum, actor,
      started_at as "startedAt", finished_at as "finishedAt"
    from penstock.schema_migrations where schema = ${schema} order by id desc limit ${limit}::integer offset ${skip}::bigint`);
  const counted = await database.query<{ n: number }>(sql`
    select count(*)::integer as n from penstock.schema_migrations where schema = ${schema}`);
  const migrations = rows.map((row) => ({
    ...row,
    startedAt: row.startedAt.toISOString(),
    finishedAt: row.finishedAt.toISOString(),
  }));
  return { migrations, count: counted.rows[0]?.n ?? 0 };
}
