/**
 * Reads that find a table other than the schema says, because that is being changed at this moment, on this node or on
 * another one: they are asked again, until the node has heard of the change.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import { codeOf } from '../database/failures.ts';
import { errors } from '../errors.ts';
import type { RecordReads } from './record-reads.ts';
import type { RecordHistory } from './store.ts';

/** Nodes hear of a change within 300 ms. */
const PAUSES_MS = [5, 20, 75, 250, 500];

/** undefined_table and undefined_column. */
const isOutdated = (error: unknown): boolean => codeOf(error) === '42P01' || codeOf(error) === '42703';

const changing = (cause: unknown): Error =>
  errors.UNAVAILABLE({ message: 'The schema was changed at this moment: try again', retryAfter: 1, cause });

/** Throws 503 when the change takes too long, or in a transaction, which is lost then. */
async function afresh<T>(database: Database, read: () => Promise<T>): Promise<T> {
  for (const pause of PAUSES_MS) {
    try {
      return await read();
    } catch (error) {
      if (!isOutdated(error)) throw error;
      if (database.inTransaction()) throw changing(error);
    }
    await sleep(pause);
  }
  return read().catch((error: unknown) => {
    throw isOutdated(error) ? changing(error) : error;
  });
}

/** The same for a stream, as long as nothing of it was read. */
async function* streamAfresh<T>(database: Database, read: () => AsyncIterable<T>): AsyncGenerator<T> {
  const { rest, first } = await afresh(database, async () => {
    const iterator = read()[Symbol.asyncIterator]();
    return { rest: iterator, first: await iterator.next() };
  });
  try {
    if (first.done) return;
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => rest };
  } finally {
    await rest.return?.();
  }
}

/** The same reads, where each begins with the schema. */
export const readsAfresh = (database: Database, reads: RecordReads): RecordReads => ({
  list: (...input) => afresh(database, () => reads.list(...input)),
  get: (...input) => afresh(database, () => reads.get(...input)),
  select: (...input) => afresh(database, () => reads.select(...input)),
  find: (...input) => afresh(database, () => reads.find(...input)),
  nearest: (...input) => afresh(database, () => reads.nearest(...input)),
  aggregate: (...input) => afresh(database, () => reads.aggregate(...input)),
  stream: (...input) => streamAfresh(database, () => reads.stream(...input)),
});

export const historyAfresh = (database: Database, history: RecordHistory): RecordHistory => ({
  ...history,
  list: (...input) => afresh(database, () => history.list(...input)),
  get: (...input) => afresh(database, () => history.get(...input)),
});
