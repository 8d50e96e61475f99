/**
 * The rows of one statement, however many they are, in batches that fit into
 * memory: a cursor of PostgreSQL inside a transaction, hence one snapshot. The
 * transaction lives as long as somebody reads; it ends with the last row, when
 * the reader stops, or when the signal is aborted.
 */
import { randomBytes } from 'node:crypto';
import { offAccount } from '../request-account/request-account.ts';
import type { Database, Statement, Transaction } from './database.ts';

export interface StreamOptions<R> {
  readonly signal?: AbortSignal;
  /** Bytes of one row, roughly; batches aim at a megabyte. */
  readonly sizeOf: (row: R) => number;
}

/** Milliseconds that PostgreSQL may take for one batch; the first one includes sorting. */
const BATCH_TIMEOUT_MS = 120_000;
const TARGET_BYTES = 1_048_576;
const FIRST_BATCH = 50;
const MAX_BATCH = 2_000;

/** Inside an open transaction of the same flow the rows are those of that transaction. */
export async function* streamRows<R>(
  database: Database,
  statement: Statement,
  options: StreamOptions<R>,
): AsyncGenerator<R[]> {
  const { signal } = options;
  const hand = createHandover<R[]>();
  const stop = (): void => hand.stop(signal?.reason);
  signal?.addEventListener('abort', stop, { once: true });
  const read = (transaction: Transaction): Promise<void> =>
    readBatches(transaction, statement, { ...options, give: hand.give });
  // What is read over minutes has time limits of its own.
  const work = offAccount(() => database.transaction(read, { readOnly: true, attempts: 1 }));
  work.then(hand.end, hand.stop);
  try {
    signal?.throwIfAborted();
    for (let batch = await hand.take(); batch !== undefined; batch = await hand.take()) yield batch;
  } finally {
    signal?.removeEventListener('abort', stop);
    hand.stop(undefined);
    await work.catch(() => undefined);
  }
}

interface Reading<R> extends StreamOptions<R> {
  /** False: nobody wants more. */
  readonly give: (batch: R[]) => Promise<boolean>;
}

async function readBatches<R>(
  transaction: Transaction,
  { text, values = [] }: Statement,
  { give, sizeOf }: Reading<R>,
): Promise<void> {
  // A transaction may hold several.
  const name = `streamed_${randomBytes(8).toString('hex')}`;
  await transaction.query({ text: `set local statement_timeout = ${BATCH_TIMEOUT_MS}` });
  await transaction.query({ text: `declare ${name} no scroll cursor for ${text}`, values });
  for (let size = FIRST_BATCH; ; ) {
    const { rows } = await transaction.query<R>({ text: `fetch ${size} from ${name}` });
    if (rows.length > 0 && !(await give(rows))) break;
    if (rows.length < size) break;
    const bytes = rows.reduce((sum, row) => sum + sizeOf(row), 0);
    size = Math.max(
      1,
      Math.min(MAX_BATCH, size * 2, Math.floor((TARGET_BYTES * rows.length) / Math.max(1, bytes))),
    );
  }
  await transaction.query({ text: `close ${name}` });
}

interface Handover<T> {
  /** Settles when the reader asks for the next item; false when it asks for nothing more. */
  give(item: T): Promise<boolean>;
  /** The next item; `undefined` at the end. */
  take(): Promise<T | undefined>;
  end(): void;
  /** Ends it from either side; with a reason, the reader sees that. */
  stop(reason: unknown): void;
}

/** From one flow to another, one item at a time: nothing is read before it is requested. */
function createHandover<T>(): Handover<T> {
  let reader: PromiseWithResolvers<T | undefined> | undefined;
  let writer: { readonly item: T; readonly resolve: (more: boolean) => void } | undefined;
  let given: ((more: boolean) => void) | undefined;
  let closed: { readonly reason: unknown } | undefined;

  const close = (reason: unknown): void => {
    closed ??= { reason };
    given?.(false);
    writer?.resolve(false);
    writer = undefined;
    if (!reader) return;
    if (closed.reason === undefined) reader.resolve(undefined);
    else reader.reject(closed.reason);
    reader = undefined;
  };

  return {
    give: (item) =>
      new Promise((resolve) => {
        if (closed) resolve(false);
        else if (reader) {
          reader.resolve(item);
          reader = undefined;
          given = resolve;
        } else writer = { item, resolve };
      }),
    async take() {
      // Asking for the next item says that the one before is done with.
      given?.(true);
      given = undefined;
      if (writer) {
        const { item, resolve } = writer;
        writer = undefined;
        given = resolve;
        return item;
      }
      if (closed) {
        if (closed.reason === undefined) return undefined;
        throw closed.reason;
      }
      reader = Promise.withResolvers<T | undefined>();
      return reader.promise;
    },
    end: () => close(undefined),
    stop: close,
  };
}
