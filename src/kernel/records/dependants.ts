/** Which records hang on others by their relations (`onDelete`). */
import type { CompiledSchema } from '../schema/compiled.ts';
import type { ForeignKeyLayout } from '../schema/layout.ts';

export interface Dependant {
  readonly schema: CompiledSchema;
  readonly key: ForeignKeyLayout;
}

/** Foreign keys that lead to records of `target`. */
export const keysTo = (schemas: readonly CompiledSchema[], target: string): readonly Dependant[] =>
  schemas.flatMap((schema) =>
    Object.values(schema.layout.foreignKeys)
      .filter((key) => key.target === target)
      .map((key) => ({ schema, key })),
  );

/** Records that are being dealt with already, as `schema:id`: relations can run in circles. */
export type Seen = Set<string>;

export const seenOf = ({ name }: CompiledSchema, ids: readonly string[]): Seen => new Set(ids.map((id) => `${name}:${id}`));

/** Ids of a schema among them. */
export const seenIds = (seen: Seen, { name }: CompiledSchema): string[] =>
  [...seen].filter((entry) => entry.startsWith(`${name}:`)).map((entry) => entry.slice(name.length + 1));

/** Those that are new, which are noted. */
export function addSeen(seen: Seen, { name }: CompiledSchema, ids: readonly string[]): readonly string[] {
  const fresh = ids.filter((id) => !seen.has(`${name}:${id}`));
  for (const id of fresh) seen.add(`${name}:${id}`);
  return fresh;
}
