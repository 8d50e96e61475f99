/**
 * The definitions in force on this node, parsed once per revision. A change is
 * one transaction; every other node has taken it in before the change answers.
 * Nothing rests on that message: whoever uses a model asks the database for the
 * revision, beside its own question (engine/grant-cache/change-tracker.ts).
 */
import type { Database, Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { Bus } from '../../../../kernel/events/bus.ts';
import type { Health } from '../../../../kernel/health.ts';
import type { MaybePromise } from '../../../../kernel/maybe-promise.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { Metrics } from '../../../../kernel/telemetry/metrics.ts';
import { createEngine } from '../../engine/create-engine.ts';
import type { Engine } from '../../engine/engine.ts';
import type { DatabaseSnapshot } from '../../engine/grant-cache/change-tracker.ts';
import { createGrantCache, type GrantCache } from '../../engine/grant-cache/grant-cache.ts';
import { createMeasure } from '../../engine/measure.ts';
import { releaseFields } from '../../field-tracking-tables.ts';
import { buildModel, type Model } from '../../model/model.ts';
import { type StoredDefinition, validDefinitions } from './stored-definition.ts';

export interface Models {
  /** The engine over what is in force now. */
  engine(): Promise<Engine>;
  /**
   * Answers a question with what this node believes to be in force, and asks meanwhile whether that is so; if not,
   * answers it again. The question must be one that may be asked twice.
   */
  ask<T>(question: (engine: Engine) => Promise<T>): Promise<T>;
  /** What this node believes to be in force: right if its model has the revision that `catchUp` answers. */
  optimistic(): MaybePromise<Engine>;
  /** The same, and nothing where it has not read any, or may not trust what it has read. */
  known(): Engine | undefined;
  /** What the database says now. Everything kept that changed since is forgotten when it answers. */
  catchUp(): Promise<DatabaseSnapshot>;
  /** The engine over what is in force, and the moment at which it was. Not for transactions. */
  now(): Promise<{ readonly engine: Engine; readonly moment: DatabaseSnapshot }>;
  /** What is in force now, by name. */
  definitions(): Promise<ReadonlyMap<string, StoredDefinition>>;
  /**
   * Runs `work` alone among all changes of definitions, with what is stored. When it commits, all
   * nodes have the outcome in force before `after` runs and this answers.
   */
  change<T>(
    work: (transaction: Transaction, stored: ReadonlyMap<string, StoredDefinition>) => Promise<T>,
    after: () => Promise<void>,
  ): Promise<T>;
}

interface Loaded {
  readonly revision: number;
  readonly engine: Engine;
  readonly definitions: ReadonlyMap<string, StoredDefinition>;
}

const engineOf = ({ engine }: Loaded): Engine => engine;

const topic = 'authorization.model';
/** Held by a change of definitions, and shared by transactions that rest on them, until they commit (SQL, a number). */
export const definitionsLock = "hashtextextended('penstock.definitions', 0)";

/**
 * No definition changes until the transaction commits. Before anything else that it locks: who changes definitions may go
 * on to lock that (a first direct grant with an `Idempotency-Key`).
 */
export const holdDefinitions = (transaction: Queryable): Promise<unknown> =>
  transaction.query({ text: `select pg_advisory_xact_lock_shared(${definitionsLock})` });

interface Dependencies {
  readonly database: Database;
  readonly bus: Bus;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly health?: Pick<Health, 'leaveOut'>;
  /** What records of types are, for rules about them. */
  readonly schemaOf?: Model['schemaOf'];
}

const UNREAD = 'The new resource definitions could not be read; the next use reads them';

/** Subscribes to the bus and makes metrics: once per process. */
export function createModels(dependencies: Dependencies): Models {
  const { database, bus, log, metrics, schemaOf = () => undefined } = dependencies;
  let loaded: Loaded | undefined;
  const measure = createMeasure(metrics);
  const reach = createGrantCache(database);
  const loadedNow = async (): Promise<Loaded> =>
    measured(loadedFrom({ ...(await readAll(database)), reach, tell: dependencies, schemaOf }));

  const load = async (): Promise<Loaded> => {
    const before = loaded?.revision ?? 0;
    const fresh = await loadedNow();
    // Somebody else may have loaded a newer one meanwhile. Only one that was undone can be newer than what is stored.
    if (!loaded || fresh.revision > loaded.revision || fresh.revision < before) loaded = fresh;
    return loaded;
  };
  const measured = (fresh: Loaded): Loaded => ({ ...fresh, engine: measure(fresh.engine) });
  const current = async (): Promise<Loaded> => {
    const alone = database.inTransaction();
    const revision = alone ? await readRevision(database) : (await reach.catchUp()).revision;
    if (loaded?.revision === revision) return loaded;
    // A transaction may see definitions that nobody else sees yet, or will.
    return alone ? loadedNow() : load();
  };
  const now: Models['now'] = async () => {
    const moment = await reach.catchUp();
    const { engine } = loaded?.revision === moment.revision ? loaded : await load();
    return { engine, moment };
  };
  const optimistic = (): MaybePromise<Engine> => loaded?.engine ?? current().then(engineOf);

  const ask = async <T>(question: (engine: Engine) => Promise<T>): Promise<T> => {
    if (database.inTransaction()) return question((await current()).engine);
    const engine = await optimistic();
    const [answer, moment] = await Promise.allSettled([question(engine), reach.catchUp()]);
    if (moment.status === 'rejected') throw moment.reason;
    if (moment.value.revision !== engine.model.revision) return question((await current()).engine);
    if (answer.status === 'rejected') throw answer.reason;
    return answer.value;
  };
  const forget = (): void => {
    loaded = undefined;
  };
  /** Whoever cannot read now reads when it is used next. */
  const renew = (): Promise<unknown> =>
    load().catch((error: unknown) => {
      forget();
      throw error;
    });
  bus.subscribe(topic, async () => void (await renew()));
  bus.onReconnect(forget);

  const spread = async (after: () => Promise<void>): Promise<void> => {
    // The others must hear of it also when this node cannot read now.
    await renew().catch((err: unknown) => log.warn({ err }, UNREAD));
    await bus.announce(topic, {});
    await after();
  };

  return {
    engine: async () => (await current()).engine,
    ...{ ask, optimistic, now, catchUp: reach.catchUp },
    known: () => loaded?.engine,
    definitions: async () => (await current()).definitions,
    change: (work, after) => changeDefinitions(database, work, () => spread(after)),
  };
}

/** Says which stored definitions count for nothing. */
function tellRefused(
  { health, log }: Pick<Dependencies, 'health' | 'log'>,
  found: readonly Refused[],
): void {
  for (const { name, error } of found)
    log.error(
      { err: error, resource: name },
      'A stored resource definition is not valid and counts for nothing',
    );
  health?.leaveOut(
    'resource definitions',
    found.map(({ name, error }) => ({ name, reason: String(error) })),
  );
}

/** One change at a time; `spread` runs after the commit when there was one. */
const changeDefinitions = <T>(
  database: Database,
  work: (transaction: Transaction, stored: ReadonlyMap<string, StoredDefinition>) => Promise<T>,
  spread: () => Promise<void>,
): Promise<T> =>
  database.transaction(async (transaction) => {
    await transaction.query({ text: `select pg_advisory_xact_lock(${definitionsLock})` });
    const before = await readAll(transaction);
    const result = await work(transaction, before.definitions);
    if ((await readRevision(transaction)) !== before.revision) {
      await releaseFields(transaction);
      transaction.afterCommit(spread, { alsoInDoubt: true });
    }
    return result;
  });

async function readRevision(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ revision: string }>(
    sql`select coalesce(max(revision), 0) as revision from penstock.resource_definition_versions`,
  );
  return Number(rows[0]?.revision ?? 0);
}

/** Revision and definitions of one moment. */
async function readAll(database: Queryable): Promise<{
  readonly revision: number;
  readonly definitions: ReadonlyMap<string, StoredDefinition>;
}> {
  const { rows } = await database.query<{
    revision: string;
    definitions: readonly StoredDefinition[] | null;
  }>(sql`
    select (select coalesce(max(revision), 0) from penstock.resource_definition_versions) as revision,
      (select json_agg(json_build_object(
        'id', id, 'name', name, 'relations', relations, 'fields', fields, 'permissions', permissions, 'conditions', conditions, 'actAs', act_as, 'granted', granted,
        'version', version, 'ownerColumns', exists (select 1 from penstock.tuple_tables c
          where c.type = name and c.owned and c.table_oid = to_regclass('"app".' || quote_ident(name))::oid),
        'followed', coalesce((select to_json(c.followed) from penstock.tuple_tables c
          where c.type = name and c.table_oid = to_regclass('"app".' || quote_ident(name))::oid), '[]'),
        'createdAt', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'updatedAt', to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by name)
       from penstock.resource_definitions) as definitions`);
  const definitions = new Map(
    (rows[0]?.definitions ?? []).map((definition) => [definition.name, definition]),
  );
  return { revision: Number(rows[0]?.revision ?? 0), definitions };
}

interface LoadedParts extends Omit<Loaded, 'engine'> {
  readonly reach: GrantCache;
  /** Who hears of what cannot be used. */
  readonly tell: Pick<Dependencies, 'health' | 'log'>;
  readonly schemaOf: Model['schemaOf'];
}

interface Refused {
  readonly name: string;
  readonly error: unknown;
}

function loadedFrom({ revision, definitions, reach, tell, schemaOf }: LoadedParts): Loaded {
  const found: Refused[] = [];
  const sound = validDefinitions(definitions.values(), (name, error) =>
    found.push({ name, error }),
  );
  tellRefused(tell, found);
  return {
    revision,
    definitions,
    engine: createEngine(buildModel(sound, revision, schemaOf), reach),
  };
}
