/** The SQL of folders that nodes see (migrations.ts). Who is not among the nodes that live does not count. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { firstOf, statement } from './statement.ts';

/** Says which folder a node sees; answers whether another one sees another. */
export const noteFolder = async (
  database: Queryable,
  nodeId: string,
  mark: string,
): Promise<boolean> =>
  (
    await firstOf(
      database.query<{ apart: boolean }>(
        statement(
          `with own as (
             insert into penstock.storage_folders as f (node_id, mark) values ($1, $2)
             on conflict (node_id) do update set mark = excluded.mark where f.mark <> excluded.mark),
           gone as (
             delete from penstock.storage_folders f where f.node_id <> $1
               and not exists (select from penstock.nodes n where n.node_id = f.node_id))
           select exists (select from penstock.storage_folders f join penstock.nodes n using (node_id)
             where f.node_id <> $1 and f.mark <> $2) as apart`,
          [nodeId, mark],
        ),
      ),
    )
  )?.apart === true;

export const forgetFolder = async (database: Queryable, nodeId: string): Promise<void> =>
  void (await database.query(
    statement('delete from penstock.storage_folders where node_id = $1', [nodeId]),
  ));
