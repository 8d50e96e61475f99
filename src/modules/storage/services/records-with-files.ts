/** Records whose fields hold files: whoever may read such a record may read its files. */
import { equals } from '../../../data/conditions/condition.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { fileSchema } from '../schemas.ts';

export interface RecordsWithFiles {
  /** Whether the caller may read a record that holds the file, in a field that they may see. */
  mayRead(caller: Caller, fileId: string): Promise<boolean>;
  /** The names of the lists of records that hold one of these files: no foreign key keeps the elements of lists. */
  holding(fileIds: readonly string[]): Promise<string | undefined>;
}

interface Holder {
  readonly schema: CompiledSchema;
  readonly field: string;
  readonly many: boolean;
}

const onlyId = new Map([['_id', new Map()]]);

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
  const reads = async (caller: Caller, { schema, field }: Holder, fileId: string) => {
    try {
      const filter = equals(field, fileId);
      const options = { filter, limit: 1, count: 'none', only: onlyId } as const;
      const page = JSON.parse(await records.select(caller, schema.name, options));
      return (page as { documents: unknown[] }).documents.length > 0;
    } catch (error) {
      // A schema or a field that is not for this caller gives nothing.
      if (error instanceof PenstockError && error.status < 500) return false;
      throw error;
    }
  };
  return {
    async mayRead(caller, fileId) {
      for (const holder of holders()) if (await reads(caller, holder, fileId)) return true;
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
