/**
 * Projectors let only declared keys through, in both directions: an input key
 * that no schema names never reaches a handler (mass assignment), and an output
 * key that no schema names never leaves (leaks of internal fields).
 *
 * Where a schema is a union or an intersection, the keys of all its parts are
 * declared. Objects without `properties` (free JSON, maps) pass as they are.
 */

import type { Problem } from '../errors.ts';
import { acceptsNull, alternatives, type JsonSchema } from './json-schema.ts';

/* The keys of a body that its schema does not declare, for operations, or parts of their bodies, that refuse them. */

export type KeyCheck = (value: unknown, path: string) => readonly Problem[];

const takesAll: KeyCheck = () => [];

/** Compiled once for each schema: a document of state is looked at thousands of times by the same one. */
const strictChecks = new WeakMap<JsonSchema, KeyCheck>();

export function unknownKeys(schema: JsonSchema, value: unknown, path: string): readonly Problem[] {
  const check = strictChecks.get(schema) ?? compileKeyCheck(schema, true) ?? takesAll;
  strictChecks.set(schema, check);
  return check(value, path);
}

/** `strict`: unknown keys are refused everywhere, otherwise only where something is `closed`. `undefined`: nothing is refused. */
export function compileKeyCheck(schema: JsonSchema, strict: boolean): KeyCheck | undefined {
  const schemas = alternatives(schema);
  const inside = strict || schemas.some(({ closed }) => closed === 'all');
  const items = schemas
    .map((one) => one.items)
    .find((one) => one !== undefined && !Array.isArray(one)) as JsonSchema | undefined;
  const item = items && compileKeyCheck(items, inside);
  const object = objectCheck(schemas, inside);
  if (!item && !object) return undefined;
  return (value, path) => {
    if (typeof value !== 'object' || value === null) return [];
    if (Array.isArray(value))
      return item ? value.flatMap((one, i) => item(one, join(path, String(i)))) : [];
    return object?.(value, path) ?? [];
  };
}

function objectCheck(
  schemas: readonly JsonSchema[],
  inside: boolean,
): ((value: object, path: string) => readonly Problem[]) | undefined {
  const objects = schemas.filter((one) => one.properties);
  if (
    objects.length === 0 ||
    schemas.some((one) => one.patternProperties || one.additionalProperties)
  )
    return undefined;
  const declared = new Map<string, KeyCheck | undefined>();
  for (const { properties = {} } of objects)
    for (const [name, property] of Object.entries(properties))
      if (!declared.has(name)) declared.set(name, compileKeyCheck(property, inside));
  const operators = schemas.some(({ closed }) => closed === 'operators');
  if (!inside && !operators && [...declared.values()].every((check) => check === undefined))
    return undefined;
  return (value, path) =>
    Object.entries(value).flatMap(([key, one]) => {
      if (declared.has(key)) return declared.get(key)?.(one, join(path, key)) ?? [];
      if (inside) return [{ path: join(path, key), rule: 'unknown', message: 'is not known here' }];
      return operators && key.startsWith('$')
        ? [{ path: join(path, key), rule: 'operator', message: 'is not an operator here' }]
        : [];
    });
}

const join = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);

export type Projector = (value: unknown) => unknown;

interface ProjectorOptions {
  /** Drops `null` for optional properties that have no null of their own: clients send it for "absent". */
  readonly dropNulls: boolean;
}

/** Answers `undefined` when every value would pass unchanged. */
export function compileProjector(
  schema: JsonSchema,
  options: ProjectorOptions,
): Projector | undefined {
  return compileAlternatives(alternatives(schema), options);
}

function compileAlternatives(
  schemas: readonly JsonSchema[],
  options: ProjectorOptions,
): Projector | undefined {
  const arrays = arrayProjector(schemas, options);
  const objects = objectProjector(schemas, options);
  if (!arrays && !objects) return undefined;
  return (value) => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return arrays ? arrays(value) : value;
    return objects && isPlain(value) ? objects(value as Record<string, unknown>) : value;
  };
}

/** Dates and the like render themselves. */
const isPlain = (value: object): boolean => !('toJSON' in value);

function arrayProjector(
  schemas: readonly JsonSchema[],
  options: ProjectorOptions,
): ((value: unknown[]) => unknown[]) | undefined {
  const items = schemas.flatMap((schema) =>
    schema.items && !Array.isArray(schema.items) ? alternatives(schema.items as JsonSchema) : [],
  );
  if (items.length === 0) return undefined;
  const item = compileAlternatives(items, options);
  return item ? (value) => value.map(item) : undefined;
}

interface ObjectPlan {
  /** Declared names; the value is the projector of that property, if it needs one. */
  readonly declared: ReadonlyMap<string, Projector | undefined>;
  readonly dropsNull: ReadonlySet<string>;
}

function objectProjector(
  schemas: readonly JsonSchema[],
  options: ProjectorOptions,
): ((value: Record<string, unknown>) => Record<string, unknown>) | undefined {
  const objects = schemas.filter((schema) => schema.properties);
  if (objects.length === 0 || schemas.some(isOpen)) return undefined;
  const plan = planOf(objects, options);
  const nested = [...plan.declared.values()].some((projector) => projector !== undefined);
  return (value) => {
    const keys = Object.keys(value);
    return !nested && keys.every((key) => passes(plan, key, value[key]))
      ? value
      : copyDeclared(plan, keys, value);
  };
}

/** An object schema that names no keys, or allows further ones, keeps whatever comes. */
const isOpen = (schema: JsonSchema): boolean =>
  (schema.type === 'object' && !schema.properties) ||
  (schema.additionalProperties !== undefined && schema.additionalProperties !== false) ||
  schema.patternProperties !== undefined;

function planOf(objects: readonly JsonSchema[], options: ProjectorOptions): ObjectPlan {
  const parts = new Map<string, JsonSchema[]>();
  const dropsNull = new Set<string>();
  for (const object of objects) {
    for (const [name, property] of Object.entries(object.properties ?? {})) {
      parts.set(name, [...(parts.get(name) ?? []), ...alternatives(property)]);
      if (options.dropNulls && !object.required?.includes(name) && !acceptsNull(property))
        dropsNull.add(name);
    }
  }
  const declared = new Map(
    [...parts].map(([name, schemas]) => [name, compileAlternatives(schemas, options)]),
  );
  return { declared, dropsNull };
}

const passes = (plan: ObjectPlan, key: string, value: unknown): boolean =>
  plan.declared.has(key) && !(value === null && plan.dropsNull.has(key));

function copyDeclared(
  plan: ObjectPlan,
  keys: readonly string[],
  value: Record<string, unknown>,
): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const key of keys) {
    const item = value[key];
    if (!passes(plan, key, item)) continue;
    const projector = plan.declared.get(key);
    copy[key] = projector ? projector(item) : item;
  }
  return copy;
}
