/** The schema registry: declarations in the database, compiled in memory, the same on every node. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { unconfirmedReport } from '../../../kernel/freshness/freshness.ts';
import type { Health } from '../../../kernel/health.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import { compiledOr, readable, unknownFields } from '../compile/damaged-declaration.ts';
import { type Declaration, loadDeclarations } from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import type { SchemaDefinition } from '../language/definition.ts';
import { isPlainObject } from '../language/option-context.ts';
import { changePlanOf, namesIn, requireAdmin } from '../plan/change-plan.ts';
import { definitionChecksum } from '../plan/declaration-change.ts';
import { requireLinks } from '../plan/made-links.ts';
import { previewOf } from '../plan/preview.ts';
import type { SchemaRequest } from '../plan/schema-request.ts';
import { type ChangePlan, type SchemaSnapshot, schemaSnapshotOf } from '../plan/table-work.ts';
import { createPublicViews } from '../public-view.ts';
import { changeSchemas, type Decide } from './apply-change.ts';
import { installPlan } from './install-plan.ts';
import type { SchemaGuard, SchemaRegistry } from './registry.ts';

/* The declarations as this node has them now, compiled. */

interface LoadedSchemas {
  get(name: string): CompiledSchema | undefined;
  byId(id: string): CompiledSchema | undefined;
  all(): readonly CompiledSchema[];
  leftOut(): readonly CompiledSchema[];
  /** Also one that is left out. */
  known(name: string): CompiledSchema | undefined;
  declaration(name: string): Declaration | undefined;
  /** The same as it can be worked with: parts that cannot be read are empty. */
  readable(declaration: Declaration): Declaration;
  /** Name of a schema by its id. Throws 404. */
  nameOf(id: string): string;
  /** Reads everything anew; listeners have run when it resolves. Calls never overtake each other. */
  refresh(): Promise<void>;
  onChange(listener: (changed: readonly string[]) => void | Promise<void>): () => void;
}

interface Snapshot {
  readonly byName: ReadonlyMap<string, CompiledSchema>;
  /** Also those that are left out. */
  readonly byId: ReadonlyMap<string, CompiledSchema>;
  readonly all: readonly CompiledSchema[];
  /** Declarations that cannot be used, by the names of their schemas: what stands in for them, for operators. */
  readonly leftOut: ReadonlyMap<string, CompiledSchema>;
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** What each compiled schema was made from. */
  readonly keys: ReadonlyMap<string, string>;
}

const nothing: Snapshot = {
  byName: new Map(),
  byId: new Map(),
  all: [],
  leftOut: new Map(),
  declarations: new Map(),
  keys: new Map(),
};

function createLoadedSchemas(
  load: () => Promise<readonly Declaration[]>,
  tell: (loaded: Snapshot, before: Snapshot) => Promise<void>,
): LoadedSchemas {
  let snapshot = nothing;
  let queue: Promise<void> = Promise.resolve();
  const listeners = new Set<(changed: readonly string[]) => void | Promise<void>>();

  async function refreshNow(): Promise<void> {
    const declarations = (await load()).filter(({ removed }) => !removed);
    const previous = snapshot;
    snapshot = await compileAll(declarations, previous);
    await tell(snapshot, previous);
    const names = new Set([...previous.byName.keys(), ...snapshot.byName.keys()]);
    const changed = [...names]
      .filter((name) => previous.byName.get(name) !== snapshot.byName.get(name))
      .sort();
    if (changed.length === 0) return;
    for (const listener of [...listeners]) await listener(changed);
  }

  return {
    get: (name) => snapshot.byName.get(name),
    byId: (id) => snapshot.byId.get(id.toLowerCase()),
    all: () => snapshot.all,
    leftOut: () => [...snapshot.leftOut.values()],
    known: (name) => snapshot.byName.get(name) ?? snapshot.leftOut.get(name),
    readable(declaration) {
      return snapshot.leftOut.has(declaration.name) ? readable(declaration) : declaration;
    },
    declaration: (name) => snapshot.declarations.get(name),
    nameOf(id) {
      const schema = snapshot.byId.get(id.toLowerCase());
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return schema.name;
    },
    refresh() {
      const next = queue.then(refreshNow, refreshNow);
      queue = next.catch(() => {});
      return next;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/**
 * Compiles what is new; a schema that did not change stays the same object, so that caches keyed by it stay valid. What
 * cannot be used is left out: nothing else is hindered by it, and for relations to it, it is not there. In slices, for
 * there may be thousands.
 */
async function compileAll(
  declarations: readonly Declaration[],
  previous: Snapshot,
  without: Snapshot['leftOut'] = new Map(),
): Promise<Snapshot> {
  const usable = declarations.filter(({ name }) => !without.has(name));
  const names = new Set(usable.map(({ name }) => name));
  const exists = (name: string): boolean => names.has(name);
  const leftOut = new Map(without);
  const all: CompiledSchema[] = [];
  const pause = createTimeSlices();
  for (const declaration of usable) {
    await pause();
    const known = keptAs(declaration, previous);
    // Relation lists have no foreign key: whether their target exists has to be looked at by itself.
    const made = known && samePending(known, exists) ? known : compiledOr(declaration, exists);
    if (made.problem === undefined) all.push(made);
    else leftOut.set(made.name, made);
  }
  // Relations to what is left out are looked at anew.
  if (leftOut.size > without.size) return compileAll(declarations, previous, leftOut);
  return {
    byName: new Map(all.map((schema) => [schema.name, schema])),
    byId: new Map([...all, ...leftOut.values()].map((schema) => [schema._id, schema])),
    all: [...all].sort((a, b) => (a.name < b.name ? -1 : 1)),
    leftOut,
    declarations: new Map(declarations.map((declaration) => [declaration.name, declaration])),
    keys: new Map(usable.map((declaration) => [declaration.name, compileKey(declaration)])),
  };
}

const compileKey = ({ id, version, layout }: Declaration): string =>
  `${id}:${version}:${Object.keys(layout.foreignKeys).sort().join()}`;

/** What a declaration that has not changed was compiled to. */
function keptAs(declaration: Declaration, previous: Snapshot): CompiledSchema | undefined {
  const { id, name, version, layout } = declaration;
  const known = previous.byName.get(name);
  if (known?._id !== id || known.__v !== version || !isPlainObject(layout?.foreignKeys))
    return undefined;
  return previous.keys.get(name) === compileKey(declaration) ? known : undefined;
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
  /** Hears of what is stored and cannot be used. */
  readonly health?: Pick<Health, 'leaveOut'>;
  readonly log?: Pick<Logger, 'error'>;
}

const TOPIC = 'schemas.changed';

interface SchemaWork {
  readonly decide: Decide;
  readonly atOnce?: boolean;
}

/** Loads what is declared and keeps it current. The tables of migrations.ts must exist. */
export async function createSchemaRegistry(
  options: SchemaRegistryOptions,
): Promise<SchemaRegistry> {
  const { database, bus, events, onIndexesWaiting } = options;
  const loaded = createLoadedSchemas(() => loadDeclarations(database), tellLeftOut(options));
  await loaded.refresh();
  bus.subscribe(TOPIC, () => loaded.refresh());
  bus.freshness.watch('schemas', loaded.refresh);

  const guards: SchemaGuard[] = [];

  // A change is always a transaction of its own: it must be committed before this node and the others take it in.
  const outside = AsyncLocalStorage.snapshot();

  /** Changes, takes the change in here, and waits until the other nodes have done so. Answers those that did not confirm it. */
  async function change(caller: Caller, work: SchemaWork): Promise<readonly string[]> {
    const parts = { database, events, guards, readable: loaded.readable };
    const { changed, waits } = await changeSchemas(parts, caller, work);
    // Also when nothing was left to do: another node may have done it, and told this one not yet.
    await loaded.refresh();
    if (changed.length === 0) return [];
    const { failed } = await bus.announce(TOPIC, changed);
    if (waits) onIndexesWaiting?.();
    return failed;
  }

  const live = (name: string): CompiledSchema => found(loaded.get(name));

  /** What is there belongs to a module, also where an operator extends it; what is new will be the operators'. */
  const requireAuthorityOver = (caller: Caller, names: readonly string[]): void =>
    requireAuthority(caller, ...names.flatMap((name) => schemaObject(loaded.known(name))));

  const planOf = async (caller: Caller, snapshot: SchemaSnapshot, request: SchemaRequest) =>
    permitted(caller, snapshot, await changePlanOf(snapshot, request, loaded.nameOf));

  async function apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]> {
    requireAdmin(caller);
    const names = namesIn(request, loaded.nameOf);
    requireAuthorityOver(caller, names);
    const report = unconfirmedReport();
    const decide = (snapshot: SchemaSnapshot) => planOf(caller, snapshot, request);
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
      const outdated = definitions.filter((definition) => !isInstalled(loaded, owner, definition));
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
      requireAuthorityOver(caller, namesIn(request, loaded.nameOf));
      const snapshot = schemaSnapshotOf((await loadDeclarations(database)).map(loaded.readable));
      return previewOf(database, snapshot, await planOf(caller, snapshot, request));
    },
  };
}

/** Throws 403. */
function permitted(caller: Caller, snapshot: SchemaSnapshot, plan: ChangePlan): ChangePlan {
  requireLinks(caller, snapshot, plan.drafts);
  return plan;
}

/** Throws 404. */
function found(schema: CompiledSchema | undefined): CompiledSchema {
  if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
  return schema;
}

const offered = ({ get, byId, all, leftOut, onChange }: LoadedSchemas) => ({
  ...{ get, byId, all, leftOut, onChange },
});

/** The fields that mean nothing, of schemas that are not as before. */
async function unknownIn(
  loaded: Snapshot,
  before: Snapshot,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const unknown = new Map<string, readonly string[]>();
  const pause = createTimeSlices();
  for (const name of new Set([...before.byName.keys(), ...loaded.byName.keys()])) {
    await pause();
    if (before.byName.get(name) === loaded.byName.get(name)) continue;
    const declaration = loaded.byName.has(name) ? loaded.declarations.get(name) : undefined;
    unknown.set(name, declaration ? unknownFields(declaration) : []);
  }
  return unknown;
}

/** Says what is left out, once for each state that it is found in. */
function tellLeftOut({ health, log }: SchemaRegistryOptions) {
  const unknown = new Map<string, readonly string[]>();
  return async (loaded: Snapshot, before: Snapshot): Promise<void> => {
    const found = [...loaded.leftOut.values()];
    for (const { name, problem, __v } of found)
      if (before.leftOut.get(name)?.__v !== __v)
        log?.error({ schema: name, problem }, 'A stored schema cannot be used and is left out');
    for (const [name, fields] of await unknownIn(loaded, before)) {
      if (fields.length === 0) unknown.delete(name);
      else {
        unknown.set(name, fields);
        log?.error({ schema: name, fields }, 'Stored fields mean nothing and are left out');
      }
    }
    health?.leaveOut('schemas', [
      ...found.map(({ name, problem = '' }) => ({ name, reason: problem })),
      ...[...unknown].map(([name, fields]) => ({ name, reason: fields.join(', ') })),
    ]);
  };
}

/** True when a module's schema is stored as it defines it now. */
function isInstalled(loaded: LoadedSchemas, owner: string, definition: SchemaDefinition): boolean {
  const current = loaded.get(definition.name) && loaded.declaration(definition.name);
  return current?.ownerModule === owner && current.checksum === definitionChecksum(definition);
}
