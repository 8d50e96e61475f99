/** Works on one queue on this node: claims items that are due, runs them, and writes down what became of them. */
import { randomUUID } from 'node:crypto';
import type { Database, Transaction } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { createWakeup } from '../events/relay.ts';
import { offAccount } from '../request-account/request-account.ts';
import { cutText, storableJson } from '../text.ts';
import type { Attempt, QueueItem, QueueWorker, Verdict, WorkerOptions } from './durable-queue.ts';

const LEASE_MS = 30_000;
/** Milliseconds between two looks at most: for items of nodes that died. New items of this node wake it. */
const LOOK_EVERY_MS = 5_000;
/** Milliseconds to wait after an error of the database. */
const RECOVER_MS = 1_000;
/** Tries that are kept with an item, the youngest ones. */
const KEPT_TRIES = 50;

interface Claimed extends QueueItem {
  /** A node had begun a try and did not end it. */
  readonly lost: boolean;
  readonly startedAt: string;
}

interface Running {
  readonly item: Claimed;
  readonly done: Promise<void>;
}

interface WorkerState {
  readonly database: Database;
  readonly queue: string;
  readonly options: WorkerOptions;
  readonly leaseMs: number;
  /** Of this worker: what another one took in the meantime is not ended by this one. */
  readonly token: string;
  readonly running: Map<string, Running>;
  readonly ended: AbortController;
}

export function startWorker(
  database: Database,
  queue: string,
  options: WorkerOptions,
): QueueWorker {
  const { log, leaseMs = LEASE_MS } = options;
  const bell = createWakeup();
  const ended = new AbortController();
  const running = new Map<string, Running>();
  const state: WorkerState = {
    ...{ database, queue, options, leaseMs, running, ended },
    token: randomUUID(),
  };

  const begin = (item: Claimed): void => {
    const done = runItem(state, item).finally(() => {
      running.delete(item.id);
      bell.ring();
    });
    running.set(item.id, { item, done });
  };

  const turn = async (): Promise<number> => {
    const look = await claim(state);
    for (const item of look.claimed) begin(item);
    return look.claimed.length > 0 ? 0 : untilNext(state, look);
  };
  const recover = (error: unknown): number => {
    if (!ended.signal.aborted)
      log.warn({ err: error, queue }, 'Waiting work could not be read; trying again');
    return RECOVER_MS;
  };
  const loop = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const waitMs = await turn().catch(recover);
      if (waitMs > 0 && !ended.signal.aborted) await bell.wait(waitMs);
    }
  };
  const looping = offAccount(() => loop());
  const heartbeat = setInterval(() => void keepLeases(state), leaseMs / 3);
  heartbeat.unref();

  return {
    wake: bell.ring,
    async stop(timeoutMs = 5_000) {
      ended.abort();
      bell.ring();
      await looping;
      const all = Promise.allSettled([...running.values()].map(({ done }) => done));
      const over = Promise.withResolvers<void>();
      const timer = setTimeout(over.resolve, timeoutMs);
      await Promise.race([all, over.promise]);
      clearTimeout(timer);
      clearInterval(heartbeat);
    },
  };
}

/** What a look has found. */
interface Look {
  /** On the clock of the database; nothing where nobody had room to look. */
  readonly at: string | null;
  readonly claimed: readonly Claimed[];
}

/**
 * For each target with room, its oldest due items; of a lane only the first. Who has least running goes first: what
 * came later for somebody else does not stand behind all that waits for a few slow ones. What runs here is never begun
 * again beside itself: after a pause of this process, or of the database, its own leases are over too. What is repeated
 * (it has tries, and none of this round) waits for the one of its lane that runs, which came after it.
 */
async function claim(state: WorkerState): Promise<Look> {
  const { database, queue, options, running, token, leaseMs } = state;
  const room = options.concurrency() - running.size;
  if (room <= 0) return { at: null, claimed: [] };
  const perTarget = options.perTarget();
  const used = Map.groupBy(running.values(), ({ item }) => item.target);
  const rooms = [...used].map(([target, items]) => [target, perTarget - items.length] as const);
  const { rows } = await database.query<{ at: string } & (Claimed | { id: null })>(sql`
    with recursive targets as (
      (select target from penstock.queue_items where queue = ${queue} and state = 'waiting' order by target limit 1)
      union all
      select (select i.target from penstock.queue_items i
        where i.queue = ${queue} and i.state = 'waiting' and i.target > t.target order by i.target limit 1)
      from targets t where t.target is not null
    ), due as (
      select d.id from (
        select t.target, coalesce(r.room, ${perTarget}::int) as room from targets t
        left join unnest(${rooms.map(([target]) => target)}::text[], ${rooms.map(([, left]) => left)}::int[]) r(target, room)
          on r.target = t.target
        where t.target is not null
      ) t cross join lateral (
        select i.id, i.due_at, i.seq from penstock.queue_items i
        where i.queue = ${queue} and i.target = t.target and i.state = 'waiting' and i.due_at <= now()
          and not i.id = any(${[...running.keys()]}::uuid[])
          and (i.order_key is null or not exists (
            select from penstock.queue_items e where e.queue = i.queue and e.target = i.target
              and e.order_key = i.order_key and e.state = 'waiting' and e.seq < i.seq))
          and (i.order_key is null or i.attempts > 0 or i.tries = '[]' or not exists (
            select from penstock.queue_items e where e.queue = i.queue and e.target = i.target
              and e.order_key = i.order_key and e.state = 'waiting' and e.lease is not null and e.due_at > now()))
        order by i.due_at, i.seq limit greatest(t.room, 0) for update skip locked
      ) d order by ${perTarget}::int - t.room + row_number() over (partition by t.target order by d.due_at, d.seq), d.due_at
      limit ${room}
    ), found as (
      select i.id, i.lease is not null as lost from penstock.queue_items i where i.id in (select id from due)
    ), claimed as (
      update penstock.queue_items i set attempts = i.attempts + 1, lease = ${token}::uuid, leased_at = now(),
        due_at = now() + make_interval(secs => ${leaseMs / 1000}::float8)
      from found f where i.id = f.id and i.state = 'waiting'
      returning i.id::text as id, i.target, i.order_key as "orderKey", i.data, i.attempts as attempt,
        i.created_at as "createdAt", f.lost, to_json(i.leased_at)#>>'{}' as "startedAt"
    )
    select to_json(now())#>>'{}' as at, c.* from (select) this left join claimed c on true`);
  return { at: rows[0]?.at ?? null, claimed: rows.filter((row) => row.id !== null) };
}

/**
 * Milliseconds until the next item is due, as far as it is known now. What has become due since a look was no item of
 * that look, and is not waited for.
 */
async function untilNext({ database, queue }: WorkerState, { at }: Look): Promise<number> {
  const { rows } = await database.query<{ ms: number | null }>(sql`
    select (extract(epoch from min(due_at) - now()) * 1000)::float8 as ms from penstock.queue_items
    where queue = ${queue} and state = 'waiting' and due_at < now() + interval '5 seconds'
      and due_at > coalesce(${at}::timestamptz, now())`);
  const ms = rows[0]?.ms ?? LOOK_EVERY_MS;
  return Math.min(Math.max(ms + 1, 5), LOOK_EVERY_MS);
}

async function keepLeases({ database, token, running, leaseMs, options }: WorkerState) {
  const ids = [...running.keys()];
  if (ids.length === 0) return;
  await database
    .query(sql`
      update penstock.queue_items set due_at = now() + make_interval(secs => ${leaseMs / 1000}::float8)
      where id = any(${ids}::uuid[]) and lease = ${token}::uuid and state = 'waiting'`)
    .catch((error: unknown) => options.log.warn({ err: error }, 'Leases could not be kept up'));
}

async function runItem(state: WorkerState, item: Claimed): Promise<void> {
  const { options, ended } = state;
  const began = performance.now();
  const at = new Date().toISOString();
  const verdict = await options
    .handle(item, ended.signal)
    .catch((error: unknown): Verdict => failed(options, item, error));
  const durationMs = Math.round(performance.now() - began);
  try {
    const isWritten = await finish(state, item, { verdict, at, durationMs });
    if (isWritten && verdict.outcome === 'dead')
      options.log.warn({ item: item.id, target: item.target, tries: item.attempt }, verdict.log);
  } catch (error) {
    options.log.warn(
      { err: error, queue: state.queue, item: item.id },
      'What became of a try could not be written down: it is tried again',
    );
  }
}

function failed(options: WorkerOptions, item: QueueItem, error: unknown): Verdict {
  options.log.warn({ err: error, target: item.target, item: item.id }, 'A try failed');
  const message = error instanceof Error ? error.message : String(error);
  return {
    outcome: 'again',
    afterMs: options.retryAfterMs(item),
    note: { error: cutText(message, 500) },
  };
}

interface Ending {
  readonly verdict: Verdict;
  readonly at: string;
  readonly durationMs: number;
}

function attemptsOf(item: Claimed, { verdict, at, durationMs }: Ending): readonly Attempt[] {
  const lost: readonly Attempt[] = item.lost
    ? [{ at: item.startedAt, durationMs: 0, outcome: 'lost' }]
    : [];
  if (verdict.outcome === 'again' && verdict.counts === false) return lost;
  const outcome = verdict.outcome === 'done' ? 'done' : 'failed';
  return [...lost, { at, durationMs, outcome, ...(verdict.note && { note: verdict.note }) }];
}

/** Writes down the end of a try; false when another node has taken the item, or its target is gone or held. */
async function finish(state: WorkerState, item: Claimed, ending: Ending): Promise<boolean> {
  const { verdict } = ending;
  const again = verdict.outcome === 'again';
  const uncounted = again && verdict.counts === false ? 1 : 0;
  const afterMs = again ? verdict.afterMs : 0;
  const next = again ? 'waiting' : verdict.outcome;
  // Words of others: what cannot be stored would have the item tried for ever.
  const tries = storableJson(attemptsOf(item, ending));
  return state.database.transaction(async (transaction) => {
    const { count } = await transaction.query(sql`
      update penstock.queue_items set state = ${next}, lease = null, attempts = attempts - ${uncounted},
        due_at = now() + make_interval(secs => ${afterMs / 1000}::float8),
        finished_at = case when ${again} then null else now() end,
        tries = (select coalesce(jsonb_agg(t order by n), '[]') from (
          select t, n from jsonb_array_elements(tries || ${tries}::jsonb) with ordinality as x(t, n)
          order by n desc limit ${KEPT_TRIES}) kept)
      where id = ${item.id}::uuid and lease = ${state.token}::uuid and state = 'waiting'`);
    if (count === 0) return false;
    await moveLane(transaction, state.queue, item, afterMs);
    await verdict.hooked?.(transaction);
    return true;
  });
}

/** Those behind it in its lane wait as long as it does, and no longer once it has ended. */
async function moveLane(
  transaction: Transaction,
  queue: string,
  item: Claimed,
  afterMs: number,
): Promise<void> {
  if (item.orderKey === null || (item.attempt === 1 && afterMs === 0)) return;
  await transaction.query(sql`
    update penstock.queue_items set due_at = now() + make_interval(secs => ${afterMs / 1000}::float8)
    where queue = ${queue} and target = ${item.target} and order_key = ${item.orderKey} and state = 'waiting'
      and lease is null and id <> ${item.id}::uuid`);
}
