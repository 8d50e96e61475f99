/** The schema registry: declarations in the database, compiled in memory, the same on every node. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { unconfirmedReport } from '../../../kernel/freshness/freshness.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import { compileDeclaration, type Declaration, loadDeclarations } from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import type { SchemaDefinition } from '../language/definition.ts';
import { changePlanOf, namesIn, requireAdmin } from '../plan/change-plan.ts';
import { definitionChecksum } from '../plan/declaration-change.ts';
import { previewOf } from '../plan/preview.ts';
import type { SchemaRequest } from '../plan/schema-request.ts';
import { type ChangePlan, type SchemaSnapshot, schemaSnapshotOf } from '../plan/table-work.ts';
import { createPublicViews } from '../public-view.ts';
import { changeSchemas } from './apply-change.ts';
import { installPlan } from './install-plan.ts';
import type { SchemaGuard, SchemaRegistry } from './registry.ts';

/* The declarations as this node has them now, compiled. */

interface LoadedSchemas {
  get(name: string): CompiledSchema | undefined;
  byId(id: string): CompiledSchema | undefined;
  all(): readonly CompiledSchema[];
  declaration(name: string): Declaration | undefined;
  /** Name of a schema by its id. Throws 404. */
  nameOf(id: string): string;
  /** Reads everything anew; listeners have run when it resolves. Calls never overtake each other. */
  refresh(): Promise<void>;
  onChange(listener: (changed: readonly string[]) => void | Promise<void>): void;
}

interface Snapshot {
  readonly byName: ReadonlyMap<string, CompiledSchema>;
  readonly byId: ReadonlyMap<string, CompiledSchema>;
  readonly all: readonly CompiledSchema[];
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** What each compiled schema was made from. */
  readonly keys: ReadonlyMap<string, string>;
}

const nothing: Snapshot = {
  byName: new Map(),
  byId: new Map(),
  all: [],
  declarations: new Map(),
  keys: new Map(),
};

function createLoadedSchemas(load: () => Promise<readonly Declaration[]>): LoadedSchemas {
  let snapshot = nothing;
  let queue: Promise<void> = Promise.resolve();
  const listeners: ((changed: readonly string[]) => void | Promise<void>)[] = [];

  async function refreshNow(): Promise<void> {
    const declarations = (await load()).filter(({ removed }) => !removed);
    const previous = snapshot;
    snapshot = compileAll(declarations, previous);
    const names = new Set([...previous.byName.keys(), ...snapshot.byName.keys()]);
    const changed = [...names]
      .filter((name) => previous.byName.get(name) !== snapshot.byName.get(name))
      .sort();
    if (changed.length === 0) return;
    for (const listener of listeners) await listener(changed);
  }

  return {
    get: (name) => snapshot.byName.get(name),
    byId: (id) => snapshot.byId.get(id),
    all: () => snapshot.all,
    declaration: (name) => snapshot.declarations.get(name),
    nameOf(id) {
      const schema = snapshot.byId.get(id);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return schema.name;
    },
    refresh() {
      const next = queue.then(refreshNow, refreshNow);
      queue = next.catch(() => {});
      return next;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

/** Compiles what is new; a schema that did not change stays the same object, so that caches keyed by it stay valid. */
function compileAll(declarations: readonly Declaration[], previous: Snapshot): Snapshot {
  const names = new Set(declarations.map(({ name }) => name));
  const exists = (name: string): boolean => names.has(name);
  const keys = new Map<string, string>();
  const all = declarations.map((declaration) => {
    const links = Object.keys(declaration.layout.foreignKeys).sort().join();
    const key = `${declaration.id}:${declaration.version}:${links}`;
    keys.set(declaration.name, key);
    const known = previous.byName.get(declaration.name);
    // Relation lists have no foreign key: whether their target exists has to be looked at by itself.
    const unchanged =
      known && previous.keys.get(declaration.name) === key && samePending(known, exists);
    return unchanged ? known : compileDeclaration(declaration, exists);
  });
  return {
    byName: new Map(all.map((schema) => [schema.name, schema])),
    byId: new Map(all.map((schema) => [schema._id, schema])),
    all: [...all].sort((a, b) => (a.name < b.name ? -1 : 1)),
    declarations: new Map(declarations.map((declaration) => [declaration.name, declaration])),
    keys,
  };
}

function samePending(schema: CompiledSchema, exists: (name: string) => boolean): boolean {
  const pending = new Set(schema.pendingRelations);
  return [...schema.relations.values()].every(({ model }) => exists(model) !== pending.has(model));
}

interface SchemaRegistryOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly events: Events;
  /** Told when indexes are left to be made (index-builds.ts). */
  readonly onIndexesWaiting?: () => void;
}

const TOPIC = 'schemas.changed';

interface SchemaWork {
  readonly decide: (snapshot: SchemaSnapshot) => ChangePlan;
  readonly atOnce?: boolean;
}

/** Loads what is declared and keeps it current. The tables of migrations.ts must exist. */
export async function createSchemaRegistry(
  options: SchemaRegistryOptions,
): Promise<SchemaRegistry> {
  const { database, bus, events, onIndexesWaiting } = options;
  const loaded = createLoadedSchemas(() => loadDeclarations(database));
  await loaded.refresh();
  bus.subscribe(TOPIC, () => loaded.refresh());
  bus.freshness.watch('schemas', loaded.refresh);

  const guards: SchemaGuard[] = [];

  // A change is always a transaction of its own: it must be committed before this node and the others take it in.
  const outside = AsyncLocalStorage.snapshot();

  /** Changes, takes the change in here, and waits until the other nodes have done so. Answers those that did not confirm it. */
  async function change(caller: Caller, work: SchemaWork): Promise<readonly string[]> {
    const { changed, waits } = await changeSchemas({ database, events, guards }, caller, work);
    // Also when nothing was left to do: another node may have done it, and told this one not yet.
    await loaded.refresh();
    if (changed.length === 0) return [];
    const { failed } = await bus.announce(TOPIC, changed);
    if (waits) onIndexesWaiting?.();
    return failed;
  }

  const live = (name: string): CompiledSchema => found(loaded.get(name));

  /** What is there belongs to a module, also where an operator extends it; what is new will be the operators'. */
  const requireTheirs = (caller: Caller, names: readonly string[]): void =>
    requireAuthority(caller, ...names.flatMap((name) => schemaObject(loaded.get(name))));

  async function apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]> {
    requireAdmin(caller);
    const names = namesIn(request, loaded.nameOf);
    requireTheirs(caller, names);
    const report = unconfirmedReport();
    const decide = (snapshot: SchemaSnapshot) => changePlanOf(snapshot, request, loaded.nameOf);
    report(await outside(() => change(caller, { decide })));
    return request.kind === 'remove' ? [] : names.map(live);
  }

  const applyOne = async (caller: Caller, request: SchemaRequest): Promise<CompiledSchema> =>
    found((await apply(caller, request))[0]);

  return {
    ...offered(loaded),
    publicViews: createPublicViews(),
    guard: (guard) => void guards.push(guard),
    apply,

    async install(owner, definitions) {
      const outdated = definitions.filter(
        (definition) => !isInstalled(loaded.declaration(definition.name), owner, definition),
      );
      if (outdated.length === 0) return;
      const decide = (snapshot: SchemaSnapshot) => installPlan(snapshot, owner, outdated);
      await outside(() => change(system(`install ${owner}`), { decide, atOnce: true }));
    },
    create: (caller, input) => applyOne(caller, { kind: 'create', input }),
    update: (caller, id, requested) =>
      applyOne(caller, { kind: 'update', changes: [{ id, change: requested }] }),
    remove: async (caller, ids, { deleteData }) =>
      void (await apply(caller, { kind: 'remove', ids, deleteData })),
    async plan(caller, request) {
      requireAdmin(caller);
      requireTheirs(caller, namesIn(request, loaded.nameOf));
      const snapshot = schemaSnapshotOf(await loadDeclarations(database));
      return previewOf(database, snapshot, changePlanOf(snapshot, request, loaded.nameOf));
    },
  };
}

/** Throws 404. */
function found(schema: CompiledSchema | undefined): CompiledSchema {
  if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
  return schema;
}

const offered = ({ get, byId, all, onChange }: LoadedSchemas) => ({ get, byId, all, onChange });

/** True when a module's schema is stored as it defines it now. */
const isInstalled = (
  current: Declaration | undefined,
  owner: string,
  definition: SchemaDefinition,
): boolean => current?.ownerModule === owner && current.checksum === definitionChecksum(definition);
