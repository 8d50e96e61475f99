/**
 * Resource definitions: stored by name with versions (spec/authorization.md 5.3).
 * What would break other definitions or stored tuples is refused, with examples,
 * unless the caller insists.
 */

import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { ActionUses } from '../../../../kernel/action-uses.ts';
import { requireAuthority } from '../../../../kernel/authority.ts';
import { type Caller, callerKey } from '../../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../../kernel/database/database.ts';
import { relocated } from '../../../../kernel/errors.ts';
import type { Events } from '../../../../kernel/events/events.ts';
import { isId } from '../../../../kernel/ids.ts';
import type { ObjectDirectory } from '../../../../kernel/pipeline/input-authority.ts';
import { authorizationErrors } from '../../errors.ts';
import { buildModel } from '../../model/model.ts';
import { deleteTuplesOfType } from '../../tuple-removals.ts';
import { clearMatching } from '../owners-in-records.ts';
import { builtInNames } from './built-in.ts';
import {
  checkDefinitions,
  type DefinitionsChange,
  neededByRecords,
  parsed,
  removeInvalidTuples,
  requireUnbroken,
  requireUsed,
  type Stored,
  withContents,
} from './change-check.ts';
import type { ChangeWarning } from './change-warnings.ts';
import type { Models } from './models.ts';
import {
  type DefinitionChange,
  type DefinitionOutcome,
  type DefinitionStatus,
  putDefinition,
  warningsOf,
} from './put-definition.ts';
import { type DefinitionVersion, dropDefinition, listVersions } from './queries.ts';
import { needsBinding, requireSoundRules, withFields } from './record-fields.ts';
import {
  type DefinitionContent,
  type NewDefinition,
  parsedDefinition,
  type StoredDefinition,
  sameContent,
} from './stored-definition.ts';

export interface Definitions {
  /** Throws 404. */
  get(idOrName: string): Promise<StoredDefinition>;
  all(): Promise<readonly StoredDefinition[]>;
  /** Defines a type, or changes it by a higher version. Throws 400, and 409 for what would break. */
  define(
    caller: Caller,
    definition: NewDefinition,
    options?: ForceOption,
  ): Promise<DefinitionOutcome>;
  /** Changes a type; without a version, the next one is taken. Throws 404 too. */
  change(
    caller: Caller,
    idOrName: string,
    definition: Omit<NewDefinition, 'name'>,
    options?: ForceOption,
  ): Promise<DefinitionOutcome>;
  /** Defines types, and changes those that are there, all at once: they may need one another; with `mayCome`, fields that are not there yet. Throws like `define`. */
  defineAll(
    caller: Caller,
    definitions: readonly DefinitionContent[],
    options?: { readonly mayCome?: boolean },
  ): Promise<void>;
  /** Takes in the fields of these schemas that definitions were waiting for. */
  bindAgain(caller: Caller, names: readonly string[]): Promise<void>;
  /** Throws what `defineAll` throws, with `place(name)` before the paths. Changes nothing. */
  checkAll(change: DefinitionsChange, place: (name: string) => string): Promise<void>;
  /** What changes to these would do to people, by name; what is new does nothing to anybody; slips in rules. Changes nothing. */
  warnings(
    contents: readonly DefinitionContent[],
  ): Promise<ReadonlyMap<string, readonly ChangeWarning[]>>;
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
  /** Schemas as they are now: what relations from fields are. */
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  /** What asks its callers for actions. */
  readonly uses: ActionUses;
  /** Runs after changes (`FieldTracking.follow`): which fields are followed hangs on the definitions. */
  readonly follow: () => Promise<void>;
}

type Work<T> = (
  transaction: Transaction,
  stored: Stored,
  about: (name: string) => void,
) => Promise<T>;

/** Makes what changes types, whose names the work tells before it writes. */
function createChange({
  database,
  events,
  models,
  objects,
  follow,
}: Pick<Dependencies, 'database' | 'events' | 'models' | 'objects' | 'follow'>) {
  /**
   * A tuple may have been checked against the definitions of before and written after the change looked. Whoever
   * writes after this node's model is replaced notices it (tuples.ts); what was written until then is found here.
   */
  const sweep = async (caller: Caller, type: string): Promise<void> => {
    const definitions = parsed(await models.definitions());
    const actor = callerKey(caller);
    if ((await removeInvalidTuples({ database, definitions, type, actor })) > 0) events.wake();
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
        await follow();
      },
    );
  };
}

/** Makes `Definitions.bindAgain`. */
function createBinding(
  dependencies: Dependencies,
  change: ReturnType<typeof createChange>,
): Definitions['bindAgain'] {
  const { models, schemas } = dependencies;
  return async (caller, names) => {
    const differs = (stored: StoredDefinition): boolean =>
      names.includes(stored.name) && needsBinding(stored, schemas.get(stored.name));
    if (![...(await models.definitions()).values()].some(differs)) return;
    await change(caller, async (transaction, stored, about) => {
      for (const one of [...stored.values()].filter(differs)) {
        about(one.name);
        const next = { content: one, version: one.version + 1, force: true, mayCome: true };
        await putDefinition(dependencies, { transaction, stored, caller, ...next });
      }
    });
  };
}

export function createDefinitions(dependencies: Dependencies): Definitions {
  const { database, models, hasRecords, schemas, uses } = dependencies;
  const bound = <T extends DefinitionContent>(content: T, mayCome = false): T =>
    withFields(content, schemas.get(content.name), mayCome);
  const change = createChange(dependencies);
  const get = async (idOrName: string): Promise<StoredDefinition> =>
    find(await models.definitions(), idOrName);

  return {
    get,
    all: async () => [...(await models.definitions()).values()],
    ...createChanges(dependencies, change),
    defineAll: (caller, contents, { mayCome = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        const beside = withContents(
          stored,
          contents.map((content) => bound(content, mayCome)),
        );
        for (const content of contents.filter((one) => !isStored(stored, one))) {
          about(content.name);
          const version = (stored.get(content.name)?.version ?? -1) + 1;
          const next = { content, version, force: false, mayCome };
          await putDefinition(dependencies, { transaction, stored, beside, caller, ...next });
        }
      }),
    bindAgain: createBinding(dependencies, change),
    checkAll: async (requested, place) => {
      const defined = requested.defined.map((content) => {
        const mayCome = requested.withSchema.has(content.name);
        try {
          if (!mayCome) requireSoundRules(content, schemas.get(content.name));
          return bound(content, mayCome);
        } catch (error) {
          throw relocated(error, (path) => `${place(content.name)}.${path}`);
        }
      });
      const situation = { database, stored: await models.definitions(), hasRecords, uses };
      return checkDefinitions(situation, { ...requested, defined }, place);
    },
    warnings: async (contents) => {
      const next = contents.map((content) => bound(content, true));
      return warningsOf({ database, schemas }, await models.definitions(), next);
    },
    remove: (caller, idOrName, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        const { name } = find(stored, idOrName);
        about(name);
        return removeDefinition(dependencies, { transaction, stored, caller, name, force });
      }),
    versions: async (idOrName, limit) =>
      versionsOf(database, (await get(idOrName).catch(() => undefined))?.name ?? idOrName, limit),
  };
}

/** One definition, by its version. */
function createChanges(
  dependencies: Dependencies,
  change: ReturnType<typeof createChange>,
): Pick<Definitions, 'define' | 'change'> {
  const { schemas } = dependencies;
  const put = (requested: DefinitionChange): Promise<DefinitionOutcome> =>
    putDefinition(dependencies, requested);
  /** What is not sound is refused also where it would be ignored. */
  const requireSound = (content: DefinitionContent): void =>
    void parsedDefinition(withFields(content, schemas.get(content.name), false));
  return {
    define: (caller, { version, ...content }, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        about(content.name);
        requireSound(content);
        const current = stored.get(content.name);
        if (!current)
          return put({ transaction, stored, caller, content, version: version ?? 0, force });
        if (version === undefined || version < current.version) return ignored(current, content);
        if (version === current.version) return sameVersion(current, content);
        return put({ transaction, stored, caller, content, version, force });
      }),
    change: (caller, idOrName, { version, ...rest }, { force = false } = {}) =>
      change(caller, async (transaction, stored, about) => {
        const current = find(stored, idOrName);
        about(current.name);
        const content = { ...rest, name: current.name };
        requireSound(content);
        if (version !== undefined && version < current.version) return ignored(current, content);
        if (version === current.version) return sameVersion(current, content);
        if (version === undefined && sameContent(current, content))
          return untouched('acknowledged', current);
        const next = version ?? current.version + 1;
        return put({ transaction, stored, caller, content, version: next, force });
      }),
  };
}

/** Deletes a type with its tuples; answers how many those were. Throws 409 for what would break. */
async function removeDefinition(
  { events, hasRecords, uses }: Pick<Dependencies, 'events' | 'hasRecords' | 'uses'>,
  { transaction, stored, caller, name, force }: Removal,
): Promise<number> {
  if (builtInNames.has(name)) throw authorizationErrors.RESOURCE_BUILT_IN();
  if (!force && hasRecords(name)) throw neededByRecords(name);
  const others = parsed(stored).filter((definition) => definition.name !== name);
  if (!force) {
    requireUnbroken(others, parsed(stored), [name]);
    requireUsed(others, parsed(stored), { uses: uses(), place: () => '' });
  }
  await dropDefinition(transaction, name, callerKey(caller));
  await events.emit(transaction, caller, {
    topic: 'authorization:delete:resource',
    payload: { name },
  });
  const actor = callerKey(caller);
  const deleted = await deleteTuplesOfType(transaction, name, actor);
  const model = buildModel(parsed(stored), 0);
  let cleared = 0;
  for (const filter of [{ resourceType: name }, { subjectType: name }])
    cleared += await clearMatching(transaction, model, filter, actor);
  return deleted + cleared;
}

const isStored = (stored: Stored, content: DefinitionContent): boolean => {
  const found = stored.get(content.name);
  return found !== undefined && sameContent(found, content);
};

/** Also of a type that is gone, by its name. */
async function versionsOf(
  database: Database,
  name: string,
  limit: number,
): Promise<readonly DefinitionVersion[]> {
  const versions = await listVersions(database, name, limit);
  if (versions.length === 0) throw authorizationErrors.RESOURCE_NOT_FOUND();
  return versions;
}

type Removal = Pick<DefinitionChange, 'transaction' | 'stored' | 'caller' | 'force'> & {
  readonly name: string;
};

/** By id or by name. */
function find(stored: Stored, idOrName: string): StoredDefinition {
  const found =
    stored.get(idOrName) ??
    (isId(idOrName)
      ? [...stored.values()].find(({ id }) => id === idOrName.toLowerCase())
      : undefined);
  if (!found) throw authorizationErrors.RESOURCE_NOT_FOUND();
  return found;
}

const untouched = (
  status: DefinitionStatus,
  resourceDefinition: StoredDefinition,
): DefinitionOutcome => ({
  status,
  resourceDefinition,
  removedRelations: 0,
  warnings: [],
});

/** Apps that define their types at each start send what is stored, or an old version: a success that says what it did. */
const ignored = (current: StoredDefinition, content: DefinitionContent): DefinitionOutcome => ({
  ...untouched('ignored', current),
  ...(!sameContent(current, content) && {
    message:
      `Nothing was changed: version ${current.version} of ${current.name} is stored. ` +
      `To replace it, send "version": ${current.version + 1}, ` +
      `or PATCH /authorization/resources/${current.name}`,
  }),
});

function sameVersion(current: StoredDefinition, content: DefinitionContent): DefinitionOutcome {
  if (sameContent(current, content)) return untouched('acknowledged', current);
  throw authorizationErrors.RESOURCE_MISMATCH({
    message: `Version ${current.version} of ${current.name} is stored with another content: send "version": ${current.version + 1}, or PATCH /authorization/resources/${current.name}`,
  });
}
