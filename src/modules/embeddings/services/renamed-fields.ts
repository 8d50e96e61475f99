/** What is searched goes with its fields: under new names they are searched as before, with the same vectors. */
import { isDeepStrictEqual } from 'node:util';
import type { SchemaGuard } from '../../../data/schema/registry/registry.ts';
import { lockGenerationsOf, renameSources } from '../queries/configs.ts';

/** Gives configurations the new names of fields, in the transaction that renames them. */
export const followRenames: SchemaGuard = async (transaction, _schemas, renames) => {
  for (const [schemaName, sets] of renames) {
    for (const generation of await lockGenerationsOf(transaction, schemaName)) {
      const { id, sourceFields, fieldOptions } = generation;
      const renamed = sourceFields.map((path) => newPath(path, sets));
      if (isDeepStrictEqual(renamed, sourceFields)) continue;
      const options = Object.entries(fieldOptions).map(
        ([path, option]) => [newPath(path, sets), option] as const,
      );
      await renameSources(transaction, {
        id,
        sourceFields: renamed,
        fieldOptions: Object.fromEntries(options),
      });
    }
  }
};

/** Top-level fields alone are renamed; what is within them keeps its own name. */
function newPath(path: string, sets: readonly ReadonlyMap<string, string>[]): string {
  const [top = '', ...rest] = path.split('.');
  const name = sets.reduce((now, names) => names.get(now) ?? now, top);
  return [name, ...rest].join('.');
}
