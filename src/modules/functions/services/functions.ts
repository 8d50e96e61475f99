/** What operators do with functions: write, change, take back, switch off, keep secrets. */
import { createHash } from 'node:crypto';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { unknownAction } from '../../../kernel/action-uses.ts';
import { type AuthorityObject, requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
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
import type { Bundler } from './bundler.ts';
import { type FunctionStore, writtenBy } from './store.ts';

export interface GivenFunction extends FunctionDefinition {
  readonly functionCode: string;
}

export type FunctionChange = Partial<GivenFunction>;

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
  update(caller: Caller, id: string, change: FunctionChange): Promise<StoredFunction>;
  rollback(caller: Caller, id: string, version: number): Promise<StoredFunction>;
  enable(caller: Caller, id: string, enabled: boolean): Promise<StoredFunction>;
  remove(caller: Caller, ids: readonly string[]): Promise<void>;
  versions(id: string): ReturnType<typeof listVersions>;
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

const moduleObject = (module: string) => ({ kind: 'module', module }) as const;
const mine = moduleObject('functions');

/** What sign-ups, sign-ins and messages belong to. */
const modulesOfOperations: ReadonlyMap<string, string> = new Map([
  ['signUp', 'authentication'],
  ['signIn', 'authentication'],
  ['send', 'communications'],
]);

/**
 * What the code of a function touches by itself: with the rights of the system everything, and what it is called for.
 * A hook before writes acts for whoever writes, and that may be an operator or the platform itself. Whoever writes the
 * function must be allowed to touch all that, or a token for functions alone were one for all.
 */
function touchedBy(
  { schemas }: Pick<FunctionsParts, 'schemas'>,
  { functionType, inputs }: Pick<FunctionDefinition, 'functionType' | 'inputs'>,
): readonly AuthorityObject[] {
  const { rights, trigger, event = '' } = inputs;
  const module = trigger && modulesOfOperations.get(trigger.op);
  const hears = functionType === 'event' || functionType === 'workflow';
  const [source = '', , schema = ''] = hears ? event.split(/[.:]/) : [];
  return [
    mine,
    ...(module === undefined ? [] : [moduleObject(module)]),
    ...schemaObject(schemas.get(trigger?.schema ?? '')),
    ...(source === '' ? [] : [moduleObject(source), ...schemaObject(schemas.get(schema))]),
    ...(source === 'database' && event.includes('*') ? [ofAnySchema] : []),
    ...(rights === 'system' ? [withSystemRights] : []),
    ...(trigger?.schema !== undefined && trigger.when === 'before' ? [beforeWrites] : []),
  ];
}

const everything = (what: string) => ({ kind: 'everything', what }) as const;
const withSystemRights = everything('Code with the rights of the system');
const ofAnySchema = everything('Hearing of records of any schema');
const beforeWrites = everything('A hook before writes, which acts for whoever writes,');

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
    touchedBy: (given) => touchedBy(parts, given),
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
    update: (caller, id, change) =>
      overLatest('This function', async () => {
        requireAuthority(caller, mine, ...touched(id));
        const { functionType, ...before } = get(id);
        requireKind(change, functionType);
        const code = change.functionCode ?? (await codeOf(parts, id, before.version)).code;
        const given = { ...definitionOf(before), ...change, functionType, functionCode: code };
        return write(caller, { id, given, over: before.version });
      }),
    rollback: (caller, id, version) =>
      overLatest('This function', async () => {
        requireAuthority(caller, mine, ...touched(id));
        const { name, functionType, version: over } = get(id);
        const { code, definition } = await codeOf(parts, id, version);
        const { inputs, returns, timeout } = definition;
        const given = { name, functionType, inputs, returns, timeout, functionCode: code };
        return write(caller, { id, given, over });
      }),
    async enable(caller, id, enabled) {
      requireAuthority(caller, mine, ...touched(id));
      await store.enable(caller, id, enabled);
      return get(id);
    },
    async remove(caller, ids) {
      // A hook that refuses guards what it is asked about.
      requireAuthority(caller, mine, ...ids.flatMap(touched));
      await store.remove(caller, ids);
    },
    async versions(id) {
      get(id);
      return listVersions(database, id);
    },
    secrets: createSecrets(parts, get),
  };
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
    requireAuthority(caller, ...touchedBy(parts, given));
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
      requireAuthority(caller, mine, ...touchedBy(parts, get(id)));
      await putSecret(database, { id, key, sealed: secrets.seal(value, contextOf(id, key)) });
    },
    async remove(caller, id, key) {
      requireAuthority(caller, mine);
      get(id);
      if (!(await deleteSecret(database, id, key)))
        throw functionErrors.FUNCTION_SECRET_NOT_FOUND();
    },
    async read(id, key) {
      const sealed = isId(id) ? await secretOf(database, id, key) : undefined;
      return sealed === undefined ? undefined : secrets.open(sealed, contextOf(id, key));
    },
  };
}
