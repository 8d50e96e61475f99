/** The keys of a body that its schema does not declare, for operations, or parts of their bodies, that refuse them. */
import type { Problem } from '../errors.ts';
import { alternatives, type JsonSchema } from './json-schema.ts';

export type KeyCheck = (value: unknown, path: string) => readonly Problem[];

export const unknownKeys = (schema: JsonSchema, value: unknown, path: string): readonly Problem[] =>
  compileKeyCheck(schema, true)?.(value, path) ?? [];

/** `strict`: unknown keys are refused everywhere, otherwise only where something is `closed`. `undefined`: nothing is refused. */
export function compileKeyCheck(schema: JsonSchema, strict: boolean): KeyCheck | undefined {
  const schemas = alternatives(schema);
  const inside = strict || schemas.some(({ closed }) => closed === 'all');
  const items = schemas.map((one) => one.items).find((one) => one !== undefined && !Array.isArray(one)) as JsonSchema | undefined;
  const item = items && compileKeyCheck(items, inside);
  const object = objectCheck(schemas, inside);
  if (!item && !object) return undefined;
  return (value, path) => {
    if (typeof value !== 'object' || value === null) return [];
    if (Array.isArray(value)) return item ? value.flatMap((one, i) => item(one, join(path, String(i)))) : [];
    return object?.(value, path) ?? [];
  };
}

function objectCheck(schemas: readonly JsonSchema[], inside: boolean): ((value: object, path: string) => readonly Problem[]) | undefined {
  const objects = schemas.filter((one) => one.properties);
  if (objects.length === 0 || schemas.some((one) => one.patternProperties || one.additionalProperties)) return undefined;
  const declared = new Map<string, KeyCheck | undefined>();
  for (const { properties = {} } of objects)
    for (const [name, property] of Object.entries(properties))
      if (!declared.has(name)) declared.set(name, compileKeyCheck(property, inside));
  const operators = schemas.some(({ closed }) => closed === 'operators');
  if (!inside && !operators && [...declared.values()].every((check) => check === undefined)) return undefined;
  return (value, path) =>
    Object.entries(value).flatMap(([key, one]) => {
      if (declared.has(key)) return declared.get(key)?.(one, join(path, key)) ?? [];
      if (inside) return [{ path: join(path, key), rule: 'unknown', message: 'is not known here' }];
      return operators && key.startsWith('$') ? [{ path: join(path, key), rule: 'operator', message: 'is not an operator here' }] : [];
    });
}

const join = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);
