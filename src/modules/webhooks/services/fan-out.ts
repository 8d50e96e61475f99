/**
 * From events to deliveries, in the transaction in which the position of this consumer moves on. A delivery is stored
 * for each endpoint and each record that an event names, under an id that stays the same for every try.
 */
import { all, type Condition, fieldTest, literal } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { isTooLargeTogether } from '../../../data/records/answer-bytes.ts';
import { inFittingParts } from '../../../data/records/fitting-parts.ts';
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
/** Of records that are kept for the next endpoint. */
const MAX_SHARED_BYTES = 16 * 1024 * 1024;
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
    await inFittingParts(
      found,
      async (some) => {
        const records = await recordsOf(endpoint, some, lookUp);
        await parts.queue.add(transaction, itemsOf(parts, endpoint, some, records));
      },
      async (fact) =>
        void (await parts.queue.add(transaction, itemsOf(parts, endpoint, [fact], 'too large'))),
    );
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

/** Records by schema and id. */
type Seen = ReadonlyMap<string, Found> | 'too large';

function itemsOf(
  { config }: WebhookParts,
  endpoint: EndpointRow,
  facts: readonly Fact[],
  seen: Seen,
): readonly NewItem[] {
  const { maxBodyBytes } = config().delivery;
  return facts.flatMap((fact): readonly NewItem[] => {
    const { record } = fact;
    const found = typeof seen === 'string' ? undefined : record && seen.get(record.schema);
    const isUnfit = endpoint.condition && record && !record.gone && !found?.has(record.id);
    // A record that nobody can read may fit: its receiver is told that it was too large.
    if (isUnfit && seen !== 'too large') return [];
    const body =
      seen === 'too large' && record
        ? tooLargeBody(fact, record)
        : bodyOf(endpoint, fact, record && found?.get(record.id), maxBodyBytes);
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
  /** What several endpoints ask for, as far as it takes little memory. */
  const known = new Map<string, Found>();
  let keptBytes = 0;

  const read = async (
    schema: string,
    ids: readonly string[],
    condition?: Condition,
  ): Promise<{ readonly found: Found; readonly bytes: number }> => {
    const filter = fieldTest('_id', { kind: 'in', right: literal(ids) });
    const options = { filter: condition ? all(condition, filter) : filter, granted: true };
    const json = await database.part(() => records.find(asModule, schema, options));
    const list = JSON.parse(json) as readonly { readonly _id: string }[];
    const found = new Map(list.map((record) => [record._id, record]));
    return { found, bytes: json.length };
  };

  const readShared = async (schema: string, ids: readonly string[]): Promise<Found> => {
    const key = `${schema} ${ids.join()}`;
    const kept = known.get(key);
    if (kept) return kept;
    const { found, bytes } = await read(schema, ids);
    keptBytes += bytes;
    if (keptBytes <= MAX_SHARED_BYTES) known.set(key, found);
    return found;
  };

  return async (endpoint, schema, ids) => {
    try {
      if (!endpoint.condition) return await readShared(schema, ids);
      const { found } = await read(schema, ids, parseFilter(endpoint.condition, 'condition'));
      await noteProblem(database, endpoint.id, null);
      return found;
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) throw error;
      if (isTooLargeTogether(error)) throw error;
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
  const isSmall = Buffer.byteLength(JSON.stringify(whole)) <= maxBytes;
  return isSmall ? whole : tooLargeBody({ event, type }, record);
}

const tooLargeBody = (
  { event, type }: Pick<Fact, 'event' | 'type'>,
  { schema, id }: NonNullable<Fact['record']>,
): Record<string, unknown> => ({
  ...{ type, timestamp: event.occurredAt },
  data: { schema, id, tooLarge: true },
});
