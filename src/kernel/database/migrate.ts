/** Runs the migrations of all owners: forward only, each in one transaction with the row that records it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../start-error.ts';
import type { Database, Queryable } from './database.ts';
import { codeOf, isTransient } from './failures.ts';
import { sql } from './sql.ts';

/* Forward-only changes to the tables that the platform itself owns (never to user schemas: those have plans). */

export interface Migration {
  /** Stable and ordered within its owner: `0001-config`. */
  readonly id: string;
  run(database: Queryable): Promise<void>;
}

/** Migrations of one owner (`kernel`, or a module). */
export interface MigrationSet {
  readonly owner: string;
  readonly migrations: readonly Migration[];
}

interface Applied {
  readonly owner: string;
  readonly id: string;
}

const keyOf = ({ owner, id }: Applied): string => `${owner}/${id}`;

/** Undefined table and invalid schema name: nothing was ever migrated here. */
const isUntouched = (error: unknown): boolean =>
  codeOf(error) === '42P01' || codeOf(error) === '3F000';

/** What has been applied. One statement; an untouched database answers nothing. */
async function readApplied(database: Database): Promise<ReadonlySet<string>> {
  try {
    const { rows } = await database.query<Applied>({
      text: 'select owner, id from penstock.migrations',
    });
    return new Set(rows.map(keyOf));
  } catch (error) {
    if (isUntouched(error)) return new Set();
    throw error;
  }
}

/** Keys of `applied` that this version does not know. Owners that are not among `sets` are let pass. */
export function unknownMigrations(
  applied: ReadonlySet<string>,
  sets: readonly MigrationSet[],
): readonly string[] {
  const known = new Set(
    sets.flatMap(({ owner, migrations }) => migrations.map(({ id }) => keyOf({ owner, id }))),
  );
  const owners = new Set(sets.map(({ owner }) => owner));
  return [...applied]
    .filter((key) => owners.has(key.slice(0, key.lastIndexOf('/'))) && !known.has(key))
    .sort();
}

/**
 * Refuses what a newer version has changed: this version does not know what it would break.
 * @throws StartError that begins with `what`.
 */
export function refuseUnknown(
  applied: ReadonlySet<string>,
  sets: readonly MigrationSet[],
  what = 'The database was migrated by',
): void {
  const unknown = unknownMigrations(applied, sets);
  if (unknown.length > 0) {
    throw new StartError(
      `${what} a newer version of Penstock (it has ${unknown.join(', ')}): start that version or newer, or restore a backup`,
    );
  }
}

const pendingOf = (
  applied: ReadonlySet<string>,
  { owner, migrations }: MigrationSet,
): readonly Migration[] => migrations.filter(({ id }) => !applied.has(keyOf({ owner, id })));

async function createTable(database: Database): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.query({ text: 'create schema if not exists penstock' });
    await transaction.query({
      text: `create table if not exists penstock.migrations (
        owner text not null,
        id text not null,
        applied_at timestamptz(3) not null default now(),
        primary key (owner, id)
      )`,
    });
  });
}

/**
 * Milliseconds that a step waits for a table in use. Whoever comes after it waits as long, nodes of the version before
 * included: PostgreSQL lets nobody pass a waiting lock. Longer than its deadlock_timeout, after which autovacuum gives way.
 */
const LOCK_TIMEOUT_MS = 2_000;
/** In between others work. */
const PAUSE_MS = 2_000;
/** About a minute. */
const ATTEMPTS = 15;

/** lock_not_available, or our turn to give way. Nothing of the migration is left. */
const isInUse = (error: unknown): boolean => codeOf(error) === '55P03' || isTransient(error);

const applyOnce = (database: Database, owner: string, migration: Migration): Promise<void> =>
  database.transaction(
    async (transaction) => {
      // Building an index on much data may take long; waiting for its table may not.
      await transaction.query({ text: 'set local statement_timeout = 0' });
      await transaction.query({ text: `set local lock_timeout = ${LOCK_TIMEOUT_MS}` });
      await migration.run(transaction);
      await transaction.query(
        sql`insert into penstock.migrations (owner, id) values (${owner}, ${migration.id})`,
      );
    },
    { attempts: 1 },
  );

interface Step {
  readonly migration: Migration;
  readonly signal: AbortSignal | undefined;
}

async function apply(
  database: Database,
  owner: string,
  { migration, signal }: Step,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await applyOnce(database, owner, migration);
    } catch (error) {
      if (!isInUse(error)) throw error;
      if (attempt === ATTEMPTS)
        throw new StartError(
          `The database could not be changed (${owner} ${migration.id}): its tables are in use all the time, by a backup or a long statement. Start again when that is over`,
          { cause: error },
        );
    }
    signal?.throwIfAborted();
    await sleep(PAUSE_MS);
  }
}

interface MigrateOptions {
  /** Told what is done, in words. */
  readonly onProgress?: ((text: string) => void) | undefined;
  /** Everything that this version knows, where `sets` are only a part of it; `sets` unless set. */
  readonly known?: readonly MigrationSet[];
  /** Aborted: it ends with the reason before the next step, also while it waits for a table. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Brings the platform's own tables up to date, in the order of `sets`. When nothing is pending this
 * costs one statement and takes no lock. Owners that are not among `known` are left alone.
 * @throws StartError when a newer version ran on this database (nothing was changed), or when tables are not to be had.
 */
export async function migrate(
  database: Database,
  sets: readonly MigrationSet[],
  { onProgress, known = sets, signal }: MigrateOptions = {},
): Promise<void> {
  const before = await readApplied(database);
  refuseUnknown(before, known);
  if (sets.every((set) => pendingOf(before, set).length === 0)) return;

  await database.withLock('migrations', async () => {
    await createTable(database);
    const applied = await readApplied(database);
    refuseUnknown(applied, known);
    for (const set of sets) {
      const pending = pendingOf(applied, set);
      const isNew = pending.length === set.migrations.length;
      for (const migration of pending) {
        signal?.throwIfAborted();
        // What is made for the first time is empty and quick; a change may have to work on much data.
        onProgress?.(
          isNew ? 'Preparing the database' : `Changing the database: ${set.owner} ${migration.id}`,
        );
        await apply(database, set.owner, { migration, signal });
      }
    }
  });
}
