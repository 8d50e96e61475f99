/** Bodies that the handler reads piece by piece. Nothing is read before it asks, and no more than it asks for. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errors, invalid } from '../../kernel/errors.ts';
import type { BodyStream, StreamDeclaration } from '../../kernel/operation.ts';
import { announcesBody, ClientGoneError, LEAST_BYTES_A_SECOND, refuseEncoded, refuseLong, tooLarge, tooSlow } from './body.ts';
import { allowLongRequest } from './client-error.ts';

/** Milliseconds without a byte after which a client that owes us more is given up. */
const SILENCE_MS = 60_000;
/** Milliseconds of waiting for the client after which its pace counts. */
const TRICKLE_MS = 10_000;

/** Describes the body without touching it. Throws 400 without a body, 413 and 415. */
export function openBodyStream(
  request: IncomingMessage,
  response: ServerResponse,
  { contentTypes, limit }: { contentTypes: StreamDeclaration['contentTypes']; limit: number },
): BodyStream {
  if (!announcesBody(request)) throw invalid('body', 'required', 'is required');
  refuseLong(request, limit);
  const contentType = mediaTypeOf(request, contentTypes);
  refuseEncoded(request);
  const length = request.headers['content-length'];
  return {
    contentType,
    length: length === undefined ? undefined : Number(length),
    [Symbol.asyncIterator]: () => pieces(request, response, limit),
  };
}

function mediaTypeOf({ headers }: IncomingMessage, accepted: readonly string[]): string {
  const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (accepted.includes(type)) return type;
  throw errors.UNSUPPORTED_MEDIA_TYPE({ message: `Send the body with Content-Type: ${accepted.join(' or ')}` });
}

async function* pieces(request: IncomingMessage, response: ServerResponse, limit: number): AsyncGenerator<Buffer, void> {
  if (request.headers.expect !== undefined) response.writeContinue();
  allowLongRequest(request.socket);
  response.shouldKeepAlive = false;
  const silence = watchSilence(request);
  let size = 0;
  try {
    // Whoever stops early must still get its answer: the request is left open, and the exchange deals with the rest.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      silence.heard();
      size += (chunk as Buffer).length;
      if (size > limit) throw tooLarge(limit);
      if (silence.isTrickle(size)) throw tooSlow();
      yield chunk as Buffer;
      silence.expect();
    }
  } catch (error) {
    throw request.readableAborted || request.errored ? new ClientGoneError('The client closed the connection while sending') : error;
  } finally {
    silence.end();
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
    isTrickle: (size) => waitedMs > TRICKLE_MS && size < (waitedMs / 1_000) * LEAST_BYTES_A_SECOND,
    end: () => clearTimeout(timer),
  };
}
