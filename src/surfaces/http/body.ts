/** Bodies: read by us and late, after the caller is known and has budget, never more than the operation allows. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errors } from '../../kernel/errors.ts';
import type { BodyType } from '../../kernel/operation.ts';

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

/** A body as the decoder takes it: parsed JSON, or the text of a form. Both `undefined`: there is none. */
export interface ReadBody {
  readonly body: unknown;
  readonly form: string | undefined;
}

const noBody: ReadBody = Object.freeze({ body: undefined, form: undefined });
const jsonOnly: readonly BodyType[] = ['json'];

/** Reads a body of one of the given types. Throws 400, 413, 415. */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  { limit, types = jsonOnly }: { limit: number; types?: readonly BodyType[] | undefined },
): Promise<ReadBody> {
  if (!announcesBody(request)) return noBody;
  refuseLong(request, limit);
  const type = bodyTypeOf(request, types);
  refuseEncoded(request);
  const bytes = await readBytes(request, response, limit);
  if (bytes.length === 0) return noBody;
  return type === 'json' ? { body: parseJson(bytes), form: undefined } : { body: undefined, form: utf8(bytes) };
}

/** Reads and parses a JSON body. `undefined` when there is none. Throws 400, 413, 415. */
export async function readJson(request: IncomingMessage, response: ServerResponse, limit: number): Promise<unknown> {
  return (await readBody(request, response, { limit })).body;
}

export const tooLarge = (limit: number) => errors.PAYLOAD_TOO_LARGE({ message: `The body is larger than ${limit} bytes` });

/** The announced length is believed where it is too much. */
export function refuseLong({ headers }: IncomingMessage, limit: number): void {
  if (Number(headers['content-length']) > limit) throw tooLarge(limit);
}

export function refuseEncoded({ headers }: IncomingMessage): void {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw errors.UNSUPPORTED_MEDIA_TYPE({ message: 'Send the body without Content-Encoding' });
}

const jsonMedia = /^application\/(?:json|[a-z0-9.-]+\+json)\s*(?:;\s*charset="?utf-8"?\s*)?$/i;
const formMedia = /^application\/x-www-form-urlencoded\s*(?:;\s*charset="?utf-8"?\s*)?$/i;

const mediaNames: Readonly<Record<BodyType, string>> = { json: 'application/json', form: 'application/x-www-form-urlencoded' };

function bodyTypeOf({ headers }: IncomingMessage, types: readonly BodyType[]): BodyType {
  const type = headers['content-type'];
  const found = type === undefined || type.length >= 200 ? undefined : writtenAs(type);
  if (found !== undefined && types.includes(found)) return found;
  const wanted = types.includes('json')
    ? 'Send the body as JSON, with Content-Type: application/json'
    : 'Send the body as a form, with Content-Type: application/x-www-form-urlencoded';
  throw errors.UNSUPPORTED_MEDIA_TYPE({ message: types.length > 1 ? `${wanted} (or ${mediaNames.form})` : wanted });
}

function writtenAs(type: string): BodyType | undefined {
  if (type === 'application/json' || jsonMedia.test(type)) return 'json';
  return formMedia.test(type) ? 'form' : undefined;
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

function utf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw errors.MALFORMED_JSON({ message: 'The body is not valid UTF-8' });
  return bytes.toString('utf8');
}

/** Exported for its own tests. */
export function parseJson(bytes: Buffer): unknown {
  const text = utf8(bytes);
  try {
    return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch (error) {
    const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    throw errors.MALFORMED_JSON({ message: `The body is not valid JSON${position === undefined ? '' : ` (at character ${position})`}` });
  }
}
