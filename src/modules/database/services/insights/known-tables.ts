/** Which schema a table of the database belongs to. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';

/** A table by the names of the catalogue: `app.Post`. */
export const tableKey = (schema: string, table: string): string => `${schema}.${table}`;

/** Tables of the platform itself, which operators have no hand in. */
export const isPlatformTable = (key: string): boolean => key.startsWith('penstock.');

export type KnownTables = ReadonlyMap<string, CompiledSchema>;

export const knownTables = (schemas: Pick<SchemaRegistry, 'all'>): KnownTables =>
  new Map(schemas.all().map((schema) => [keyOf(schema), schema]));

export function keyOf({ name, mapping }: CompiledSchema): string {
  return mapping ? tableKey(mapping.source.schema, mapping.source.name) : tableKey('app', name);
}
