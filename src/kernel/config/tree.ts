/** Walks over a configuration value beside its schema: defaults, merge, secrets. Pure functions, nothing is changed in place. */

import { isDeepStrictEqual } from 'node:util';

/** The parts of a JSON Schema that matter here. */
export interface SchemaNode {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
  readonly default?: unknown;
  readonly sensitive?: boolean;
  /** Any admin may change it, and what is below it (`ConfigDefinition`). */
  readonly harmless?: boolean;
}

export type Path = readonly (string | number)[];
export type Tree = Record<string, unknown>;

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value at a path of own keys, or `undefined`. */
export function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const key of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string | number, unknown>)[key];
  }
  return at;
}

/** The schema of one key; `undefined` for a key that is not declared. */
function childNode(node: SchemaNode, key: string): SchemaNode | undefined {
  if (key === '__proto__') return undefined;
  if (node.properties && Object.hasOwn(node.properties, key)) return node.properties[key];
  return Object.values(node.patternProperties ?? {})[0];
}

const takesKeys = (node: SchemaNode): boolean =>
  node.properties !== undefined || node.patternProperties !== undefined;

/** The whole configuration: what is stored, and the default wherever nothing is. */
export function fillDefaults(node: SchemaNode, stored: unknown): unknown {
  if (!node.properties) return stored === undefined ? structuredClone(node.default) : stored;
  if (stored !== undefined && !isTree(stored)) return stored;
  const filled = Object.entries(node.properties).map(
    ([key, child]) => [key, fillDefaults(child, valueAt(stored, [key]))] as const,
  );
  return Object.fromEntries(filled.filter(([, value]) => value !== undefined));
}

/**
 * RFC 7396 along the schema: null removes (back to the default), arrays are replaced, keys that are
 * not declared are left out and reported with their dotted path.
 */
export function mergePatch(
  node: SchemaNode,
  stored: unknown,
  patch: unknown,
  report: (unknownKey: string) => void,
): unknown {
  if (Array.isArray(patch)) {
    return patch.map((item, index) =>
      node.items
        ? mergePatch(node.items, undefined, item, (key) => report(`${index}.${key}`))
        : item,
    );
  }
  if (!isTree(patch) || !takesKeys(node)) return patch;
  const merged = new Map(Object.entries(isTree(stored) ? stored : {}));
  for (const [key, value] of Object.entries(patch)) {
    const child = childNode(node, key);
    if (!child) report(key);
    else if (value === null) merged.delete(key);
    else
      merged.set(
        key,
        mergePatch(child, merged.get(key), value, (inner) => report(`${key}.${inner}`)),
      );
  }
  return Object.fromEntries(merged);
}

const numeric = /^-?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?$/;

/**
 * Forms send numbers and booleans as text: a text that is exactly one becomes it, where the key takes no text.
 * Everything else stays as it is, for the validator to name.
 */
export function typedTexts(node: SchemaNode, value: unknown): unknown {
  if (typeof value === 'string') return typedText(node, value);
  if (Array.isArray(value))
    return value.map((item) => (node.items ? typedTexts(node.items, item) : item));
  if (!isTree(value) || !takesKeys(node)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const child = childNode(node, key);
      return [key, child ? typedTexts(child, item) : item];
    }),
  );
}

function typedText({ type }: SchemaNode, text: string): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return (type === 'integer' || type === 'number') && numeric.test(text) ? Number(text) : text;
}

/** Replaces every value whose schema says `sensitive`; `undefined` leaves the key out. */
export function mapSecrets(
  node: SchemaNode,
  value: unknown,
  replace: (secret: unknown, path: Path) => unknown,
  path: Path = [],
): unknown {
  if (node.sensitive) return replace(value, path);
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      node.items ? mapSecrets(node.items, item, replace, [...path, index]) : item,
    );
  }
  if (!isTree(value) || !takesKeys(node)) return value;
  const mapped = Object.entries(value).map(([key, item]) => {
    const child = childNode(node, key);
    return [key, child ? mapSecrets(child, item, replace, [...path, key]) : item] as const;
  });
  return Object.fromEntries(mapped.filter(([, item]) => item !== undefined));
}

/**
 * A patch as others may read it: secrets masked, and nothing shown that stands where the schema does not
 * expect it, for that may be a secret in the wrong place. null (back to the default) stays.
 */
export function maskedPatch(node: SchemaNode, patch: unknown, mask: string): unknown {
  if (patch === null) return null;
  if (node.sensitive) return mask;
  if (Array.isArray(patch) && node.items)
    return patch.map((item) => maskedPatch(node.items ?? {}, item, mask));
  if (!takesKeys(node)) return patch;
  if (!isTree(patch)) return UNEXPECTED;
  const entries = Object.entries(patch).map(([key, value]) => {
    const child = childNode(node, key);
    return [key, child ? maskedPatch(child, value, mask) : UNEXPECTED] as const;
  });
  return Object.fromEntries(entries);
}

const UNEXPECTED = '[unexpected]';

/** The leaves in which two trees differ, by dotted path; lists are leaves. */
export function changedLeaves(before: unknown, after: unknown, path: Path = []): readonly Path[] {
  if (isTree(before) && isTree(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) =>
      changedLeaves(valueAt(before, [key]), valueAt(after, [key]), [...path, key]),
    );
  }
  return isDeepStrictEqual(before, after) ? [] : [path];
}

/** Whether the key, or one that it stands below, is marked harmless. What no schema describes is not. */
export function isHarmless(node: SchemaNode, path: Path): boolean {
  if (node.harmless) return true;
  const [first, ...rest] = path;
  const child = first === undefined ? undefined : childNode(node, String(first));
  return child !== undefined && isHarmless(child, rest);
}

/** Freezes a tree in depth, so that no reader can change what others read. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const child of Object.values(value)) deepFreeze(child);
  return Object.freeze(value);
}
