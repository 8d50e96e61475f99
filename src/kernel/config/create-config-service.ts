/**
 * The configuration service (spec/core.md 6.1): store by compare-and-set, apply
 * here, have every other node apply it, then answer.
 */
import { hasAuthority, requireAuthority } from '../authority.ts';
import type { Caller } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { errors } from '../errors.ts';
import type { Bus } from '../events/bus.ts';
import type { Health } from '../health.ts';
import type { SecretBox } from '../security/secret-box.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Change, CONFIG_TOPIC, createWriter, decide } from './change-config.ts';
import { type ConfigHandle, moduleOfConfig } from './config-definition.ts';
import type { ChangedConfig, ConfigService, StoredConfig } from './config-service.ts';
import { createDocument, createLiveConfig, type LiveConfig } from './live-config.ts';
import {
  type ConfigRow,
  emptyRow,
  readAllRows,
  readHistory,
  readRow,
  readVersion,
} from './rows.ts';
import { isTree } from './tree.ts';

export interface ConfigServiceOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly secrets: SecretBox;
  readonly log: Logger;
  readonly health: Health;
}

interface Documents {
  readonly live: ReadonlyMap<string, LiveConfig>;
  readonly loaded: Map<string, ConfigRow>;
}

/** Documents that are registered apply it; the others will start with it. */
async function takeIn({ live, loaded }: Documents, row: ConfigRow): Promise<void> {
  const registered = live.get(row.name);
  if (registered) await registered.apply(row);
  else loaded.set(row.name, row);
}

/** Keeps the documents as they are stored, whichever node changes them. */
function followChanges({ database, bus }: ConfigServiceOptions, documents: Documents): void {
  bus.freshness.watch('config', async () => {
    // A document that cannot be applied says so itself (`config.sync`), and the one before stays in force.
    for (const row of await readAllRows(database))
      await takeIn(documents, row).catch(() => undefined);
  });
  bus.subscribe(CONFIG_TOPIC, async (payload) => {
    const module = isTree(payload) ? payload.module : undefined;
    if (typeof module === 'string') await takeIn(documents, await readRow(database, module));
  });
}

/**
 * Reads all documents in one query. `change` and `rollback` must not be called inside a transaction:
 * other nodes could not read the new version yet.
 */
export async function createConfigService(options: ConfigServiceOptions): Promise<ConfigService> {
  const listeners = new Set<(module: string) => void>();
  const documents = await openDocuments(options);
  return {
    ...documents,
    async register<C>(module: string, definition: LiveConfig['document']['definition']) {
      const handle = await documents.register<C>(module, definition);
      handle.onChange(() => {
        for (const listener of listeners) listener(module);
      });
      return handle;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

type ConfigDocuments = Omit<ConfigService, 'onChange'>;

async function openDocuments(options: ConfigServiceOptions): Promise<ConfigDocuments> {
  const { database, bus, secrets, log, health } = options;
  const live = new Map<string, LiveConfig>();
  const loaded = new Map<string, ConfigRow>();
  const documents: Documents = { live, loaded };

  followChanges(options, documents);
  for (const row of await readAllRows(database)) loaded.set(row.name, row);
  health.register({ name: 'config.sync', run: async () => syncState(live) });

  const write = createWriter(database, bus);
  const known = (module: string): LiveConfig => knownOf(live, module);
  const operated = (caller: Caller, module: string): LiveConfig => operatedOf(live, caller, module);

  const change = async (
    caller: Caller,
    module: string,
    how: Omit<Change, 'caller' | 'module' | 'target'>,
  ): Promise<ChangedConfig> => {
    const target = operated(caller, module);
    const { row, ...outcome } = await write({ ...how, caller, module, target });
    return { ...viewOf(target, row), ...outcome };
  };

  return {
    async register<C>(module: string, definition: LiveConfig['document']['definition']) {
      if (live.has(module)) throw new Error(`The configuration ${module} is registered already`);
      const document = createDocument(module, definition, secrets);
      const row = loaded.get(module) ?? emptyRow(module);
      const created = createLiveConfig(module, document, row, log);
      loaded.delete(module);
      live.set(module, created);
      return created.handle as unknown as ConfigHandle<C>;
    },
    modules: () => [...live.keys()].sort(),
    modulesFor: (caller) => reachable(live, caller).sort(),
    definition: (module) => live.get(module)?.document.definition,
    async read(caller, module, { reveal = false } = {}) {
      const target = operated(caller, module);
      if (reveal) requireAuthority(caller, { kind: 'secrets', module: ownerOf(target, module) });
      return viewOf(target, await readRow(database, module), reveal);
    },
    maskPatch: (module, patch) => live.get(module)?.document.maskPatch(patch),
    change: (caller, module, patch, options = {}) =>
      change(caller, module, { ...options, patch: async () => patch }),
    async preview(caller, module, patch, options = {}) {
      const target = operated(caller, module);
      const row = await readRow(database, module);
      return previewOf(row, decide({ ...options, caller, module, target }, row, patch), target);
    },
    async history(caller, module) {
      operated(caller, module);
      return (await readHistory(database, module)).map(historyEntry);
    },
    rollback: (caller, module, version, options = {}) =>
      change(caller, module, {
        ...options,
        replace: true,
        patch: async () =>
          known(module).document.open(await keptVersion(database, module, version)),
      }),
  };
}

const previewOf = (
  { version }: ConfigRow,
  { set, warnings, differences }: ReturnType<typeof decide>,
  { document }: LiveConfig,
) => ({
  config: document.mask(document.complete(set)),
  version,
  warnings,
  differences,
});

const historyEntry = ({
  version,
  updatedAt,
  updatedBy,
}: Awaited<ReturnType<typeof readHistory>>[number]) => ({
  version,
  updatedAt: updatedAt.toISOString(),
  updatedBy,
});

/** Throws 404. */
async function keptVersion(database: Database, module: string, version: number) {
  const stored = await readVersion(database, module, version);
  if (!stored) throw errors.NOT_FOUND({ message: 'This version is not kept (the last 20 are)' });
  return stored;
}

/** Configuration is for operators, and that of a module for those whom its scope lets; this holds whatever way a call comes. */
function operatedOf(
  live: ReadonlyMap<string, LiveConfig>,
  caller: Caller,
  module: string,
): LiveConfig {
  requireAuthority(caller, { kind: 'module', module: ownerOf(live.get(module), module) });
  return knownOf(live, module);
}

const reachable = (live: ReadonlyMap<string, LiveConfig>, caller: Caller): string[] =>
  [...live].flatMap(([name, document]) =>
    hasAuthority(caller, { kind: 'module', module: ownerOf(document, name) }) ? [name] : [],
  );

function knownOf(live: ReadonlyMap<string, LiveConfig>, module: string): LiveConfig {
  const found = live.get(module);
  if (!found) throw errors.NOT_FOUND({ message: 'There is no module of this name' });
  return found;
}

const ownerOf = (document: LiveConfig | undefined, name: string): string =>
  document ? moduleOfConfig(name, document.document.definition) : name;

function viewOf({ document }: LiveConfig, row: ConfigRow, reveal = false): StoredConfig {
  const complete = document.complete(document.open(row.config));
  return {
    config: reveal ? complete : document.mask(complete),
    version: row.version,
    updatedAt: row.updatedAt?.toISOString() ?? null,
    updatedBy: row.updatedBy,
  };
}

function syncState(live: ReadonlyMap<string, LiveConfig>): {
  status: 'pass' | 'warn';
  message?: string;
} {
  const behind = [...live]
    .filter(([, config]) => config.refused() !== undefined)
    .map(([module]) => module);
  if (behind.length === 0) return { status: 'pass' };
  return { status: 'warn', message: `an older configuration is in force: ${behind.join(', ')}` };
}
