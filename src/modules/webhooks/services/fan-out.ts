/**
 * From events to deliveries, in the transaction in which the position of this consumer moves on. A delivery is stored
 * for each endpoint and each record that an event names, under an id that stays the same for every try.
 */
import { all, type Condition, fieldTest, literal } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { NewItem } from '../../../kernel/queue/durable-queue.ts';
import { type EndpointRow, enabledEndpoints, noteProblem } from '../queries.ts';
import { typeOf } from './event-types.ts';
import type { WebhookParts } from './parts.ts';

/** Records that one transaction looks at; a single event may name a thousand. */
const MAX_RECORDS = 1_000;
const asModule = system('webhooks');

/** Something that happened to one record, or something else. */
interface Fact {
  readonly event: PublishedEvent;
  readonly type: string;
  readonly dedupe: string;
  /** Of events about records. */
  readonly record?: { readonly schema: string; readonly id: string; readonly gone: boolean };
}

const matches = (patterns: readonly string[], type: string): boolean =>
  patterns.some((pattern) =>
    pattern.endsWith('*') ? type.startsWith(pattern.slice(0, -1)) : pattern === type,
  );

export const concerns = (
  { events, schemas }: EndpointRow,
  type: string,
  schema?: string,
): boolean =>
  matches(events, type) &&
  (schema === undefined || schemas.length === 0 || schemas.includes(schema));

function factsOf(event: PublishedEvent): readonly Fact[] {
  const type = typeOf(event);
  const { sequence, schema, operation, ids = [] } = event;
  if (operation === undefined || schema === undefined)
    return [{ event, type, dedupe: `${sequence}` }];
  return ids.map((id, i) => ({
    ...{ event, type, dedupe: `${sequence}:${i}` },
    record: { schema, id, gone: operation === 'delete' },
  }));
}

/** Stores the deliveries of these events; answers the sequence of the last that it took. */
export async function fanOut(
  parts: WebhookParts,
  transaction: Transaction,
  events: readonly PublishedEvent[],
): Promise<number | undefined> {
  const endpoints = await enabledEndpoints(transaction);
  if (endpoints.length === 0) return undefined;
  const taken = firstOf(events);
  const facts = taken.flatMap(factsOf);
  const lookUp = createLookUp(parts);
  for (const endpoint of endpoints) {
    // Events are read after their commit: some may be from when the endpoint was off.
    const since = endpoint.enabledAt.toISOString();
    const found = facts.filter(
      ({ event, type, record }) =>
        event.occurredAt >= since && concerns(endpoint, type, record?.schema),
    );
    if (found.length > 0)
      await parts.queue.add(transaction, await itemsOf(parts, endpoint, { found, lookUp }));
  }
  return taken.at(-1)?.sequence;
}

/** As many events as name `MAX_RECORDS`, one at least. */
function firstOf(events: readonly PublishedEvent[]): readonly PublishedEvent[] {
  let records = 0;
  const end = events.findIndex(({ ids = [] }, i) => {
    records += ids.length;
    return i > 0 && records > MAX_RECORDS;
  });
  return end < 0 ? events : events.slice(0, end);
}

type Found = ReadonlyMap<string, unknown>;
type LookUp = (
  endpoint: EndpointRow,
  schema: string,
  ids: readonly string[],
) => Promise<Found | undefined>;

interface Matching {
  readonly found: readonly Fact[];
  readonly lookUp: LookUp;
}

async function itemsOf(
  { config }: WebhookParts,
  endpoint: EndpointRow,
  { found, lookUp }: Matching,
): Promise<readonly NewItem[]> {
  const records = await recordsOf(endpoint, found, lookUp);
  const { maxBodyBytes } = config().delivery;
  return found.flatMap((fact): readonly NewItem[] => {
    const { record } = fact;
    const seen = record && records.get(record.schema);
    if (endpoint.condition && record && !record.gone && !seen?.has(record.id)) return [];
    const body = bodyOf(endpoint, fact, record && seen?.get(record.id), maxBodyBytes);
    const orderKey = endpoint.ordered ? keyOf(fact) : undefined;
    return [{ target: endpoint.id, dedupe: fact.dedupe, orderKey, data: body }];
  });
}

const keyOf = ({ record, event }: Fact): string =>
  record ? `${record.schema}:${record.id}` : (event.ids?.[0] ?? event.topic);

/** The records that the deliveries of an endpoint need, by schema and id: those that fit its condition. */
async function recordsOf(
  endpoint: EndpointRow,
  found: readonly Fact[],
  lookUp: LookUp,
): Promise<ReadonlyMap<string, Found>> {
  const there = found.flatMap(({ record }) => (record && !record.gone ? [record] : []));
  if (!endpoint.condition && endpoint.payload === 'ids') return new Map();
  const seen = new Map<string, Found>();
  for (const [schema, records] of Map.groupBy(there, (record) => record.schema)) {
    const result = await lookUp(endpoint, schema, [...new Set(records.map(({ id }) => id))]);
    if (result) seen.set(schema, result);
  }
  return seen;
}

/** Reads records as anybody with all rights sees them: hidden fields are never among them. */
function createLookUp(parts: WebhookParts): LookUp {
  const { records, database, log } = parts;
  const known = new Map<string, Promise<Found>>();

  const read = async (
    schema: string,
    ids: readonly string[],
    condition: Condition | undefined,
  ): Promise<Found> => {
    const filter = fieldTest('_id', { kind: 'in', right: literal(ids) });
    const options = { filter: condition ? all(condition, filter) : filter, granted: true };
    const json = await database.part(() => records.find(asModule, schema, options));
    const list = JSON.parse(json) as readonly { readonly _id: string }[];
    return new Map(list.map((record) => [record._id, record]));
  };

  return async (endpoint, schema, ids) => {
    try {
      if (endpoint.condition) {
        const seen = await read(schema, ids, parseFilter(endpoint.condition, 'condition'));
        await noteProblem(database, endpoint.id, null);
        return seen;
      }
      const key = `${schema} ${ids.join()}`;
      const reading = known.get(key) ?? read(schema, ids, undefined);
      known.set(key, reading);
      return await reading;
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) throw error;
      log.warn(
        { err: error, endpoint: endpoint.name, schema },
        'A webhook could not look at records',
      );
      await noteProblem(database, endpoint.id, `${schema}: ${error.message}`);
      return undefined;
    }
  };
}

function bodyOf(
  { payload }: EndpointRow,
  { event, type, record }: Fact,
  seen: unknown,
  maxBytes: number,
): Record<string, unknown> {
  const head = { type, timestamp: event.occurredAt };
  if (!record) return { ...head, data: { ...event.payload, ...(event.ids && { ids: event.ids }) } };
  const data = { schema: record.schema, id: record.id };
  if (payload === 'ids' || seen === undefined) return { ...head, data };
  const whole = { ...head, data: { ...data, record: seen } };
  return Buffer.byteLength(JSON.stringify(whole)) <= maxBytes
    ? whole
    : { ...head, data: { ...data, tooLarge: true } };
}
