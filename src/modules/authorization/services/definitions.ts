/**
 * Resource definitions: stored by name with versions (spec/authorization.md 5.3).
 * What would break other definitions or stored tuples is refused, with examples,
 * unless the caller insists.
 */
import type { ObjectDirectory } from '../../../kernel/authority/about.ts';
import { requireAuthority } from '../../../kernel/authority/authority.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { type DefinitionVersion, dropDefinition, listVersions, saveDefinition } from '../definition-queries.ts';
import { authorizationErrors } from '../errors.ts';
import { checkAgainst } from '../model/check.ts';
import { type Definition, invalidDefinition } from '../model/definition.ts';
import { deleteTuplesOfType } from '../queries.ts';
import { builtInNames } from './built-in.ts';
import {
  checkDefinitions,
  type DefinitionsChange,
  neededByRecords,
  parsed,
  requireUnbroken,
  type Stored,
  withContents,
} from './definition-check.ts';
import { removeMisfits, requireNoMisfits } from './live-tuples.ts';
import { type DefinitionContent, type Models, parsedDefinition, type StoredDefinition, sameContent } from './models.ts';
import { servesRecords } from './record-type.ts';

/** `processed`: in force now. `acknowledged`: it was in force already. `ignored`: an older or unversioned one. */
export type DefinitionStatus = 'processed' | 'acknowledged' | 'ignored';

export interface DefinitionOutcome {
  readonly status: DefinitionStatus;
  readonly resourceDefinition: StoredDefinition;
  /** Tuples that were deleted because they do not fit any more; only with `force`. */
  readonly removedRelations: number;
}

export interface NewDefinition extends DefinitionContent {
  readonly version?: number | undefined;
}

export interface Definitions {
  /** Throws 404. */
  get(idOrName: string): Promise<StoredDefinition>;
  all(): Promise<readonly StoredDefinition[]>;
  /** Defines a type, or changes it by a higher version. Throws 400, and 409 for what would break. */
  define(caller: Caller, definition: NewDefinition, options?: ForceOption): Promise<DefinitionOutcome>;
  /** Changes a type; without a version, the next one is taken. Throws 404 too. */
  change(caller: Caller, idOrName: string, definition: Omit<NewDefinition, 'name'>, options?: ForceOption): Promise<DefinitionOutcome>;
  /** Defines types, and changes those that are there, all at once: they may need one another. Throws like `define`. */
  defineAll(caller: Caller, definitions: readonly DefinitionContent[]): Promise<void>;
  /** Throws what `defineAll` throws, with `place(name)` before the paths. Changes nothing. */
  checkAll(change: DefinitionsChange, place: (name: string) => string): Promise<void>;
  /** Deletes a type with all its tuples; answers how many. */
  remove(caller: Caller, idOrName: string, options?: ForceOption): Promise<number>;
  versions(idOrName: string, limit: number): Promise<readonly DefinitionVersion[]>;
}

export interface ForceOption {
  readonly force?: boolean | undefined;
}

interface Dependencies {
  readonly database: Database;
  readonly events: Events;
  readonly models: Models;
  /** True for a schema whose records are a matter of permission. */
  readonly hasRecords: (name: string) => boolean;
  /** Whose a type is. */
  readonly objects: Pick<ObjectDirectory, 'type'>;
}

type Work<T> = (transaction: Transaction, stored: Stored, about: (name: string) => void) => Promise<T>;

/** Makes what changes types, whose names the work tells before it writes. */
function createChange({ database, events, models, objects }: Pick<Dependencies, 'database' | 'events' | 'models' | 'objects'>) {
  /**
   * A tuple may have been checked against the definitions of before and written after the change looked. Whoever
   * writes after this node's model is replaced notices it (tuples.ts); what was written until then is found here.
   */
  const sweep = async (caller: Caller, type: string): Promise<void> => {
    const definitions = parsed(await models.definitions());
    if ((await removeMisfits({ database, definitions, type, actor: callerKey(caller) })) > 0) events.wake();
  };
  return <T>(caller: Caller, work: Work<T>): Promise<T> => {
    const types = new Set<string>();
    return models.change(
      (transaction, stored) =>
        work(transaction, stored, (name) => {
          const object = objects.type(name);
          if (object) requireAuthority(caller, object);
          types.add(name);
        }),
      async () => {
        for (const type of types) await sweep(caller, type);
      },
    );
  };
}

export function createDefinitions({ database, events, models, hasRecords, objects }: Dependencies): Definitions {
  async function put(change: Change): Promise<DefinitionOutcome> {
    const { transaction, stored, beside = stored, caller, content, version } = change;
    const definition = parsedDefinition(content);
    const others = parsed(beside).filter(({ name }) => name !== content.name);
    const problems = checkAgainst(definition, others);
    if (problems.length > 0) throw invalidDefinition(problems);
    if (!change.force && hasRecords(content.name) && !servesRecords(definition)) throw neededByRecords(content.name);
    const before = stored.get(content.name);
    const removedRelations = before ? await settleLiveTuples(change, [...others, definition], parsed(stored)) : 0;
    const id = before?.id ?? newId();
    await saveDefinition(transaction, { ...content, id, version }, callerKey(caller));
    const payload = { name: content.name, version };
    await events.emit(transaction, caller, { topic: `authorization:${before ? 'update' : 'create'}:resource`, payload });
    const now = new Date().toISOString();
    const resourceDefinition = { ...content, id, version, createdAt: before?.createdAt ?? now, updatedAt: now };
    return { status: 'processed', resourceDefinition, removedRelations };
  }

  const change = createChange({ database, events, models, objects });
  const get = async (idOrName: string): Promise<StoredDefinition> => find(await models.definitions(), idOrName);

  return {
    get,
    all: async () => [...(await models.definitions()).values()],
    define: (caller, { version, ...content }, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        about(content.name);
        // What is not sound is refused also where it would be ignored.
        parsedDefinition(content);
        const current = stored.get(content.name);
        if (!current) return put({ transaction, stored, caller, content, version: version ?? 0, force });
        if (version === undefined || version < current.version) return untouched('ignored', current);
        if (version === current.version) return sameVersion(current, content);
        return put({ transaction, stored, caller, content, version, force });
      }),
    change: (caller, idOrName, { version, ...rest }, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        const current = find(stored, idOrName);
        about(current.name);
        const content = { ...rest, name: current.name };
        parsedDefinition(content);
        if (version !== undefined && version < current.version) return untouched('ignored', current);
        if (version === current.version) return sameVersion(current, content);
        if (version === undefined && sameContent(current, content)) return untouched('acknowledged', current);
        return put({ transaction, stored, caller, content, version: version ?? current.version + 1, force });
      }),
    defineAll: (caller, contents) =>
      change(caller, async (transaction, stored, about) => {
        const beside = withContents(stored, contents);
        for (const content of contents.filter((one) => !isStored(stored, one))) {
          about(content.name);
          const version = (stored.get(content.name)?.version ?? -1) + 1;
          await put({ transaction, stored, beside, caller, content, version, force: false });
        }
      }),
    checkAll: async (wanted, place) => checkDefinitions({ database, stored: await models.definitions(), hasRecords }, wanted, place),
    remove: (caller, idOrName, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        const { name } = find(stored, idOrName);
        about(name);
        if (builtInNames.has(name)) throw authorizationErrors.RESOURCE_BUILT_IN();
        if (!force && hasRecords(name)) throw neededByRecords(name);
        const others = parsed(stored).filter((definition) => definition.name !== name);
        if (!force) requireUnbroken(others, parsed(stored), [name]);
        await dropDefinition(transaction, name, callerKey(caller));
        await events.emit(transaction, caller, { topic: 'authorization:delete:resource', payload: { name } });
        return deleteTuplesOfType(transaction, name, callerKey(caller));
      }),
    versions: async (idOrName, limit) => versionsOf(database, (await get(idOrName).catch(() => undefined))?.name ?? idOrName, limit),
  };
}

const isStored = (stored: Stored, content: DefinitionContent): boolean => {
  const found = stored.get(content.name);
  return found !== undefined && sameContent(found, content);
};

/** Also of a type that is gone, by its name. */
async function versionsOf(database: Database, name: string, limit: number): Promise<readonly DefinitionVersion[]> {
  const versions = await listVersions(database, name, limit);
  if (versions.length === 0) throw authorizationErrors.RESOURCE_NOT_FOUND();
  return versions;
}

interface Change {
  readonly transaction: Transaction;
  readonly stored: Stored;
  /** What it will stand beside, when others change with it; `stored` unless set. */
  readonly beside?: Stored;
  readonly caller: Caller;
  readonly content: DefinitionContent;
  readonly version: number;
  readonly force: boolean;
}

/** Refuses a change that breaks something, or deletes what would be broken; answers how many tuples that were. */
async function settleLiveTuples(change: Change, next: readonly Definition[], before: readonly Definition[]): Promise<number> {
  const { transaction, caller, content, force } = change;
  const search = { database: transaction, definitions: next, type: content.name, actor: callerKey(caller) };
  if (force) return removeMisfits(search);
  requireUnbroken(next, before, [content.name]);
  await requireNoMisfits(search);
  return 0;
}

/** By id or by name. */
function find(stored: Stored, idOrName: string): StoredDefinition {
  const found = stored.get(idOrName) ?? (isId(idOrName) ? [...stored.values()].find(({ id }) => id === idOrName.toLowerCase()) : undefined);
  if (!found) throw authorizationErrors.RESOURCE_NOT_FOUND();
  return found;
}

const untouched = (status: DefinitionStatus, resourceDefinition: StoredDefinition): DefinitionOutcome => ({
  status,
  resourceDefinition,
  removedRelations: 0,
});

function sameVersion(current: StoredDefinition, content: DefinitionContent): DefinitionOutcome {
  if (sameContent(current, content)) return untouched('acknowledged', current);
  throw authorizationErrors.RESOURCE_DIVERGES({ message: `Version ${current.version} of ${current.name} is stored with another content` });
}
