import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Database } from '../../src/kernel/database/database.ts';
import { type Migration, type MigrationSet, migrate } from '../../src/kernel/database/migrate.ts';
import { openDatabase } from '../../src/kernel/database/open-database.ts';
import { silentLog } from './log.ts';
import { requireFixture } from './servers/fixtures.ts';

/** `embedded` is the PostgreSQL that ships with us; `external15` stands for an operator's own, oldest supported server. */
export type TestServer = 'embedded' | 'external15';

export interface TestDatabase {
  readonly name: string;
  /** For `DATABASE_URL`. */
  readonly url: string;
  drop(): Promise<void>;
}

/** A database of the caller's own, empty unless it has a template, on a server that the whole run shares. */
export async function createTestDatabase({
  server = 'embedded',
  template = 'template0',
}: {
  server?: TestServer;
  /** A database on the same server that nobody is connected to: the new one begins as its copy. */
  template?: string;
} = {}): Promise<TestDatabase> {
  const administration = await requireFixture(server);
  const name = `test_${randomBytes(8).toString('hex')}`;
  // Copying the files costs half of what writing their pages into the log does.
  const how = `TEMPLATE ${template} STRATEGY file_copy`;
  await administer(administration, `CREATE DATABASE ${name} ${how}`);
  const url = new URL(administration);
  url.pathname = `/${name}`;
  return {
    name,
    url: url.href,
    drop: () => administer(administration, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

export interface OpenTestDatabase {
  readonly url: string;
  readonly database: Database;
  /** Another connection pool to the same database, as another node has it; `close` closes it too. */
  openAgain(): Promise<Database>;
  /** Closes the connections and drops the database. */
  close(): Promise<void>;
}

export interface OpenTestDatabaseOptions {
  readonly server?: TestServer;
  /** Applied before the answer. */
  readonly migrations?: readonly MigrationSet[];
}

/** A new database behind the platform's own contract, for suites below the HTTP surface. */
export async function openTestDatabase({
  server = 'embedded',
  migrations = [],
}: OpenTestDatabaseOptions = {}): Promise<OpenTestDatabase> {
  const template = migrations.length > 0 ? await migratedTemplate(server, migrations) : undefined;
  const { url, drop } = await createTestDatabase({ server, ...(template && { template }) });
  const opened: Database[] = [];
  const openAgain = async () => {
    const database = await openUrl(url);
    opened.push(database);
    return database;
  };
  const database = await openAgain();
  // Of a copy nothing is left to do.
  if (migrations.length > 0) await migrate(database, migrations);
  const close = async () => {
    await Promise.all(opened.map((one) => one.close()));
    await drop();
  };
  return { url, database, openAgain, close };
}

const openUrl = (databaseUrl: string): Promise<Database> =>
  openDatabase({
    settings: {
      databaseUrl,
      databasePreparedStatements: true,
      databasePipelining: true,
      dataDir: '',
    },
    log: silentLog,
  });

interface Template {
  readonly runs: readonly Migration['run'][];
  readonly name: Promise<string>;
}

/** Migrated databases that new ones are copied from, of each worker of the run. */
const templates = new Map<string, Template>();

/** A database with just these migrations; nothing where others of the same names were applied before. */
async function migratedTemplate(
  server: TestServer,
  sets: readonly MigrationSet[],
): Promise<string | undefined> {
  const key = [
    server,
    ...sets.flatMap(({ owner, migrations }) => migrations.map(({ id }) => `${owner}/${id}`)),
  ].join();
  const runs = sets.flatMap(({ migrations }) => migrations.map(({ run }) => run));
  const known = templates.get(key);
  if (known?.runs.some((run, i) => run !== runs[i])) return undefined;
  const template = known ?? { runs, name: createMigrated(server, sets) };
  templates.set(key, template);
  return template.name;
}

async function createMigrated(server: TestServer, sets: readonly MigrationSet[]): Promise<string> {
  const { name, url } = await createTestDatabase({ server });
  const database = await openUrl(url);
  await migrate(database, sets);
  await database.close();
  return name;
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
