/** Bodies that the handler reads piece by piece. Nothing is read before it asks, and no more than it asks for. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as immediate } from 'node:timers/promises';
import { errors, invalid, PenstockError } from '../../kernel/errors.ts';
import { anyType } from '../../kernel/operations/operation.ts';
import type { BodyStream, StreamDeclaration } from '../../kernel/operations/operation-input.ts';
import { REUSABLE_BYTES } from '../../kernel/operations/reply.ts';
import type { AnswerBytes, AnswerStream } from '../../kernel/pipeline/answer.ts';
import { currentAccount } from '../../kernel/request-account/request-account.ts';
import {
  announcesBody,
  ClientGoneError,
  heldAt,
  MIN_BYTES_PER_SECOND,
  refuseEncoded,
  refuseLong,
  tooLarge,
  tooSlow,
} from './body.ts';
import { allowLongRequest, endLongRequest } from './error-answers.ts';

/** Milliseconds without a byte after which a client that owes us more is given up. */
const SILENCE_MS = 60_000;
/** Milliseconds of waiting for the client after which its pace counts. */
const TRICKLE_MS = 10_000;

/** Describes the body without touching it. Throws 400 without a body, 413 and 415. */
export function openBodyStream(
  request: IncomingMessage,
  response: ServerResponse,
  { contentTypes, limit, mayBeEmpty, inMemory }: Omit<StreamDeclaration, 'limit'> & StreamLimit,
): BodyStream {
  if (!mayBeEmpty && !announcesBody(request)) throw invalid('body', 'required', 'is required');
  refuseLong(request, limit);
  const contentType = acceptedType(request, contentTypes);
  refuseEncoded(request);
  const length = request.headers['content-length'];
  return {
    contentType,
    contentTypeHeader: request.headers['content-type'] ?? '',
    length: length === undefined ? undefined : Number(length),
    [Symbol.asyncIterator]: () =>
      pieces(request, response, { limit, held: inMemory ? holding(request) : undefined }),
  };
}

interface StreamLimit {
  readonly limit: number;
}

/** What of a body is kept in memory until it is whole. */
interface Held {
  /** Throws 429 and 503 where there is too much. */
  take(bytes: number): void;
  end(): void;
}

function holding({ socket }: IncomingMessage): Held {
  const held = heldAt(socket.localPort);
  const address = currentAccount()?.address ?? '';
  let size = 0;
  return {
    take(bytes) {
      size += bytes;
      const refusal = held.take(address, bytes);
      if (refusal) throw refusal;
    },
    end: () => held.giveBack(address, size),
  };
}

/** Whether a body that may also be parsed is one for the stream, by its content type. */
export const isForStream = (request: IncomingMessage, { contentTypes }: StreamDeclaration) =>
  contentTypes.includes(mediaTypeOf(request));

const mediaTypeOf = ({ headers }: IncomingMessage): string =>
  headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() ?? '';

function acceptedType(request: IncomingMessage, accepted: readonly string[]): string {
  const type = mediaTypeOf(request);
  if (accepted.includes(type) || accepted.includes(anyType)) return type;
  throw errors.UNSUPPORTED_MEDIA_TYPE({
    message: `Send the body with Content-Type: ${accepted.join(' or ')}`,
  });
}

async function* pieces(
  request: IncomingMessage,
  response: ServerResponse,
  { limit, held }: StreamLimit & { readonly held: Held | undefined },
): AsyncGenerator<Buffer, void> {
  if (request.headers.expect !== undefined) response.writeContinue();
  allowLongRequest(request.socket);
  const keepAlive = response.shouldKeepAlive;
  // A body that is not read to its end cannot be followed by another request.
  response.shouldKeepAlive = false;
  const silence = watchSilence(request);
  let size = 0;
  try {
    // Whoever stops early must still get its answer: the request is left open, and the exchange deals with the rest.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      silence.heard();
      size += (chunk as Buffer).length;
      if (size > limit) throw tooLarge(limit);
      held?.take((chunk as Buffer).length);
      if (silence.isTrickle(size)) throw tooSlow();
      yield chunk as Buffer;
      silence.expect();
    }
    response.shouldKeepAlive = keepAlive;
    endLongRequest(request.socket);
  } catch (error) {
    throw request.readableAborted || request.errored
      ? new ClientGoneError('The client closed the connection while sending')
      : error;
  } finally {
    silence.end();
    held?.end();
  }
}

interface SilenceWatch {
  heard(): void;
  expect(): void;
  /** So many bytes are too few for the time that we have waited for them. */
  isTrickle(size: number): boolean;
  end(): void;
}

/** One timer for the whole body. It counts only while we wait for the client, not while the client waits for us. */
function watchSilence(request: IncomingMessage): SilenceWatch {
  let waiting = true;
  let waitingSince = performance.now();
  let waitedMs = 0;
  const timer = setTimeout(() => {
    if (waiting) request.destroy();
  }, SILENCE_MS);
  timer.unref();
  return {
    heard() {
      waiting = false;
      waitedMs += performance.now() - waitingSince;
    },
    expect() {
      waiting = true;
      waitingSince = performance.now();
      timer.refresh();
    },
    isTrickle: (size) => waitedMs > TRICKLE_MS && size < (waitedMs / 1_000) * MIN_BYTES_PER_SECOND,
    end: () => clearTimeout(timer),
  };
}

/* Sends a body that is made while it is sent, at the pace of the client. */

/** Milliseconds in which a client that has been sent something must read on. */
export const STALL_MS = 60_000;

/** How the sending of a body begins. */
export interface SendingBegin {
  /** Bytes, where they are announced. */
  readonly length: number | undefined;
  /** Writes the head of the answer. */
  head(): void;
}

/**
 * Calls `head` when there is a first piece, so that what fails before it can be answered as an error. A piece that is
 * the whole body goes out with the head, and is not waited for: its source ends later where the memory may be used again. Rejects with the failure of the source, with 504 when
 * the deadline passed, with `ClientGoneError` when the client left or took nothing for a minute.
 */
export async function sendStream(
  response: ServerResponse,
  { chunks, signal }: AnswerStream,
  { length, head }: SendingBegin,
): Promise<void> {
  const source = chunks[Symbol.asyncIterator]();
  const waiting = new Waiting(signal);
  let isOnItsWay = false;
  try {
    const first = await waiting.for(source.next());
    head();
    if (!first.done && typeof first.value !== 'string' && first.value.length === length) {
      response.end(first.value);
      isOnItsWay = length >= REUSABLE_BYTES;
      // What the network did not take at once waits in memory: nobody may leave it there.
      if (response.writableLength > 0) response.socket?.setTimeout(STALL_MS);
    } else await sendPieces(response, first, { source, waiting });
  } catch (error) {
    // What was written goes out before the connection is cut: the client sees that there was an answer, and that it broke off.
    if (response.headersSent) await immediate();
    throw failureOf(error, signal);
  } finally {
    waiting.end();
    // Not awaited: a source that hangs must not keep the exchange.
    if (isOnItsWay) giveBackAfter(response, source);
    else source.return?.().catch(() => undefined);
  }
}

/** Reads a body and sends it with the head, and does not wait for the client to take it. Rejects as reading does. */
export async function sendBytes(
  response: ServerResponse,
  { read }: AnswerBytes,
  head: () => void,
): Promise<void> {
  const { bytes, free } = await read();
  if (response.destroyed) return free?.();
  head();
  response.end(bytes);
  // What the network did not take at once waits in memory: nobody may leave it there.
  if (response.writableLength > 0) response.socket?.setTimeout(STALL_MS);
  if (!free) return;
  const settle = (): void => {
    // Where the connection broke off, nobody knows what is still being sent.
    if (response.writableFinished) free();
  };
  if (response.closed) settle();
  else response.once('close', settle);
}

/** Ends a source whose one piece the answer is: asked for the next, it has the memory of that again. */
function giveBackAfter(response: ServerResponse, source: AsyncIterator<Uint8Array | string>): void {
  const end = async (): Promise<void> => {
    // Where the connection broke off, nobody knows what is still being sent.
    if (response.writableFinished) await source.next();
    await source.return?.();
  };
  const settle = (): void => void end().catch(() => undefined);
  if (response.closed || response.destroyed) settle();
  else response.once('close', settle);
}

interface Sending {
  readonly source: AsyncIterator<Uint8Array | string>;
  readonly waiting: Waiting;
}

/** Asks for a piece when the one before it is on its way. The signal is aborted when the connection closes. */
async function sendPieces(
  response: ServerResponse,
  first: IteratorResult<Uint8Array | string>,
  { source, waiting }: Sending,
): Promise<void> {
  const stall = watchStall(response);
  const onError = (): void => waiting.fail(clientLeft());
  response.on('error', onError);
  try {
    for (let piece = first; !piece.done; piece = await waiting.for(source.next()))
      if (piece.value.length >= REUSABLE_BYTES) await waiting.for(written(response, piece.value));
      else if (!response.write(piece.value)) await waiting.for(eventOf(response, 'drain'));
    const finished = eventOf(response, 'finish');
    response.end();
    await waiting.for(finished);
  } finally {
    stall.end();
    // The listener stays where it failed: what is written to a connection that is gone fails once more.
    if (response.writableFinished) response.off('error', onError);
  }
}

/** Resolves when the system has taken the piece, so that its memory is free. */
const written = (response: ServerResponse, piece: Uint8Array | string): Promise<void> =>
  new Promise((resolve, reject) => {
    response.write(piece, (error) => (error ? reject(clientLeft()) : resolve()));
  });

const eventOf = (response: ServerResponse, name: 'drain' | 'finish'): Promise<void> =>
  new Promise((resolve) => response.once(name, resolve));

/** Waits for one thing after the other until the signal is aborted, with one listener for all of them. */
class Waiting {
  readonly #signal: AbortSignal;
  readonly #stop = (): void => this.fail(this.#signal.reason);
  #failure: { readonly error: unknown } | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    if (signal.aborted) this.#stop();
    else signal.addEventListener('abort', this.#stop, { once: true });
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#reject?.(error);
  }

  for<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#failure) reject(this.#failure.error);
      work.then(resolve, reject);
    });
  }

  end(): void {
    this.#signal.removeEventListener('abort', this.#stop);
  }
}

const clientLeft = () => new ClientGoneError('The client went away before the answer was out');

function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.reason instanceof PenstockError) return signal.reason;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const left =
    error === signal.reason || code === 'ABORT_ERR' || code === 'ERR_STREAM_PREMATURE_CLOSE';
  return left ? clientLeft() : error;
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
