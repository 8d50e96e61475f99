/** The database: reachable, new enough, in step with the clock and with this version, and in good health. */
import type pg from 'pg';
import { type MigrationSet, unknownMigrations } from '../kernel/database/migrate.ts';
import { jobSchema } from '../kernel/jobs/queues.ts';
import { type Finding, note, ok, problem, warning } from './finding.ts';

/** Rows of one statement. */
type Ask = <R extends pg.QueryResultRow>(text: string) => Promise<R[]>;

/** Clocks that differ by more than this (ms) make tokens expire too early or too late. */
const MAX_SKEW_MS = 2_000;
const SLOW_MS = 20;

export async function checkDatabase(
  client: pg.Client,
  migrations: readonly MigrationSet[],
): Promise<Finding[]> {
  const ask: Ask = async <R extends pg.QueryResultRow>(text: string) =>
    (await client.query<R>(text)).rows;
  return [
    ...(await checkServer(ask)),
    await checkVectors(ask),
    await checkMigrations(ask, migrations),
    ...(await checkIndexes(ask)),
    await checkConnections(ask),
    await checkTransactions(ask),
    await checkJobs(ask),
  ].filter((finding) => finding !== undefined);
}

async function checkServer(ask: Ask): Promise<Finding[]> {
  // The first statement of a session also fills its caches.
  await ask('select 1');
  const before = Date.now();
  const [row] = await ask<{ version: string; now: Date; recovering: boolean }>(
    `select current_setting('server_version') as version, clock_timestamp() as now, pg_is_in_recovery() as recovering`,
  );
  const took = Date.now() - before;
  if (!row) return [];
  const skew = Math.abs(row.now.getTime() - (before + took / 2));
  return [
    row.recovering
      ? problem(
          'Database',
          `PostgreSQL ${row.version} is a read-only replica`,
          'Set DATABASE_URL to the primary server',
        )
      : ok('Database', `PostgreSQL ${row.version} answers in ${took} ms`),
    ...(took > SLOW_MS
      ? [
          note(
            'Database',
            `The way to the database takes ${took} ms`,
            'Run the platform near its database: every request waits for it',
          ),
        ]
      : []),
    skew > MAX_SKEW_MS
      ? problem(
          'Clock',
          `This machine and the database are ${(skew / 1000).toFixed(1)} s apart`,
          'Switch on time synchronisation (NTP) on both',
        )
      : ok('Clock', 'This machine and the database agree'),
  ];
}

/** How searches by meaning find their way, once there are many vectors. */
async function checkVectors(ask: Ask): Promise<Finding> {
  const [row] = await ask<{ version: string }>(
    `select default_version as version from pg_available_extensions where name = 'vector'`,
  );
  return ok(
    'Search',
    row
      ? `The server has pgvector ${row.version}: many vectors are searched by an index of the database`
      : 'The server has no pgvector: many vectors are searched by an index in the memory of each node',
  );
}

async function checkMigrations(ask: Ask, sets: readonly MigrationSet[]): Promise<Finding> {
  const known = sets.flatMap(({ owner, migrations }) =>
    migrations.map(({ id }) => `${owner}/${id}`),
  );
  const [table] = await ask<{ there: boolean }>(
    `select to_regclass('penstock.migrations') is not null as there`,
  );
  if (!table?.there) return note('Structure', 'The database is empty; the first start sets it up');
  const applied = new Set(
    (await ask<{ key: string }>(`select owner || '/' || id as key from penstock.migrations`)).map(
      ({ key }) => key,
    ),
  );
  const unknown = unknownMigrations(applied, sets);
  if (unknown.length > 0) {
    return problem(
      'Structure',
      `A newer version of Penstock has worked on this database (it has ${unknown.slice(0, 5).join(', ')})`,
      'Start that version or newer, or restore a backup that was made before: this version does not start on it',
    );
  }
  const pending = known.filter((key) => !applied.has(key));
  if (pending.length === 0) return ok('Structure', 'Nothing is pending');
  return note(
    'Structure',
    `${pending.length} ${pending.length === 1 ? 'change waits' : 'changes wait'} for the next start: ${pending.slice(0, 5).join(', ')}`,
    'Make a backup before you start the new version',
  );
}

async function checkIndexes(ask: Ask): Promise<Finding[]> {
  const rows = await ask<{ name: string }>(`
    select indexrelid::regclass::text as name from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
    where not indisvalid and n.nspname in ('app', 'penstock') and c.relkind <> 'p' limit 20`);
  return rows.map(({ name }) =>
    warning(
      'Indexes',
      `${name} was never finished and does not help`,
      'Restart the platform, which builds it anew, or remove it through the admin surface',
    ),
  );
}

async function checkConnections(ask: Ask): Promise<Finding> {
  const [row] = await ask<{ used: number; max: number }>(
    `select (select count(*) from pg_stat_activity where backend_type = 'client backend')::int as used, current_setting('max_connections')::int as max`,
  );
  const { used = 0, max = 0 } = row ?? {};
  if (used > max * 0.8)
    return warning(
      'Connections',
      `${used} of ${max} connections are in use`,
      'Raise max_connections, or put a pooler between',
    );
  return ok('Connections', `${used} of ${max} are in use`);
}

async function checkTransactions(ask: Ask): Promise<Finding | undefined> {
  const [row] = await ask<{ count: number; seconds: number }>(`
    select count(*)::int as count, coalesce(max(extract(epoch from now() - xact_start)), 0)::int as seconds from pg_stat_activity
    where state = 'idle in transaction' and xact_start < now() - interval '5 minutes'`);
  if (!row || row.count === 0) return undefined;
  return warning(
    'Transactions',
    `${row.count} transactions have been left open, the oldest for ${Math.round(row.seconds / 60)} minutes`,
    'End the program that holds them: they keep PostgreSQL from cleaning up',
  );
}

async function checkJobs(ask: Ask): Promise<Finding | undefined> {
  const [table] = await ask<{ there: boolean }>(
    `select to_regclass('${jobSchema}.job') is not null as there`,
  );
  if (!table?.there) return undefined;
  const rows = await ask<{ name: string; count: number }>(`
    select name, count(*)::int as count from ${jobSchema}.job where state = 'failed' and completed_on > now() - interval '24 hours' group by name order by 2 desc limit 5`);
  if (rows.length === 0) return ok('Background jobs', 'None has failed in the last 24 hours');
  const list = rows.map(({ name, count }) => `${name} (${count})`).join(', ');
  return warning(
    'Background jobs',
    `Failed for good in the last 24 hours: ${list}`,
    'Look into the log for the reason',
  );
}
