/**
 * UUIDs may be written in either case. PostgreSQL takes both, but events, channels and comparisons take them as texts: what
 * a path or a query names goes on in small letters, as ids are stored.
 */
import type { TObject } from 'typebox';
import { alternatives, type JsonSchema, jsonSchema } from './json-schema.ts';

type Values = Record<string, unknown>;

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => uuid.test(text);

/** A value, or a list of them, in the spelling of the platform; what is no UUID stays as it is. */
export function spelledUuid(value: unknown): unknown {
  if (typeof value === 'string') return isUuid(value) ? value.toLowerCase() : value;
  if (!Array.isArray(value) || value.every((item) => spelledUuid(item) === item)) return value;
  return value.map(spelledUuid);
}

/** Whether it is a UUID, or a list of them. */
const isOfUuids = (schema: JsonSchema): boolean =>
  alternatives(schema).some(
    ({ format, items }) =>
      format === 'uuid' || (items !== undefined && isOfUuids(items as JsonSchema)),
  );

/** For the values of one place of input. What came is not changed. */
export function uuidSpelling(schema: TObject): (values: Values) => Values {
  const names = Object.entries(jsonSchema(schema).properties ?? {}).flatMap(([name, property]) =>
    isOfUuids(property) ? [name] : [],
  );
  if (names.length === 0) return (values) => values;
  return (values) => {
    let own = values;
    for (const name of names) {
      const value = spelledUuid(own[name]);
      if (value === own[name]) continue;
      if (own === values) own = Object.assign(Object.create(null) as Values, values);
      own[name] = value;
    }
    return own;
  };
}
