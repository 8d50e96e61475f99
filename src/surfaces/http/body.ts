/** Bodies: read by us and late, after the caller is known and has budget, never more than the operation allows. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errors } from '../../kernel/errors.ts';

/** Bytes, unless the operation says otherwise. */
export const DEFAULT_BODY_LIMIT = 1_048_576;

/** The connection ended before the request was complete; there is nobody to answer. */
export class ClientGoneError extends Error {}

/** Whether the request announces a body at all. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  const length = headers['content-length'];
  return length !== undefined && length !== '0';
}

/** Reads and parses a JSON body. `undefined` when there is none. Throws 400, 413, 415. */
export async function readJson(request: IncomingMessage, response: ServerResponse, limit: number): Promise<unknown> {
  if (!announcesBody(request)) return undefined;
  if (Number(request.headers['content-length']) > limit) throw tooLarge(limit);
  requireJson(request);
  const bytes = await readBytes(request, response, limit);
  return bytes.length === 0 ? undefined : parseJson(bytes);
}

const tooLarge = (limit: number) => errors.PAYLOAD_TOO_LARGE({ message: `The body is larger than ${limit} bytes` });

const jsonMedia = /^application\/(?:json|[a-z0-9.-]+\+json)\s*(?:;\s*charset="?utf-8"?\s*)?$/i;

function requireJson({ headers }: IncomingMessage): void {
  const type = headers['content-type'];
  const encoding = headers['content-encoding'];
  const readable = type !== undefined && (type === 'application/json' || (type.length < 200 && jsonMedia.test(type)));
  if (!readable) throw errors.UNSUPPORTED_MEDIA_TYPE({ message: 'Send the body as JSON, with Content-Type: application/json' });
  if (encoding !== undefined && encoding !== 'identity')
    throw errors.UNSUPPORTED_MEDIA_TYPE({ message: 'Send the body without Content-Encoding' });
}

function readBytes(request: IncomingMessage, response: ServerResponse, limit: number): Promise<Buffer> {
  if (request.headers.expect !== undefined) response.writeContinue();
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (finish: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      finish();
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else
        settle(() => {
          request.pause();
          reject(tooLarge(limit));
        });
    };
    const onEnd = (): void => settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const onGone = (): void => settle(() => reject(new ClientGoneError('The client closed the connection while sending')));
    request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

/** Exported for its own tests. */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw errors.MALFORMED_JSON({ message: 'The body is not valid UTF-8' });
  const text = bytes.toString('utf8');
  try {
    return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch (error) {
    const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    throw errors.MALFORMED_JSON({ message: `The body is not valid JSON${position === undefined ? '' : ` (at character ${position})`}` });
  }
}
