/** Sends a body that is made while it is sent, at the pace of the client. */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { PenstockError } from '../../kernel/errors.ts';
import type { AnswerStream } from '../../kernel/operations/answer.ts';
import { ClientGoneError } from './body.ts';

/** Milliseconds in which a client that has been sent something must read on. */
export const STALL_MS = 60_000;

/**
 * Calls `begin` when there is a first piece, so that what fails before it can be answered as an error.
 * Rejects with the failure of the source, with 504 when the deadline passed, with `ClientGoneError` when
 * the client left or took nothing for a minute.
 */
export async function sendStream(response: ServerResponse, { chunks, signal }: AnswerStream, begin: () => void): Promise<void> {
  const source = chunks[Symbol.asyncIterator]();
  try {
    const first = await untilAborted(source.next(), signal);
    begin();
    await sendPieces(response, continued(first, source), signal);
  } catch (error) {
    throw failureOf(error, signal);
  } finally {
    // Not awaited: a source that hangs must not keep the exchange.
    source.return?.().catch(() => undefined);
  }
}

async function sendPieces(response: ServerResponse, pieces: AsyncIterable<Uint8Array | string>, signal: AbortSignal): Promise<void> {
  const stall = watchStall(response);
  try {
    await pipeline(Readable.from(pieces), response, { signal });
  } finally {
    stall.end();
  }
}

function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.reason instanceof PenstockError) return signal.reason;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const left = error === signal.reason || code === 'ABORT_ERR' || code === 'ERR_STREAM_PREMATURE_CLOSE';
  return left ? new ClientGoneError('The client went away before the answer was out') : error;
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** The rest of an iteration that has begun. */
async function* continued<T>(first: IteratorResult<T>, source: AsyncIterator<T>): AsyncGenerator<T> {
  for (let piece = first; !piece.done; piece = await source.next()) yield piece.value;
}

/** Looks now and then whether the client took anything while we had something for it. */
function watchStall(response: ServerResponse): { end(): void } {
  let before = -1;
  const timer = setInterval(() => {
    const written = response.socket?.bytesWritten ?? 0;
    const queued = response.writableLength;
    const taken = written - (response.socket?.writableLength ?? 0);
    if (queued > 0 && taken === before) response.destroy();
    before = taken;
  }, STALL_MS);
  timer.unref();
  return { end: () => clearInterval(timer) };
}
