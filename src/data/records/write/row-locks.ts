import type { Transaction } from '../../../kernel/database/database.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { live } from '../sql/row-id.ts';
import { runWrite, type WriteContext } from './write-context.ts';
import { settableRows } from './write-rights.ts';

interface RowChange {
  readonly id: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/**
 * Locks the records of a bulk change in the order of their ids, before any of them is changed. The statement that changes
 * them joins them in an order of PostgreSQL's own, so that two of the same records could wait for each other (40P01).
 * Only what the caller may change is locked.
 */
export async function lockInOrder(
  context: WriteContext,
  changes: readonly RowChange[],
  transaction: Transaction,
): Promise<void> {
  const { dependencies, schema } = context;
  if (changes.length < 2 || schema.mapping) return;
  const columns = [...new Set(changes.flatMap(({ values }) => Object.keys(values)))].sort();
  const predicate = settableRows(context, columns);
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `lockMany|${columns.join()}|${predicate?.shape ?? ''}`,
      values: [changes.map(({ id }) => id)],
      dynamic: predicate !== undefined,
    },
    (parameters) => {
      const where = `t0."_id" = any($1::uuid[])${live(schema, 't0')}${restriction(predicate, 't0', parameters, 'row')}`;
      return `select count(*) from (select 1 from ${schema.table} t0 where ${where} order by t0."_id" for no key update of t0) locked`;
    },
  );
  await runWrite(context, statement, transaction);
}
