/**
 * The definitions in force on this node, parsed once per revision. A change is
 * one transaction; every other node has taken it in before the change answers.
 * Nothing rests on that message: whoever uses a model asks the database for the
 * revision, beside his own question (engine/follower.ts).
 */
import { isDeepStrictEqual } from 'node:util';
import type { Database, Queryable, Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import type { Reach } from '../engine/ascend.ts';
import { createEngine } from '../engine/create.ts';
import type { Engine } from '../engine/engine.ts';
import type { Moment } from '../engine/follower.ts';
import { createKeptReach, type KeptReach } from '../engine/kept-reach.ts';
import { type Definition, parseDefinition } from '../model/definition.ts';
import { buildModel } from '../model/model.ts';
import { createMeasure } from './measure.ts';

/** A definition as it is stored: the wire form. */
export interface StoredDefinition {
  readonly id: string;
  readonly name: string;
  readonly relations: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, unknown>>;
  readonly conditions: Readonly<Record<string, unknown>>;
  readonly actAs: string | null;
  readonly version: number;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface Models {
  /** The engine over what is in force now. */
  engine(): Promise<Engine>;
  /**
   * Answers a question with what this node believes to be in force, and asks meanwhile whether that is so; if not,
   * answers it again. The question must be one that may be asked twice.
   */
  ask<T>(question: (engine: Engine) => Promise<T>): Promise<T>;
  /** What this node believes to be in force: right if its model has the revision that `catchUp` answers. */
  believed(): Promise<Engine>;
  /** What the database says now. Everything kept that changed since is forgotten when it answers. */
  catchUp(): Promise<Moment>;
  /** The engine over what is in force, and the moment at which it was. Not for transactions. */
  now(): Promise<{ readonly engine: Engine; readonly moment: Moment }>;
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

const topic = 'authorization.model';
/** Held by a change of definitions, and shared by transactions that rest on them, until they commit (SQL, a number). */
export const definitionsLock = "hashtextextended('penstock.definitions', 0)";

interface Dependencies {
  readonly database: Database;
  readonly bus: Bus;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Subscribes to the bus and makes metrics: once per process. */
export function createModels({ database, bus, log, metrics }: Dependencies): Models {
  let loaded: Loaded | undefined;
  const measure = createMeasure(metrics);
  const reach = createKeptReach<Reach>(database);
  const loadedNow = async (): Promise<Loaded> => measured(loadedFrom({ ...(await readAll(database)), reach, log }));

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
  const believed = async (): Promise<Engine> => (loaded ?? (await current())).engine;

  const ask = async <T>(question: (engine: Engine) => Promise<T>): Promise<T> => {
    if (database.inTransaction()) return question((await current()).engine);
    const engine = await believed();
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
    await renew().catch((error: unknown) =>
      log.warn({ err: error }, 'The new resource definitions could not be read; the next use reads them'),
    );
    await bus.announce(topic, {});
    await after();
  };

  return {
    engine: async () => (await current()).engine,
    ask,
    believed,
    catchUp: reach.catchUp,
    now,
    definitions: async () => (await current()).definitions,
    change: (work, after) =>
      database.transaction(async (transaction) => {
        await transaction.query({ text: `select pg_advisory_xact_lock(${definitionsLock})` });
        const before = await readAll(transaction);
        const result = await work(transaction, before.definitions);
        if ((await readRevision(transaction)) !== before.revision) transaction.afterCommit(() => spread(after));
        return result;
      }),
  };
}

async function readRevision(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ revision: string }>(
    sql`select coalesce(max(revision), 0) as revision from penstock.resource_definition_versions`,
  );
  return Number(rows[0]?.revision ?? 0);
}

/** Revision and definitions of one moment. */
async function readAll(
  database: Queryable,
): Promise<{ readonly revision: number; readonly definitions: ReadonlyMap<string, StoredDefinition> }> {
  const { rows } = await database.query<{ revision: string; definitions: readonly StoredDefinition[] | null }>(sql`
    select (select coalesce(max(revision), 0) from penstock.resource_definition_versions) as revision,
      (select json_agg(json_build_object(
        'id', id, 'name', name, 'relations', relations, 'permissions', permissions, 'conditions', conditions, 'actAs', act_as,
        'version', version,
        'createdAt', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'updatedAt', to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by name)
       from penstock.resource_definitions) as definitions`);
  const definitions = new Map((rows[0]?.definitions ?? []).map((definition) => [definition.name, definition]));
  return { revision: Number(rows[0]?.revision ?? 0), definitions };
}

interface LoadedParts extends Omit<Loaded, 'engine'> {
  readonly reach: KeptReach<Reach>;
  readonly log: Logger;
}

function loadedFrom({ revision, definitions, reach, log }: LoadedParts): Loaded {
  const sound = soundDefinitions(definitions.values(), (resource, error) =>
    log.error({ err: error, resource }, 'A stored resource definition is not valid and counts for nothing'),
  );
  return { revision, definitions, engine: createEngine(buildModel(sound, revision), reach) };
}

/** The content of a definition, without what the platform adds to it. */
export type DefinitionContent = Pick<StoredDefinition, 'name' | 'relations' | 'permissions' | 'conditions' | 'actAs'>;

export const parsedDefinition = ({ name, relations, permissions, conditions, actAs }: DefinitionContent): Definition =>
  parseDefinition({ name, relations, permissions, conditions, ...(actAs === null ? {} : { actAs }) });

const contentOf = ({ relations, permissions, conditions, actAs }: DefinitionContent) => ({ relations, permissions, conditions, actAs });

/**
 * Those of the stored definitions that are valid. Only a hand in the database, or a version that took more, can have stored
 * others: nothing is allowed by what nobody understands, and nothing else is hindered by it.
 */
export const soundDefinitions = (
  stored: Iterable<StoredDefinition>,
  refused: (name: string, error: unknown) => void = () => undefined,
): readonly Definition[] =>
  [...stored].flatMap((definition) => {
    try {
      return [parsedDefinition(definition)];
    } catch (error) {
      refused(definition.name, error);
      return [];
    }
  });

/** Whether two definitions say the same. */
export const sameContent = (one: DefinitionContent, other: DefinitionContent): boolean =>
  isDeepStrictEqual(contentOf(one), contentOf(other));
