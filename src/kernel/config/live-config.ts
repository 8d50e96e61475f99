/**
 * The configuration that one module runs with on this node. New versions are
 * applied one after the other; a listener that throws keeps the old one.
 */

import { Compile, type Validator } from 'typebox/compile';
import type { Problem } from '../errors.ts';
import { problemsOf, type ValidatorError } from '../operations/problems.ts';
import type { SecretBox } from '../security/secret-box.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  type ConfigDefinition,
  type ConfigGuard,
  type ConfigHandle,
  secretMask,
} from './config-definition.ts';
import type { ConfigDifference } from './config-service.ts';
import type { ConfigRow } from './rows.ts';
import {
  changedLeaves,
  deepFreeze,
  fillDefaults,
  isHarmless,
  isTree,
  mapSecrets,
  maskedPatch,
  mergePatch,
  type SchemaNode,
  type Tree,
  typedTexts,
  valueAt,
} from './tree.ts';

/*
 * One configuration document by its definition: from the stored form (only what
 * was set, secrets sealed) to the whole one, and back.
 */

/** A secret at rest. An object, so that no text that somebody configured can be taken for one. */
const SEALED = '$sealed';

/** Four or more asterisks and nothing else: a masked secret that came back, so nothing changes. */
const isMask = (value: unknown): boolean => typeof value === 'string' && /^\*{4,}$/.test(value);

interface Merged {
  /** What was set, secrets in clear. */
  readonly set: Tree;
  /** Dotted keys that the definition does not know. */
  readonly unknownKeys: readonly string[];
}

interface ConfigDocument {
  readonly definition: ConfigDefinition;
  /** Stored form to what was set, secrets in clear. Those that cannot be opened are left out, and told; so is what is no document. */
  open(stored: Tree, unreadable?: (key: string) => void): Tree;
  /** What was set to its stored form. */
  seal(set: Tree): Tree;
  /** What was set, and the defaults. Frozen. */
  complete(set: Tree): Tree;
  /** The whole configuration as it may be shown. */
  mask(complete: Tree): Tree;
  /** A patch as it may be shown, valid or not. */
  maskPatch(patch: Tree): unknown;
  /** What differs between two whole configurations, secrets masked. */
  differences(before: Tree, after: Tree): readonly ConfigDifference[];
  merge(set: Tree, patch: Tree, replace: boolean): Merged;
  /** Everything that is wrong with a whole configuration. */
  problems(complete: Tree): readonly Problem[];
  /** Dotted keys whose values differ, and that are not marked harmless. */
  guardedChanges(before: Tree, after: Tree): readonly string[];
}

export function createDocument(
  module: string,
  definition: ConfigDefinition,
  secrets: SecretBox,
): ConfigDocument {
  const node: SchemaNode = definition.schema as SchemaNode;
  const context = (path: readonly (string | number)[]): string =>
    `config:${module}:${path.join('.')}`;
  const complete = (set: Tree): Tree => deepFreeze(fillDefaults(node, set) as Tree);
  const mask = (whole: Tree): Tree =>
    mapSecrets(node, whole, (value) =>
      value === '' || value === undefined ? value : secretMask,
    ) as Tree;
  const problems = createProblemFinder(definition);

  return {
    definition,
    open: (stored, unreadable = () => undefined) => {
      if (!isTree(stored)) unreadable('');
      return mapSecrets(node, isTree(stored) ? stored : {}, (value, path) =>
        openedSecret(secrets, value, {
          context: context(path),
          unreadable: () => unreadable(path.join('.')),
        }),
      ) as Tree;
    },
    seal: (set) =>
      mapSecrets(node, set, (value, path) =>
        typeof value === 'string' && value !== ''
          ? { [SEALED]: secrets.seal(value, context(path)) }
          : value,
      ) as Tree,
    complete,
    mask,
    maskPatch: (patch) => maskedPatch(node, patch, secretMask),
    differences(before, after) {
      const [maskedBefore, maskedAfter] = [mask(before), mask(after)];
      return changedLeaves(before, after).map((path) => ({
        path: path.join('.'),
        from: valueAt(maskedBefore, path) ?? null,
        to: valueAt(maskedAfter, path) ?? null,
      }));
    },
    merge(set, patch, replace) {
      const unknownKeys: string[] = [];
      const unmasked = mapSecrets(node, typedTexts(node, patch) as Tree, (value, path) =>
        isMask(value) ? valueAt(set, path) : value,
      );
      const merged = mergePatch(node, replace ? {} : set, unmasked, (key) =>
        unknownKeys.push(key),
      ) as Tree;
      return { set: merged, unknownKeys };
    },
    problems,
    guardedChanges: (before, after) =>
      changedLeaves(before, after)
        .filter((path) => !isHarmless(node, path))
        .map((path) => path.join('.')),
  };
}

/** In clear; nothing for what cannot be opened. */
function openedSecret(
  secrets: SecretBox,
  value: unknown,
  { context, unreadable }: { readonly context: string; readonly unreadable: () => void },
): unknown {
  const sealed = valueAt(value, [SEALED]);
  if (typeof sealed !== 'string') return value;
  try {
    return secrets.open(sealed, context);
  } catch {
    unreadable();
    return undefined;
  }
}

/** By schema: platforms that start one after the other in a process have the same ones. */
const validators = new WeakMap<object, Validator>();

/** Validates by the schema, then by the rules across keys. Compiled at the first use: most documents never change. */
function createProblemFinder(definition: ConfigDefinition): (complete: Tree) => readonly Problem[] {
  return (complete) => {
    const validator = validators.get(definition.schema) ?? Compile(definition.schema);
    validators.set(definition.schema, validator);
    if (!validator.Check(complete))
      return problemsOf(
        definition.schema,
        validator.Errors(complete) as readonly ValidatorError[],
        'config',
      );
    return definition.check?.(complete as never) ?? [];
  };
}

type Guard = ConfigGuard<Tree>;
type Listener = (next: Tree, previous: Tree) => void | Promise<void>;

export interface LiveConfig {
  readonly document: ConfigDocument;
  readonly handle: ConfigHandle<Tree>;
  /** Takes in a stored version, unless it or a newer one runs already. Throws when a listener refuses it. */
  apply(row: ConfigRow): Promise<void>;
  /** Throws what a guard throws; answers what guards say of it. */
  ask(...change: Parameters<Guard>): Promise<readonly string[]>;
  /** The stored version that this node could not apply. */
  refused(): number | undefined;
}

export function createLiveConfig(
  module: string,
  document: ConfigDocument,
  first: ConfigRow,
  log: Logger,
): LiveConfig {
  const listeners = new Set<Listener>();
  const guards = new Set<Guard>();
  let version = first.version;
  let current = usable(module, document, first, log);
  let refused: number | undefined;
  let queue: Promise<void> = Promise.resolve();

  const take = async (row: ConfigRow): Promise<void> => {
    if (row.version <= version) return;
    const [before, versionBefore] = [current, version];
    const told: Listener[] = [];
    try {
      current = document.complete(
        document.open(row.config, (key) => {
          throw new Error(`The stored configuration cannot be read: ${key}`);
        }),
      );
      version = row.version;
      for (const listener of listeners) {
        await listener(current, before);
        told.unshift(listener);
      }
      refused = undefined;
    } catch (error) {
      const failed = current;
      [current, version, refused] = [before, versionBefore, row.version];
      log.error(
        { module, version: row.version, err: error },
        'a configuration could not be applied; the one before stays in force',
      );
      await tellBack(told, [before, failed], (err) =>
        log.error({ module, err }, 'a part could not return to the configuration before'),
      );
      throw error;
    }
  };

  return {
    document,
    handle: {
      current: () => current,
      version: () => version,
      onChange: (listener) => added(listeners, listener),
      guard: (guard) => added(guards, guard),
    },
    apply(row) {
      const applied = queue.then(() => take(row));
      queue = applied.catch(() => undefined);
      return applied;
    },
    ask: (...change) => askEach(guards, change),
    refused: () => refused,
  };
}

async function askEach(
  guards: Iterable<Guard>,
  change: Parameters<Guard>,
): Promise<readonly string[]> {
  const said: string[] = [];
  for (const guard of guards) said.push(...((await guard(...change)) ?? []));
  return said;
}

/** Answers how to take it out again. */
function added<T>(set: Set<T>, one: T): () => void {
  set.add(one);
  return () => void set.delete(one);
}

/** Gives listeners the configuration before again. */
async function tellBack(
  told: readonly Listener[],
  [kept, failed]: readonly [Tree, Tree],
  onError: (error: unknown) => void,
): Promise<void> {
  for (const listener of told) {
    try {
      await listener(kept, failed);
    } catch (error) {
      onError(error);
    }
  }
}

/**
 * What to start with. A stored value that the definition no longer takes (after an upgrade) must not
 * keep the platform from starting: it is left out, loudly, and its default holds.
 */
function usable(module: string, document: ConfigDocument, row: ConfigRow, log: Logger): Tree {
  const set = document.open(row.config, (key) =>
    log.error({ module, key }, 'stored configuration cannot be read; its default is used'),
  );
  const complete = document.complete(set);
  const problems = document.problems(complete);
  if (problems.length === 0) return complete;
  const keys = [...new Set(problems.map(({ path }) => path.split('.', 1)[0] ?? ''))];
  log.warn(
    { module, keys, problems },
    'stored configuration is not valid any more; the defaults of these keys are used',
  );
  const kept = document.complete(
    Object.fromEntries(Object.entries(set).filter(([key]) => !keys.includes(key))),
  );
  return document.problems(kept).length === 0 ? kept : document.complete({});
}
