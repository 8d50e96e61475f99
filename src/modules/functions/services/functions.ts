/** What operators do with functions: write, change, take back, switch off, keep secrets. */
import { createHash } from 'node:crypto';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { unknownAction } from '../../../kernel/action-uses.ts';
import { type AuthorityObject, requireAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { overLatest } from '../../../kernel/over-latest.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import type { FunctionsConfig } from '../config.ts';
import {
  definitionProblems,
  type FunctionDefinition,
  type FunctionInputs,
  type StoredFunction,
} from '../definition/definition.ts';
import type { Pool } from '../engine/pool.ts';
import type { CheckedFacts } from '../engine/protocol.ts';
import { SandboxUnavailable } from '../engine/sandbox-process.ts';
import { functionErrors, refuseFunction } from '../errors.ts';
import {
  deleteSecret,
  insertFunction,
  lastVersion,
  listVersions,
  lockFunction,
  putSecret,
  secretKeys,
  secretOf,
  updateFunction,
  versionOf,
} from '../queries/functions.ts';
import { mine, touchedBy, writtenWith } from './authority.ts';
import type { Bundler } from './bundler.ts';
import { type FunctionStore, writtenBy } from './store.ts';

export interface GivenFunction extends FunctionDefinition {
  readonly functionCode: string;
}

export type FunctionChange = Partial<GivenFunction>;

/** The version that the author of a change has seen. Another one stored is PRECONDITION_FAILED (412). */
export interface SeenVersion {
  readonly expectedVersion?: number;
}

export interface Functions {
  readonly store: FunctionStore;
  /** Throws FUNCTION_NOT_FOUND. */
  get(id: string): StoredFunction;
  /** What whoever stores, changes or deletes such a function must be allowed to touch. */
  touchedBy(given: GivenFunction): readonly AuthorityObject[];
  /** Throws what `create` would throw because of the function itself. Stores nothing. */
  examine(given: GivenFunction): Promise<void>;
  /** Throws FUNCTION_INVALID where an action is asked for that its resource definition does not have now. */
  requireKnownAction(inputs: FunctionInputs): Promise<void>;
  create(caller: Caller, given: GivenFunction): Promise<StoredFunction>;
  update(
    caller: Caller,
    id: string,
    change: FunctionChange,
    seen?: SeenVersion,
  ): Promise<StoredFunction>;
  rollback(caller: Caller, id: string, version: number): Promise<StoredFunction>;
  enable(caller: Caller, id: string, enabled: boolean): Promise<StoredFunction>;
  remove(caller: Caller, ids: readonly string[], seen?: SeenVersion): Promise<void>;
  versions(id: string): ReturnType<typeof listVersions>;
  /**
   * Before an operator hands a function whatever they like: with the rights of the system it does with that what its
   * author may. Throws 403, FUNCTION_NOT_FOUND, FUNCTION_VERSION_NOT_FOUND.
   */
  requireReach(caller: Caller, id: string, version?: number): Promise<void>;
  readonly secrets: FunctionSecrets;
}

export interface FunctionSecrets {
  keys(id: string): ReturnType<typeof secretKeys>;
  put(caller: Caller, id: string, key: string, value: string): Promise<void>;
  remove(caller: Caller, id: string, key: string): Promise<void>;
  /** In clear, for the platform itself; nothing when there is none. */
  read(id: string, key: string): Promise<string | undefined>;
}

export interface FunctionsParts {
  readonly store: FunctionStore;
  readonly database: Database;
  readonly secrets: SecretBox;
  readonly pool: Pool;
  readonly bundler: Bundler;
  readonly config: () => FunctionsConfig;
  readonly permissions: Pick<PermissionPort, 'engine'>;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  /** What the owners of further kinds find wrong with a definition (schedules, hooks). */
  readonly check: (
    definition: FunctionDefinition,
  ) => readonly Parameters<typeof refuseFunction>[0][number][];
}

/** Name of the file in stacks. */
export const fileOf = (name: string, language: CheckedFacts['language']): string =>
  `${name}.${language === 'typescript' ? 'ts' : 'js'}`;

export function createFunctions(parts: FunctionsParts): Functions {
  const { store, database } = parts;
  const get = (id: string): StoredFunction => {
    const found = store.byId(id);
    if (!found) throw functionErrors.FUNCTION_NOT_FOUND();
    return found;
  };
  const write = createWriter(parts, get);
  const touched = (id: string) => touchedBy(parts, get(id));
  return {
    store,
    get,
    touchedBy: (given) => writtenWith(parts, given),
    examine: async (given) => void (await prepare(parts, given)),
    async requireKnownAction({ requires }) {
      const { engine } = parts.permissions;
      if (!requires || !engine || (await engine.knows(requires.schema, requires.action))) return;
      const path = 'inputs.requires.action';
      refuseFunction([{ path, rule: 'action', message: unknownAction(requires) }]);
    },
    async create(caller, given) {
      requireAuthority(caller, mine);
      const id = newId();
      await write(caller, { id, given });
      return get(id);
    },
    update: (caller, given, change, seen) =>
      overLatest('This function', async () => {
        requireAuthority(caller, mine, ...touched(given));
        const { _id: id, functionType, ...before } = get(given);
        requireSeen(before.version, seen);
        requireKind(change, functionType);
        const code = change.functionCode ?? (await codeOf(parts, id, before.version)).code;
        const after = { ...definitionOf(before), ...change, functionType, functionCode: code };
        return write(caller, { id, given: after, over: before.version });
      }),
    rollback: (caller, given, version) =>
      overLatest('This function', async () => {
        requireAuthority(caller, mine, ...touched(given));
        const { _id: id, name, functionType, version: over } = get(given);
        const { code, definition } = await codeOf(parts, id, version);
        const { inputs, returns, timeout } = definition;
        const before = { name, functionType, inputs, returns, timeout, functionCode: code };
        return write(caller, { id, given: before, over });
      }),
    async enable(caller, id, enabled) {
      requireAuthority(caller, mine, ...touched(id));
      await store.enable(caller, id, enabled);
      return get(id);
    },
    async remove(caller, ids, seen) {
      // A hook that refuses guards what it is asked about.
      requireAuthority(caller, mine, ...ids.flatMap(touched));
      await store.remove(caller, ids, (all) => requireAllSeen(all, ids, seen));
    },
    versions: async (id) => listVersions(database, get(id)._id),
    requireReach: (caller, id, version) => requireReach(parts, caller, get(id), version),
    secrets: createSecrets(parts, get),
  };
}

async function requireReach(
  parts: FunctionsParts,
  caller: Caller,
  latest: StoredFunction,
  version = latest.version,
): Promise<void> {
  const { _id, functionType } = latest;
  const { inputs } =
    version === latest.version ? latest : (await codeOf(parts, _id, version)).definition;
  if (inputs.rights === 'system')
    requireAuthority(caller, ...touchedBy(parts, { functionType, inputs }));
}

/** Throws PRECONDITION_FAILED. What is not there any more is told by whoever changes it. */
function requireSeen(stored: number | undefined, { expectedVersion }: SeenVersion = {}): void {
  if (stored === undefined || expectedVersion === undefined || stored === expectedVersion) return;
  throw errors.PRECONDITION_FAILED({
    message: `This function has version ${stored} now, not ${expectedVersion}: read it again`,
  });
}

async function requireAllSeen(
  transaction: Transaction,
  ids: readonly string[],
  seen: SeenVersion = {},
): Promise<void> {
  if (seen.expectedVersion === undefined) return;
  for (const id of ids) requireSeen(await lockFunction(transaction, id), seen);
}

/** What a change may change, beside the code. */
const definitionOf = ({
  name,
  inputs,
  returns,
  timeout,
}: Omit<FunctionDefinition, 'functionType'>) => ({
  ...{ name, inputs, returns, timeout },
});

/** Throws FUNCTION_INVALID. */
function requireKind({ functionType: requested }: FunctionChange, kind: string): void {
  if (requested === undefined || requested === kind) return;
  const message = `stays ${kind}: store a function of another name`;
  refuseFunction([{ path: 'functionType', rule: 'fixed', message }]);
}

async function codeOf({ database }: FunctionsParts, id: string, version: number) {
  const found = await versionOf(database, id, version);
  if (!found) throw functionErrors.FUNCTION_VERSION_NOT_FOUND();
  return found;
}

interface Writing {
  readonly id: string;
  readonly given: GivenFunction;
  /** The version that it changes; none for a new function. */
  readonly over?: number;
}

/** Examines a function and stores it as a new version. Nothing where it was changed meanwhile: this node knows the latest then. */
function createWriter(parts: FunctionsParts, get: Functions['get']) {
  return async (
    caller: Caller,
    { id, given, over }: Writing,
  ): Promise<StoredFunction | undefined> => {
    const { functionCode, ...definition } = given;
    requireAuthority(caller, ...writtenWith(parts, given));
    const prepared = await prepare(parts, given);
    const checksum = createHash('sha256')
      .update(JSON.stringify([definition, functionCode, prepared.packages]))
      .digest('hex');
    if (over !== undefined && get(id).checksum === checksum) return get(id);
    let isLatest = true;
    await parts.store.change(caller, async (transaction) => {
      if (over !== undefined && (await lockFunction(transaction, id)) === undefined)
        throw functionErrors.FUNCTION_NOT_FOUND();
      isLatest = over === undefined || (await lastVersion(transaction, id)) === over;
      if (!isLatest) return;
      const version = (over ?? 0) + 1;
      const store = over === undefined ? insertFunction : updateFunction;
      const by = writtenBy(caller);
      const code = functionCode;
      await store(transaction, { ...prepared, id, version, definition, code, checksum, by });
    });
    return isLatest ? get(id) : undefined;
  };
}

/** Throws FUNCTION_INVALID and FUNCTION_CODE_INVALID, with the place, and FUNCTION_BUSY. */
async function prepare(
  { pool, bundler, config, check }: FunctionsParts,
  { functionCode, ...definition }: GivenFunction,
) {
  refuseFunction([...definitionProblems(definition), ...check(definition)]);
  const { maxCodeBytes } = config().limits;
  if (Buffer.byteLength(functionCode) > maxCodeBytes)
    throw invalid('functionCode', 'maxLength', `is longer than ${maxCodeBytes} bytes`);
  const file = fileOf(definition.name, 'javascript');
  const { text, ...facts } = await pool.check(functionCode, file).catch((error: unknown) => {
    if (!(error instanceof SandboxUnavailable)) throw error;
    throw functionErrors.FUNCTION_BUSY({
      ...{ message: `${error.message}: try again shortly`, retryAfter: 1, cause: error },
    });
  });
  if (facts.error) throw codeProblem(facts.error);
  const packages = await bundler.bundle({ names: facts.packages, form: facts.form, code: text });
  const { form, language } = facts;
  return { facts: { form, language }, running: text, packages };
}

function codeProblem({ message, line, column }: NonNullable<CheckedFacts['error']>): Error {
  const place = line === undefined ? '' : `line ${line}, column ${column}: `;
  return functionErrors.FUNCTION_CODE_INVALID({
    errors: [{ path: 'functionCode', rule: 'syntax', message: `${place}${message}` }],
  });
}

/** What a sealed secret is bound to. */
const contextOf = (id: string, key: string): string => `functions/${id}/${key}`;

function createSecrets(parts: FunctionsParts, get: Functions['get']): FunctionSecrets {
  const { database, secrets } = parts;
  return {
    async keys(id) {
      get(id);
      return secretKeys(database, id);
    },
    async put(caller, id, key, value) {
      const one = get(id);
      requireAuthority(caller, mine, ...touchedBy(parts, one));
      const sealed = secrets.seal(value, contextOf(one._id, key));
      await putSecret(database, { id: one._id, key, sealed });
    },
    async remove(caller, id, key) {
      requireAuthority(caller, mine, ...touchedBy(parts, get(id)));
      if (!(await deleteSecret(database, id, key)))
        throw functionErrors.FUNCTION_SECRET_NOT_FOUND();
    },
    async read(id, key) {
      const sealed = isId(id) ? await secretOf(database, id, key) : undefined;
      return sealed === undefined ? undefined : secrets.open(sealed, contextOf(id, key));
    },
  };
}
