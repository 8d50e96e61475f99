/** Which tables have a schema, or would get one, and what it is called. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { type QualifiedName, sameName } from '../../../../data/schema/mapping/table-mapping.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { importedPrefix } from './names.ts';
import type { PendingName } from './pending-store.ts';

/** How a table is called in lists: outside of `public` with its schema. */
export const tableLabel = ({ schema, name }: QualifiedName): string => (schema === 'public' ? name : `${schema}.${name}`);

export const isImported = ({ mapping }: CompiledSchema, table: QualifiedName): boolean =>
  mapping !== undefined && sameName(mapping.source, table);

/** A name that an admin chose is taken as it is; others get the prefix of imported schemas. */
export const finalName = (pending: string, renamed: boolean): string => (renamed ? pending : `${importedPrefix}${pending}`);

/** The name of the schema over a table, now or after it is finalised. */
export function sourceNames(schemas: SchemaRegistry, pending: readonly PendingName[]): (table: QualifiedName) => string | undefined {
  const key = ({ schema, name }: QualifiedName): string => JSON.stringify([schema, name]);
  const names = new Map(pending.map((one) => [key(one), finalName(one.pending, one.renamed)]));
  for (const { mapping, name } of schemas.all()) if (mapping) names.set(key(mapping.source), name);
  return (table) => names.get(key(table));
}
