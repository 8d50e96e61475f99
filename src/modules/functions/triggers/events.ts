/**
 * From events to runs that wait: of functions for events, of hooks after a write, of workflows that an event begins or
 * that wait for one. Written in the transaction in which the position of the events moves on.
 */
import { fieldTest, literal } from '../../../data/conditions/condition.ts';
import { inFittingParts } from '../../../data/records/fitting-parts.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { NewItem } from '../../../kernel/queue/durable-queue.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { topicsAfter } from './hooks.ts';
import { operationWords, type RunData, type TriggerParts } from './parts.ts';

/** Runs of one transaction; a single event may be about a thousand records. */
const MAX_RECORDS = 1_000;

/** Whether a function has something to do with events at all. */
export const followsEvents = ({ functionType, inputs }: StoredFunction): boolean =>
  functionType === 'event' ||
  functionType === 'workflow' ||
  (functionType === 'hook' && inputs.trigger?.when === 'after');

function concerns({ functionType, inputs }: StoredFunction, event: PublishedEvent): boolean {
  if (functionType === 'event' || functionType === 'workflow')
    return inputs.event !== undefined && matches(inputs.event, event.topic);
  const { trigger } = inputs;
  if (trigger?.when !== 'after') return false;
  if (topicsAfter(trigger.op).some((topic) => matches(topic, event.topic))) return true;
  return (
    event.operation !== undefined &&
    event.schema === trigger.schema &&
    operationWords[event.operation] === trigger.op
  );
}

/** A star at the end stands for anything. */
export const matches = (pattern: string, topic: string): boolean =>
  pattern.endsWith('*') ? topic.startsWith(pattern.slice(0, -1)) : pattern === topic;

/** Stores the runs that these events cause; answers the sequence of the last that it took. */
export async function fanOutRuns(
  parts: TriggerParts,
  transaction: Transaction,
  events: readonly PublishedEvent[],
): Promise<number | undefined> {
  const functions = parts.store.all().filter((one) => one.enabled && followsEvents(one));
  const taken = firstOf(events);
  const items: NewItem[] = [];
  for (const event of taken) {
    const concerned = functions.filter((one) => concerns(one, event));
    const paths = new Set(concerned.flatMap(({ inputs }) => inputs.orderBy ?? []));
    const keys = paths.size > 0 ? await orderKeysOf(parts, event, paths) : noKeys;
    items.push(...concerned.flatMap((one) => itemsOf(one, event, keys)));
  }
  await parts.queue.add(transaction, items);
  await wakeWaiting(transaction, taken);
  return taken.at(-1)?.sequence;
}

function firstOf(events: readonly PublishedEvent[]): readonly PublishedEvent[] {
  let records = 0;
  const end = events.findIndex(({ ids = [] }, i) => {
    records += ids.length;
    return i > 0 && records > MAX_RECORDS;
  });
  return end < 0 ? events : events.slice(0, end);
}

/** What runs about a record are ordered by: by the path of a field and the id of the record. */
type OrderKeys = ReadonlyMap<string, ReadonlyMap<string, string>>;
const noKeys: OrderKeys = new Map();
const asModule = system('functions');

/** Of the records that an event is about, as far as they are there and not hidden. */
async function orderKeysOf(
  { records, database, log }: TriggerParts,
  { schema, operation, ids = [] }: PublishedEvent,
  paths: ReadonlySet<string>,
): Promise<OrderKeys> {
  if (schema === undefined || operation === undefined || operation === 'delete') return noKeys;
  const keys = new Map([...paths].map((path) => [path, new Map<string, string>()]));
  const read = async (some: readonly string[]): Promise<void> => {
    const filter = fieldTest('_id', { kind: 'in', right: literal(some) });
    const json = await database.part(() =>
      records.find(asModule, schema, { filter, granted: true }),
    );
    for (const record of JSON.parse(json) as readonly { readonly _id: string }[])
      for (const [path, known] of keys) {
        const key = keyAt(path, record);
        if (key !== undefined) known.set(record._id, key);
      }
  };
  try {
    await inFittingParts(ids, read, async (id) =>
      log.warn(
        { schema, id },
        'A record is too large to be read: its runs have an order of their own',
      ),
    );
  } catch (error) {
    // The schema is gone: there is nothing to order by.
    if (error instanceof PenstockError && error.status < 500) return noKeys;
    throw error;
  }
  return keys;
}

/** One run for each record that an event is about, or for the event. */
function itemsOf(
  definition: StoredFunction,
  event: PublishedEvent,
  keys: OrderKeys,
): readonly NewItem[] {
  const { _id: target, functionType, inputs } = definition;
  const { sequence, topic, occurredAt, schema, operation, payload, causes } = event;
  const kind = functionType === 'hook' ? 'hook' : 'event';
  const about = { sequence, topic, occurredAt, ...(causes && { causes }) };
  const base = { ...about, ...(schema !== undefined && { schema }), ...(payload && { payload }) };
  if (functionType === 'workflow') {
    const input = { ...base, ...(event.ids && { ids: event.ids }) };
    const data: RunData = { kind: 'workflow', input, ...(causes && { causes }) };
    return [{ target, dedupe: `event:${sequence}`, data }];
  }
  if (operation === undefined || schema === undefined) {
    const data: RunData = { kind, ...base, ...(event.ids && { ids: event.ids }) };
    const orderKey = keyAt(inputs.orderBy, event.payload) ?? event.ids?.[0] ?? topic;
    return [{ target, dedupe: `event:${sequence}`, orderKey, data }];
  }
  return (event.ids ?? []).map((id, i) => {
    const data: RunData = { kind, ...base, operation, ids: [id] };
    const orderKey = keys.get(inputs.orderBy ?? '')?.get(id) ?? `${schema}:${id}`;
    return { target, dedupe: `event:${sequence}:${i}`, orderKey, data };
  });
}

/** What runs in order: the value at a path (`orderBy`) in the record or the payload, where there is one. */
function keyAt(path: string | undefined, source: unknown): string | undefined {
  if (path === undefined) return undefined;
  let value = source;
  for (const name of path.split('.'))
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined;
  const isKey = typeof value === 'string' || typeof value === 'number';
  return isKey ? `by:${String(value).slice(0, 200)}` : undefined;
}

/**
 * Workflows that wait for one of these events go on, with the event as the value of their step. One whose run has not
 * ended yet is left alone: the end of the run sees the step (`whenSuspended`). It is woken by a statement of its own:
 * the first one may have waited for the end of a run, and would not see what that has written.
 */
async function wakeWaiting(
  transaction: Transaction,
  events: readonly PublishedEvent[],
): Promise<void> {
  const list = events.map(({ topic, ids, schema, payload, occurredAt }) => ({
    topic,
    ids: ids ?? [],
    value: { topic, occurredAt, ids: ids ?? [], schema: schema ?? null, payload: payload ?? null },
  }));
  const { rows } = await transaction.query<{ item: string }>(sql`
    with e as (
      select x.* from rows from (json_to_recordset(${JSON.stringify(list)}::json)
        as (topic text, ids jsonb, value jsonb)) with ordinality as x(topic, ids, value, n)
    )
    update penstock.function_steps s set value = f.value, done = true
    from (
      select distinct on (w.item, w.name) w.item, w.name, e.value from penstock.function_steps w
      join e on e.topic = w.topic and (w.about is null or e.ids ? w.about)
      where not w.done and w.topic = any(${list.map(({ topic }) => topic)}::text[])
      order by w.item, w.name, e.n
    ) f where s.item = f.item and s.name = f.name and not s.done
    returning s.item::text as item`);
  if (rows.length === 0) return;
  await transaction.query(sql`
    update penstock.queue_items set due_at = now()
    where id = any(${rows.map(({ item }) => item)}::uuid[]) and state = 'waiting' and lease is null`);
}
