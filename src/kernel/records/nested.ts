/** Stored values of nested objects, locked until the transaction that changes them ends. */
import type { Queryable } from '../database/database.ts';
import { identifier } from '../database/sql.ts';
import { restriction } from './parameters.ts';
import { live } from './soft-delete.ts';
import { runWrite, type WriteContext } from './write-context.ts';

export interface StoredNested {
  readonly id: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Rows that are missing, or may not be changed, are left out. */
export async function storedNested(
  context: WriteContext,
  wanted: { readonly ids: readonly string[]; readonly names: readonly string[] },
  transaction: Queryable,
): Promise<readonly StoredNested[]> {
  const { schema, dependencies, predicate } = context;
  const { ids, names } = wanted;
  const shape = `nested|${names.join()}|${predicate?.shape ?? ''}`;
  const statement = dependencies.plans.statement({ schema, shape, values: [ids], dynamic: predicate !== undefined }, (parameters) => {
    const columns = names.map((name) => `t0.${identifier(name)}`).join(', ');
    const where = `t0."_id" = any($1::uuid[])${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;
    return `select t0."_id", ${columns} from ${schema.table} t0 where ${where} order by t0."_id" for update`;
  });
  const rows = await runWrite<Record<string, unknown>>(context, statement, transaction);
  return rows.map(({ _id, ...values }) => ({ id: String(_id), values }));
}
