/**
 * The definitions in force on this node, parsed once per revision. A change is
 * one transaction; every other node has taken it in before the change answers.
 * While this node may miss messages, each use asks the database for the revision.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Database, Queryable, Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import { createEngine } from '../engine/create.ts';
import type { Engine } from '../engine/engine.ts';
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

interface Dependencies {
  readonly database: Database;
  readonly bus: Bus;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Subscribes to the bus and makes metrics: once per process. */
export function createModels({ database, bus, log, metrics }: Dependencies): Models {
  let loaded: Loaded | undefined;
  /** Counts the moments from which on nothing that was read before may be kept. */
  let epoch = 0;
  const measure = createMeasure(metrics);

  const load = async (): Promise<Loaded> => {
    const before = loaded?.revision ?? 0;
    const begun = epoch;
    const { revision, definitions } = await readAll(database);
    if (begun !== epoch) return load();
    // Somebody else may have loaded a newer one meanwhile. Only one that was undone can be newer than what is stored.
    if (!loaded || revision > loaded.revision || revision < before) loaded = measured(loadedFrom(revision, definitions, log));
    return loaded;
  };
  const measured = (fresh: Loaded): Loaded => ({ ...fresh, engine: measure(fresh.engine) });
  const current = async (): Promise<Loaded> => {
    if (loaded && bus.connected()) return loaded;
    if (loaded && (await readRevision(database)) === loaded.revision) return loaded;
    return load();
  };
  const forget = (): void => {
    loaded = undefined;
    epoch += 1;
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
    const { failed } = await bus.announce(topic, {});
    if (failed.length > 0) log.warn({ nodes: failed }, 'Some nodes did not confirm the new resource definitions');
    await after();
  };

  return {
    engine: async () => (await current()).engine,
    definitions: async () => (await current()).definitions,
    change: (work, after) =>
      database.transaction(async (transaction) => {
        await transaction.query({ text: "select pg_advisory_xact_lock(hashtextextended('penstock.definitions', 0))" });
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

function loadedFrom(revision: number, definitions: ReadonlyMap<string, StoredDefinition>, log: Logger): Loaded {
  const parsed = [...definitions.values()].flatMap((definition): Definition[] => {
    try {
      return [parsedDefinition(definition)];
    } catch (error) {
      // Only a hand in the database can do this. Nothing is allowed by a definition that nobody understands.
      log.error({ err: error, resource: definition.name }, 'A stored resource definition is not valid and counts for nothing');
      return [];
    }
  });
  return { revision, definitions, engine: createEngine(buildModel(parsed, revision)) };
}

/** The content of a definition, without what the platform adds to it. */
export type DefinitionContent = Pick<StoredDefinition, 'name' | 'relations' | 'permissions' | 'conditions' | 'actAs'>;

export const parsedDefinition = ({ name, relations, permissions, conditions, actAs }: DefinitionContent): Definition =>
  parseDefinition({ name, relations, permissions, conditions, ...(actAs === null ? {} : { actAs }) });

const contentOf = ({ relations, permissions, conditions, actAs }: DefinitionContent) => ({ relations, permissions, conditions, actAs });

/** Whether two definitions say the same. */
export const sameContent = (one: DefinitionContent, other: DefinitionContent): boolean =>
  isDeepStrictEqual(contentOf(one), contentOf(other));
