/** The keys of a body that its schema does not declare, for operations that refuse them (`strict`). */
import type { Problem } from '../errors.ts';
import { alternatives, type JsonSchema } from './json-schema.ts';

export function unknownKeys(schema: JsonSchema, value: unknown, path: string): readonly Problem[] {
  if (typeof value !== 'object' || value === null) return [];
  const schemas = alternatives(schema);
  if (Array.isArray(value)) {
    const items = schemas.map((one) => one.items).find((one) => one !== undefined && !Array.isArray(one)) as JsonSchema | undefined;
    return items ? value.flatMap((item, i) => unknownKeys(items, item, join(path, String(i)))) : [];
  }
  const objects = schemas.filter((one) => one.properties);
  if (objects.length === 0 || schemas.some((one) => one.patternProperties || one.additionalProperties)) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const declared = objects.find((one) => one.properties && Object.hasOwn(one.properties, key))?.properties?.[key];
    return declared
      ? unknownKeys(declared, item, join(path, key))
      : [{ path: join(path, key), rule: 'unknown', message: 'is not known here' }];
  });
}

const join = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);
