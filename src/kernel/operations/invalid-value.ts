/**
 * Refuses values that no part of the platform can store or answer: strings with
 * NUL or half a surrogate pair (PostgreSQL takes neither), nesting that would
 * exhaust the stack, and keys that reach for prototypes.
 */
import type { Problem } from '../errors.ts';

/** Levels of arrays and objects in one input. */
export const MAX_DEPTH = 64;

/** What is wrong with a text, if anything. */
export function textProblem(
  text: string,
): { readonly rule: string; readonly message: string } | undefined {
  if (text.includes('\0')) return { rule: 'text', message: 'must not hold the NUL character' };
  if (!text.isWellFormed()) return { rule: 'text', message: 'must be well-formed Unicode' };
  return undefined;
}

/** The first problem of a decoded JSON value; `path` is where the value stands. Most values have none, and need no paths. */
export const invalidValueProblem = (value: unknown, path: string): Problem | undefined =>
  isStorable(value, 0) ? undefined : problemIn(value, path, 0);

function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return isStorableText(value);
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return true;
  if (depth >= MAX_DEPTH) return false;
  if (Array.isArray(value)) {
    for (const item of value) if (!isStorable(item, depth + 1)) return false;
    return true;
  }
  for (const key of Object.keys(value)) {
    const inside = (value as Record<string, unknown>)[key];
    if (isPoisonous(key, inside) || !isStorableText(key) || !isStorable(inside, depth + 1))
      return false;
  }
  return true;
}

const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

function problemIn(value: unknown, path: string, depth: number): Problem | undefined {
  if (typeof value === 'string') {
    const problem = textProblem(value);
    return problem && { path: path || 'body', ...problem };
  }
  // Sockets take bytes along: they hold no text.
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined;
  if (depth >= MAX_DEPTH)
    return {
      path: topOf(path),
      rule: 'depth',
      message: `must not nest deeper than ${MAX_DEPTH} levels`,
    };
  return Array.isArray(value)
    ? inArray(value, path, depth)
    : inObject(value as Record<string, unknown>, path, depth);
}

function inArray(values: readonly unknown[], path: string, depth: number): Problem | undefined {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'string' && (typeof value !== 'object' || value === null)) continue;
    const problem = problemIn(value, join(path, i), depth + 1);
    if (problem) return problem;
  }
  return undefined;
}

function inObject(
  object: Record<string, unknown>,
  path: string,
  depth: number,
): Problem | undefined {
  for (const key of Object.keys(object)) {
    const value = object[key];
    const problem = keyProblem(key, value, path) ?? invalidValue(value, path, key, depth);
    if (problem) return problem;
  }
  return undefined;
}

/** Only strings and containers are looked into, so that paths are not built for numbers. */
function invalidValue(
  value: unknown,
  path: string,
  key: string,
  depth: number,
): Problem | undefined {
  if (typeof value === 'string') {
    const problem = textProblem(value);
    return problem && { path: join(path, key), ...problem };
  }
  return typeof value === 'object' && value !== null
    ? problemIn(value, join(path, key), depth + 1)
    : undefined;
}

const isPoisonous = (key: string, value: unknown): boolean =>
  key === '__proto__' ||
  (key === 'constructor' &&
    typeof value === 'object' &&
    value !== null &&
    Object.hasOwn(value, 'prototype'));

function keyProblem(key: string, value: unknown, path: string): Problem | undefined {
  if (isPoisonous(key, value))
    return { path: join(path, key), rule: 'name', message: 'is not allowed as a name' };
  const problem = textProblem(key);
  return (
    problem && {
      path: path || 'body',
      rule: problem.rule,
      message: `holds a name that ${problem.message}`,
    }
  );
}

const join = (path: string, key: string | number): string =>
  path === '' ? String(key) : `${path}.${key}`;
const topOf = (path: string): string => path.split('.', 1)[0] || 'body';
