/** A replacement that creates the record when it is not there, under the id that the client chose. */
import { errors } from '../../../kernel/errors.ts';
import { inTrash } from '../../schema/compile/layout.ts';
import { historyTable } from '../../schema/migrations.ts';
import { isTrusted } from '../access/operation-access.ts';
import { recordErrors } from '../errors.ts';
import type { RecordInput, RecordText } from '../store.ts';
import { requireId, runWrite, type WriteContext } from './write-context.ts';
import { createUnder, replaceRecord } from './write-record.ts';

/** Each is opened only when it is needed: its rights are asked for then. */
interface UpsertContexts {
  replace(): WriteContext | Promise<WriteContext>;
  create(): WriteContext | Promise<WriteContext>;
}

/** Throws 403 where the schema, or the table of others under it, does not allow it, 409 when the id is, or was, that of a deleted record. */
export async function upsertRecord(
  contexts: UpsertContexts,
  id: string,
  input: RecordInput,
): Promise<RecordText> {
  const replacing = await contexts.replace();
  const { schema, caller, options } = replacing;
  requireId(schema, id, 'id');
  if (schema.mapping)
    throw errors.FORBIDDEN({
      message: `${schema.name} is laid over a table of others: create the record, or replace it`,
    });
  if (!isTrusted(caller) && schema.modelOptions.conduit.cms.crudOperations.update.upsert !== true) {
    throw errors.FORBIDDEN({
      message: `${schema.name} does not let clients choose ids: upsert is switched off`,
    });
  }
  const there = await isThere(replacing, id);
  if (there ? options.absent : options.expectedVersion !== undefined)
    throw errors.PRECONDITION_FAILED();
  if (there) return replaceRecord(replacing, id, input);
  const created = await createUnder(await contexts.create(), id, input);
  if (created) return created;
  if (options.absent) throw errors.PRECONDITION_FAILED();
  // Somebody else may have been faster: then it is a replacement after all.
  return replaceRecord(replacing, id, input);
}

/** Throws 409 for an id that cannot be taken: with that of a destroyed record, somebody would have its history. */
async function isThere(context: WriteContext, id: string): Promise<boolean> {
  const { table, softDelete, history, name } = context.schema;
  const gone = softDelete ? `t.${inTrash}` : 'false';
  const used = history
    ? `exists (select 1 from ${historyTable} h where h.schema = $2 and h.record_id = $1::uuid::text)`
    : 'false';
  // One statement, so that record and history are of one moment.
  const text = `select t."_id" is not null as there, t."_id" is not null and ${gone} as gone, ${used} as used from (values ($2::text)) one left join ${table} t on t."_id" = $1::uuid`;
  const [row] = await runWrite<{ there: boolean; gone: boolean; used: boolean }>(context, {
    text,
    values: [id, name],
  });
  if (row?.gone) throw recordErrors.RESTORE_REQUIRED();
  if (row?.used && !row.there) throw recordErrors.ID_IN_USE();
  return row?.there ?? false;
}
