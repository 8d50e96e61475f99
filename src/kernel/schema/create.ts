/** The schema registry: declarations in the database, compiled in memory, the same on every node. */
import { AsyncLocalStorage } from 'node:async_hooks';

import { type Caller, system } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { errors } from '../errors.ts';
import type { Bus } from '../events/bus.ts';
import type { Events } from '../events/events.ts';
import { isSuperAdmin } from '../identity.ts';
import type { Logger } from '../telemetry/logger.ts';
import { changeSchemas, type Intent, orderedSteps, type World, workOf, worldOf } from './change.ts';
import type { CompiledSchema } from './compiled.ts';
import { loadDeclarations } from './declaration.ts';
import type { SchemaDefinition } from './definition.ts';
import { adminOwner, definitionChecksum, draftOf, removedDraft, type Wanted } from './draft.ts';
import { invalidSchema, schemaErrors } from './errors.ts';
import { createLoadedSchemas } from './loaded.ts';
import type { SchemaPlan } from './plan.ts';
import type { NewSchema, SchemaChange, SchemaRegistry } from './registry.ts';

export interface SchemaRegistryOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly events: Events;
  readonly log: Logger;
}

const TOPIC = 'schemas.changed';

/** Loads what is declared and keeps it current. The tables of migrations.ts must exist. */
export async function createSchemaRegistry({ database, bus, events, log }: SchemaRegistryOptions): Promise<SchemaRegistry> {
  const loaded = createLoadedSchemas(() => loadDeclarations(database));
  await loaded.refresh();
  bus.subscribe(TOPIC, () => loaded.refresh());
  bus.onReconnect(() => {
    loaded.refresh().catch((error: unknown) => log.error({ err: error }, 'The schemas could not be read after a reconnect'));
  });

  // A change is always a transaction of its own: it must be committed before this node and the others take it in.
  const outside = AsyncLocalStorage.snapshot();
  const change = (caller: Caller, decide: (world: World) => Intent): Promise<void> => outside(() => changeNow(caller, decide));

  /** Changes, takes the change in here, and waits until the other nodes have done so. */
  async function changeNow(caller: Caller, decide: (world: World) => Intent): Promise<void> {
    const changed = await changeSchemas({ database, events }, caller, decide);
    if (changed.length === 0) return;
    await loaded.refresh();
    const { failed } = await bus.announce(TOPIC, changed);
    if (failed.length > 0) log.warn({ nodes: failed, schemas: changed }, 'Some nodes did not confirm the new schemas');
  }

  function live(name: string): CompiledSchema {
    const schema = loaded.get(name);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  }

  const changeAll = (caller: Caller, changes: readonly { id: string; change: SchemaChange }[]) => {
    const names = changes.map(({ id }) => loaded.nameOf(id));
    return change(caller, (world) => {
      const drafts = changes.map(({ change: wanted }, i) => updatedDraft(world, names[i] ?? '', wanted));
      return { drafts, destroy: [] };
    }).then(() => names.map(live));
  };

  return {
    get: loaded.get,
    byId: loaded.byId,
    all: loaded.all,
    onChange: loaded.onChange,

    async install(owner, definitions) {
      const outdated = definitions.filter((definition) => {
        const current = loaded.declaration(definition.name);
        return !current || current.ownerModule !== owner || current.checksum !== definitionChecksum(definition);
      });
      if (outdated.length > 0) await change(system(`install ${owner}`), (world) => installIntent(world, owner, outdated));
    },

    async create(caller, input) {
      requireAdmin(caller);
      await change(caller, (world) => ({ drafts: [newDraft(world, input)], destroy: [] }));
      return live(input.name);
    },

    async update(caller, id, wanted) {
      requireAdmin(caller);
      const [schema] = await changeAll(caller, [{ id, change: wanted }]);
      return schema ?? live('');
    },

    async updateMany(caller, changes) {
      requireAdmin(caller);
      return changeAll(caller, changes);
    },

    async import(caller, inputs) {
      requireAdmin(caller);
      refuseTwins(inputs);
      await change(caller, (world) => ({ drafts: inputs.map((input) => importedDraft(world, input)), destroy: [] }));
      return inputs.map(({ name }) => live(name));
    },

    async remove(caller, ids, { deleteData }) {
      requireAdmin(caller);
      const names = [...new Set(ids)].map(loaded.nameOf);
      await change(caller, (world) => {
        const current = names.map((name) => changeable(world, name));
        return deleteData ? { drafts: [], destroy: current.map(({ name }) => name) } : { drafts: current.map(removedDraft), destroy: [] };
      });
    },

    async plan(caller, id, wanted) {
      requireAdmin(caller);
      const world = worldOf(await loadDeclarations(database));
      const name = loaded.nameOf(id);
      return planOf(world, name, { drafts: [updatedDraft(world, name, wanted)], destroy: [] });
    },
  };
}

/** Schemas are changed by admins and by the platform, never on behalf of a user. */
function requireAdmin(caller: Caller): void {
  if (caller.kind !== 'admin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN();
}

/** One import cannot mean two things by one name. */
function refuseTwins(inputs: readonly NewSchema[]): void {
  const seen = new Set<string>();
  const twins = inputs.flatMap(({ name }, index) => {
    const key = name.toLowerCase();
    if (!seen.has(key)) {
      seen.add(key);
      return [];
    }
    return [{ path: `schemas.${index}.name`, rule: 'unique', message: 'this name is there twice' }];
  });
  if (twins.length > 0) throw invalidSchema(twins);
}

/** The live declaration of a schema that admins may change. Throws 404 or 403. */
function changeable(world: World, name: string) {
  const current = world.get(name.toLowerCase());
  if (!current || current.removed) throw schemaErrors.SCHEMA_NOT_FOUND();
  if (current.ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({ message: `${name} belongs to the module ${current.ownerModule}` });
  return current;
}

function newDraft(world: World, input: NewSchema) {
  const current = world.get(input.name.toLowerCase());
  if (current && (!current.removed || current.name !== input.name)) {
    const message = `The name ${current.name} is already in use`;
    throw schemaErrors.SCHEMA_EXISTS({ message, errors: [{ path: 'name', rule: 'unique', message }] });
  }
  return draftOf({ owner: adminOwner, ...input }, current);
}

function updatedDraft(world: World, name: string, wanted: SchemaChange) {
  return draftOf({ name, owner: adminOwner, ...wanted }, changeable(world, name));
}

function importedDraft(world: World, input: NewSchema) {
  const current = world.get(input.name.toLowerCase());
  if (!current || current.removed || current.name !== input.name) return newDraft(world, input);
  return draftOf({ owner: adminOwner, ...input }, changeable(world, input.name));
}

function installIntent(world: World, owner: string, definitions: readonly SchemaDefinition[]): Intent {
  const drafts = definitions.flatMap((definition) => {
    const checksum = definitionChecksum(definition);
    const current = world.get(definition.name.toLowerCase());
    // Another node may have done it while we waited for the lock.
    if (current && !current.removed && current.ownerModule === owner && current.checksum === checksum) return [];
    if (current && !current.removed && current.ownerModule !== owner) {
      throw new Error(`The module ${owner} needs the schema ${definition.name}, which belongs to ${current.ownerModule}`);
    }
    const { conduit, timestamps, indexes } = definition.modelOptions ?? {};
    const wanted: Wanted = {
      name: definition.name,
      owner,
      fields: definition.fields,
      checksum,
      ...(conduit && { options: conduit }),
      ...(timestamps !== undefined && { timestamps }),
      ...(indexes && { indexes }),
    };
    return [draftOf(wanted, current)];
  });
  return { drafts, destroy: [] };
}

function planOf(world: World, schema: string, intent: Intent): SchemaPlan {
  const ordered = orderedSteps(world, workOf(world, intent), intent.destroy);
  const steps = ordered.map(({ statement, summary, lock, destructive }) => ({ statement, summary, lock, destructive }));
  return { schema, steps, destructive: steps.some((step) => step.destructive) };
}
