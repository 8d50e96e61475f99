/**
 * One configuration document by its definition: from the stored form (only what
 * was set, secrets sealed) to the whole one, and back.
 */
import { Compile, type Validator } from 'typebox/compile';
import type { Problem } from '../errors.ts';
import { problemsOf, type ValidatorError } from '../operations/problems.ts';
import type { SecretBox } from '../security/secret-box.ts';
import { type ConfigDefinition, secretMask } from './definition.ts';
import type { ConfigDifference } from './service.ts';
import {
  changedLeaves,
  deepFreeze,
  fillDefaults,
  isHarmless,
  mapSecrets,
  mergePatch,
  type SchemaNode,
  shownPatch,
  type Tree,
  valueAt,
} from './tree.ts';

/** A secret at rest. An object, so that no text that somebody configured can be taken for one. */
const SEALED = '$sealed';

/** Four or more asterisks and nothing else: a masked secret that came back, so nothing changes. */
const isMask = (value: unknown): boolean => typeof value === 'string' && /^\*{4,}$/.test(value);

export interface Merged {
  /** What was set, secrets in clear. */
  readonly set: Tree;
  /** Dotted keys that the definition does not know. */
  readonly unknownKeys: readonly string[];
}

export interface ConfigDocument {
  readonly definition: ConfigDefinition;
  /** Stored form to what was set, secrets in clear. Throws when a secret cannot be opened. */
  open(stored: Tree): Tree;
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

export function createDocument(module: string, definition: ConfigDefinition, secrets: SecretBox): ConfigDocument {
  const node: SchemaNode = definition.schema as SchemaNode;
  const context = (path: readonly (string | number)[]): string => `config:${module}:${path.join('.')}`;
  const complete = (set: Tree): Tree => deepFreeze(fillDefaults(node, set) as Tree);
  const mask = (whole: Tree): Tree =>
    mapSecrets(node, whole, (value) => (value === '' || value === undefined ? value : secretMask)) as Tree;
  const problems = createProblemFinder(definition);

  return {
    definition,
    open: (stored) =>
      mapSecrets(node, stored, (value, path) => {
        const sealed = valueAt(value, [SEALED]);
        return typeof sealed === 'string' ? secrets.open(sealed, context(path)) : value;
      }) as Tree,
    seal: (set) =>
      mapSecrets(node, set, (value, path) =>
        typeof value === 'string' && value !== '' ? { [SEALED]: secrets.seal(value, context(path)) } : value,
      ) as Tree,
    complete,
    mask,
    maskPatch: (patch) => shownPatch(node, patch, secretMask),
    differences(before, after) {
      const [shownBefore, shownAfter] = [mask(before), mask(after)];
      return changedLeaves(before, after).map((path) => ({
        path: path.join('.'),
        from: valueAt(shownBefore, path) ?? null,
        to: valueAt(shownAfter, path) ?? null,
      }));
    },
    merge(set, patch, replace) {
      const unknownKeys: string[] = [];
      const unmasked = mapSecrets(node, patch, (value, path) => (isMask(value) ? valueAt(set, path) : value));
      const merged = mergePatch(node, replace ? {} : set, unmasked, (key) => unknownKeys.push(key)) as Tree;
      return { set: merged, unknownKeys };
    },
    problems,
    guardedChanges: (before, after) =>
      changedLeaves(before, after)
        .filter((path) => !isHarmless(node, path))
        .map((path) => path.join('.')),
  };
}

/** Validates by the schema, then by the rules across keys. Compiled at the first use: most documents never change. */
function createProblemFinder(definition: ConfigDefinition): (complete: Tree) => readonly Problem[] {
  let validator: Validator | undefined;
  return (complete) => {
    validator ??= Compile(definition.schema);
    if (!validator.Check(complete)) return problemsOf(definition.schema, validator.Errors(complete) as readonly ValidatorError[], 'config');
    return definition.check?.(complete as never) ?? [];
  };
}
