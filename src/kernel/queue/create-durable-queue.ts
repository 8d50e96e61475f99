/** Makes durable queues over one table (contract: durable-queue.ts). */
import type { Database, Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { isId, newId } from '../ids.ts';
import type { DurableQueue, ItemFilter, ItemRow, NewItem, QueueFigures } from './durable-queue.ts';
import { startWorker } from './queue-worker.ts';

/** Items of one statement of a purge. */
const PURGED = 1_000;

const uniqueItems = (items: readonly NewItem[]) =>
  items.map(({ target, dedupe, orderKey, data, dueAt }) => ({
    id: newId(),
    target,
    dedupe,
    order_key: orderKey ?? null,
    data,
    due_at: dueAt?.toISOString() ?? null,
  }));

async function add(
  queryable: Queryable,
  queue: string,
  items: readonly NewItem[],
): Promise<number> {
  if (items.length === 0) return 0;
  const { count } = await queryable.query(sql`
    insert into penstock.queue_items (id, queue, target, dedupe, order_key, data, due_at)
    select x.id, ${queue}, x.target, x.dedupe, x.order_key, x.data, coalesce(x.due_at, now())
    from rows from (json_to_recordset(${JSON.stringify(uniqueItems(items))}::json)
      as (id uuid, target text, dedupe text, order_key text, data jsonb, due_at timestamptz)) with ordinality as x(id, target, dedupe, order_key, data, due_at, n)
    order by x.n
    on conflict on constraint queue_items_once do nothing`);
  return count;
}

async function list(
  database: Database,
  queue: string,
  { target, state }: ItemFilter,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ items: ItemRow[]; count: number }> {
  const where = `($2::text is null or target = $2) and ($3::text is null or state = $3)`;
  const { rows } = await database.query<ItemRow>({
    text: `${itemView} and ${where} order by seq desc offset $4 limit $5`,
    values: [queue, target ?? null, state ?? null, skip, limit],
  });
  const counted = await database.query<{ count: number }>(sql`
    select count(*)::int as count from penstock.queue_items
    where queue = ${queue} and (${target ?? null}::text is null or target = ${target ?? null})
      and (${state ?? null}::text is null or state = ${state ?? null})`);
  return { items: rows, count: counted.rows[0]?.count ?? 0 };
}

const itemView = `select id::text as id, target, order_key as "orderKey", data, state, attempts, tries, due_at as "dueAt",
  lease is not null and due_at > now() as running, created_at as "createdAt", finished_at as "finishedAt"
  from penstock.queue_items where queue = $1`;

async function get(database: Database, queue: string, id: string): Promise<ItemRow | undefined> {
  if (!isId(id)) return undefined;
  const statement = { text: `${itemView} and id = $2::uuid`, values: [queue, id] };
  return (await database.query<ItemRow>(statement)).rows[0];
}

async function find(
  database: Database,
  queue: string,
  [target, dedupe]: readonly [target: string, dedupe: string],
): Promise<ItemRow | undefined> {
  const text = `${itemView} and target = $2 and dedupe = $3`;
  return (await database.query<ItemRow>({ text, values: [queue, target, dedupe] })).rows[0];
}

async function repeat(queryable: Queryable, queue: string, id: string): Promise<boolean> {
  if (!isId(id)) return false;
  const { count } = await queryable.query(sql`
    update penstock.queue_items set state = 'waiting', attempts = 0, due_at = now(), lease = null, finished_at = null
    where queue = ${queue} and id = ${id}::uuid and (state in ('done', 'dead') or (state = 'waiting' and lease is null))`);
  return count > 0;
}

async function repeatDead(
  queryable: Queryable,
  queue: string,
  { target, since, max }: { readonly target: string; readonly since: Date; readonly max: number },
): Promise<number> {
  const { count } = await queryable.query(sql`
    update penstock.queue_items set state = 'waiting', attempts = 0, due_at = now(), lease = null, finished_at = null
    where id = any(array(select id from penstock.queue_items where queue = ${queue} and target = ${target}
      and state = 'dead' and finished_at >= ${since} order by finished_at, seq limit ${max} for update))`);
  return count;
}

async function purge(
  database: Database,
  queue: string,
  { done, dead }: { readonly done: number; readonly dead: number },
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.queue_items where id = any(array(
      select id from penstock.queue_items where queue = ${queue} and finished_at is not null and (
        (state = 'done' and finished_at < now() - make_interval(days => ${done}))
        or (state = 'dead' and finished_at < now() - make_interval(days => ${dead}))
      ) limit ${PURGED}))`);
  return count;
}

async function figures(database: Database, queue: string): Promise<QueueFigures> {
  const { rows } = await database.query<QueueFigures>(sql`
    select count(*) filter (where state = 'waiting')::int as waiting,
      count(*) filter (where state = 'dead')::int as dead,
      coalesce(extract(epoch from now() - min(due_at) filter (where state = 'waiting' and due_at <= now())), 0)::float8
        as "lagSeconds"
    from penstock.queue_items where queue = ${queue} and state in ('waiting', 'dead')`);
  return rows[0] ?? { waiting: 0, dead: 0, lagSeconds: 0 };
}

/** The queue of a name. It costs nothing while nobody adds to it or works on it. */
export const createDurableQueue = (database: Database, name: string): DurableQueue => ({
  add: (transaction, items) => add(transaction, name, items),
  work: (options) => startWorker(database, name, options),
  list: (filter, page) => list(database, name, filter, page),
  get: (id) => get(database, name, id),
  find: (target, dedupe) => find(database, name, [target, dedupe]),
  repeat: (transaction, id) => repeat(transaction, name, id),
  repeatDead: (transaction, which) => repeatDead(transaction, name, which),
  async hold(transaction, target) {
    await transaction.query(sql`
      update penstock.queue_items set state = 'held', lease = null
      where queue = ${name} and target = ${target} and state = 'waiting'`);
  },
  async resume(transaction, target) {
    await transaction.query(sql`
      update penstock.queue_items set state = 'waiting', due_at = now()
      where queue = ${name} and target = ${target} and state = 'held'`);
  },
  async remove(transaction, target) {
    await transaction.query(
      sql`delete from penstock.queue_items where queue = ${name} and target = ${target}`,
    );
  },
  purge: (days) => purge(database, name, days),
  figures: () => figures(database, name),
});
