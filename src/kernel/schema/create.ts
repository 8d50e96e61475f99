/** The schema registry: declarations in the database, compiled in memory, the same on every node. */
import { AsyncLocalStorage } from 'node:async_hooks';

import { requireAuthority, schemaObject } from '../authority/authority.ts';
import { type Caller, system } from '../caller.ts';
import type { Database } from '../database/database.ts';
import type { Bus } from '../events/bus.ts';
import type { Events } from '../events/events.ts';
import { unconfirmedReport } from '../freshness/unconfirmed.ts';
import { changeSchemas } from './change.ts';
import type { CompiledSchema } from './compiled.ts';
import { loadDeclarations } from './declaration.ts';
import { definitionChecksum } from './draft.ts';
import { schemaErrors } from './errors.ts';
import { installIntent } from './install.ts';
import { createLoadedSchemas } from './loaded.ts';
import { previewOf } from './preview.ts';
import type { SchemaRegistry, SchemaRequest } from './registry.ts';
import { intentOf, namesIn, requireAdmin } from './requests.ts';
import { type Intent, type World, worldOf } from './world.ts';

export interface SchemaRegistryOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly events: Events;
  /** Told when indexes are left to be made (index-builds.ts). */
  readonly onIndexesWaiting?: () => void;
}

const TOPIC = 'schemas.changed';

interface SchemaWork {
  readonly decide: (world: World) => Intent;
  readonly atOnce?: boolean;
}

/** Loads what is declared and keeps it current. The tables of migrations.ts must exist. */
export async function createSchemaRegistry({ database, bus, events, onIndexesWaiting }: SchemaRegistryOptions): Promise<SchemaRegistry> {
  const loaded = createLoadedSchemas(() => loadDeclarations(database));
  await loaded.refresh();
  bus.subscribe(TOPIC, () => loaded.refresh());
  bus.freshness.watch('schemas', loaded.refresh);

  // A change is always a transaction of its own: it must be committed before this node and the others take it in.
  const outside = AsyncLocalStorage.snapshot();

  /** Changes, takes the change in here, and waits until the other nodes have done so. Answers those that did not confirm it. */
  async function change(caller: Caller, work: SchemaWork): Promise<readonly string[]> {
    const { changed, waits } = await changeSchemas({ database, events }, caller, work);
    // Also when nothing was left to do: another node may have done it, and told this one not yet.
    await loaded.refresh();
    if (changed.length === 0) return [];
    const { failed } = await bus.announce(TOPIC, changed);
    if (waits) onIndexesWaiting?.();
    return failed;
  }

  function live(name: string): CompiledSchema {
    const schema = loaded.get(name);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  }

  /** What is there belongs to a module, also where an operator extends it; what is new will be the operators'. */
  const requireTheirs = (caller: Caller, names: readonly string[]): void =>
    requireAuthority(caller, ...names.flatMap((name) => schemaObject(loaded.get(name))));

  async function apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]> {
    requireAdmin(caller);
    const names = namesIn(request, loaded.nameOf);
    requireTheirs(caller, names);
    const report = unconfirmedReport();
    report(await outside(() => change(caller, { decide: (world) => intentOf(world, request, loaded.nameOf) })));
    return request.kind === 'remove' ? [] : names.map(live);
  }

  const applyOne = async (caller: Caller, request: SchemaRequest): Promise<CompiledSchema> => {
    const [schema] = await apply(caller, request);
    return schema ?? live('');
  };

  return {
    get: loaded.get,
    byId: loaded.byId,
    all: loaded.all,
    onChange: loaded.onChange,
    apply,

    async install(owner, definitions) {
      const outdated = definitions.filter((definition) => {
        const current = loaded.declaration(definition.name);
        return !current || current.ownerModule !== owner || current.checksum !== definitionChecksum(definition);
      });
      if (outdated.length === 0) return;
      const decide = (world: World): Intent => installIntent(world, owner, outdated);
      await outside(() => change(system(`install ${owner}`), { decide, atOnce: true }));
    },
    create: (caller, input) => applyOne(caller, { kind: 'create', input }),
    update: (caller, id, wanted) => applyOne(caller, { kind: 'update', changes: [{ id, change: wanted }] }),
    remove: async (caller, ids, { deleteData }) => void (await apply(caller, { kind: 'remove', ids, deleteData })),
    async plan(caller, request) {
      requireAdmin(caller);
      requireTheirs(caller, namesIn(request, loaded.nameOf));
      const world = worldOf(await loadDeclarations(database));
      return previewOf(database, world, intentOf(world, request, loaded.nameOf));
    },
  };
}
