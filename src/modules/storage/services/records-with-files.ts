/** Records whose fields hold files: whoever may read such a record may read its files. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { fileSchema } from '../schemas.ts';

export interface RecordsWithFiles {
  /** Whether the caller, or whom they act for, may read a record that holds the file, in a field that they see in it. */
  mayRead(caller: Caller, fileId: string, scope?: string): Promise<boolean>;
  /** The names of the lists of records that hold one of these files: no foreign key keeps the elements of lists. */
  holding(fileIds: readonly string[]): Promise<string | undefined>;
}

interface Holder {
  readonly schema: CompiledSchema;
  readonly field: string;
  readonly many: boolean;
}

export function createRecordsWithFiles({
  schemas,
  records,
  database,
}: Pick<Kernel, 'schemas' | 'records' | 'database'>): RecordsWithFiles {
  const holders = (): readonly Holder[] =>
    schemas
      .all()
      .flatMap((schema) =>
        [...schema.relations].flatMap(([field, { model, many }]) =>
          model === fileSchema.name ? [{ schema, field, many }] : [],
        ),
      );
  const reads = async (
    caller: Caller,
    { schema, field }: Holder,
    { id, scope }: { readonly id: string; readonly scope: string | undefined },
  ): Promise<boolean> => {
    try {
      return await records.shows(caller, schema.name, { field, id, scope });
    } catch (error) {
      // A schema that is not for this caller gives nothing.
      if (error instanceof PenstockError && error.status < 500) return false;
      throw error;
    }
  };
  return {
    async mayRead(caller, fileId, scope) {
      for (const holder of holders())
        if (await reads(caller, holder, { id: fileId, scope })) return true;
      return false;
    },
    async holding(fileIds) {
      for (const { schema, field, many } of holders()) {
        if (!many || schema.mapping) continue;
        const column = `"${field.replaceAll('"', '""')}"`;
        const { count } = await database.query({
          text: `select 1 from ${schema.table} where ${column} && $1::uuid[] limit 1`,
          values: [fileIds],
        });
        if (count > 0) return schema.name;
      }
      return undefined;
    },
  };
}
