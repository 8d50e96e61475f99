/** SQL of other modules: one statement, reading only, with parameters, and with an end. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import type { RawOptions } from './contract.ts';

const TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 60_000;

export interface RawQuery extends RawOptions {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Throws 403 for callers other than the platform itself. */
export async function rawQuery<R>(
  database: Database,
  caller: Caller,
  { text, values, timeoutMs = TIMEOUT_MS }: RawQuery,
): Promise<readonly R[]> {
  if (caller.kind !== 'system')
    throw errors.FORBIDDEN({ message: 'Raw queries are for the platform itself: rows are no matter of permission there' });
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS)) throw invalid('timeoutMs', 'range', `must be 1 to ${MAX_TIMEOUT_MS}`);
  // With a parameter, PostgreSQL takes one statement and no more; as a sub-select, it can only read.
  const guard = `$${values.length + 1}::boolean`;
  const statement = { text: `select raw.* from (${text}\n) raw where ${guard}`, values: [...values, true] };
  return undone(database, async (part) => {
    await part.query({ text: 'set local transaction_read_only = on' });
    await part.query({ text: `set local statement_timeout = ${Math.ceil(timeoutMs)}` });
    return (await part.query<R>(statement)).rows;
  });
}

class Undone<T> extends Error {
  readonly value: T;
  constructor(value: T) {
    super('Undone');
    this.value = value;
  }
}

/** Settings that hold for a part of a transaction end with it only when it is undone; there is nothing else to undo. */
async function undone<T>(database: Database, work: (part: Transaction) => Promise<T>): Promise<T> {
  try {
    return await database.part(async (part) => {
      throw new Undone(await work(part));
    });
  } catch (error) {
    if (error instanceof Undone) return error.value as T;
    throw error;
  }
}
