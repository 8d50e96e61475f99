/** Bodies: read by us and late, after the caller is known and has budget, never more than the operation allows. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errors } from '../../kernel/errors.ts';
import type { MaybePromise } from '../../kernel/maybe-promise.ts';
import type { BodyType } from '../../kernel/operations/operation-input.ts';
import { loopTurn } from '../../kernel/request-account/fair-gate.ts';
import {
  currentAccount,
  type RequestAccount,
} from '../../kernel/request-account/request-account.ts';
import { headerOf } from '../../kernel/request-header.ts';
import { ArrivingBytes } from './arriving-bytes.ts';

/** Bytes, unless the operation says otherwise. */
export const DEFAULT_BODY_LIMIT = 1_048_576;

/** The connection ended before the request was complete; there is nobody to answer. */
export class ClientGoneError extends Error {}

/** Whether the request announces a body at all. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  if (headerOf(headers, 'transfer-encoding') !== undefined) return true;
  const length = headerOf(headers, 'content-length');
  return length !== undefined && length !== '0';
}

/** A body as the decoder takes it: parsed JSON, or the text of a form. Both `undefined`: there is none. */
interface ReadBody {
  readonly body: unknown;
  readonly form: string | undefined;
}

const noBody: ReadBody = Object.freeze({ body: undefined, form: undefined });
const jsonOnly: readonly BodyType[] = ['json'];

/** A body that has arrived and waits for its turn to be parsed. */
export interface ReceivedBody {
  readonly type: BodyType;
  readonly bytes: Buffer;
}

const nothingReceived: ReceivedBody = { type: 'json', bytes: Buffer.alloc(0) };

/** Receives a body of one of the given types. Throws or rejects with 400, 408, 413, 415. */
export function receiveBody(
  request: IncomingMessage,
  response: ServerResponse,
  { limit, types = jsonOnly }: { limit: number; types?: readonly BodyType[] | undefined },
): MaybePromise<ReceivedBody> {
  if (!announcesBody(request)) return nothingReceived;
  refuseLong(request, limit);
  const type = bodyTypeOf(request, types);
  refuseEncoded(request);
  if (headerOf(request.headers, 'expect') !== undefined) response.writeContinue();
  const arriving: Arriving = { request, limit, type, account: currentAccount() };
  // A small body mostly comes with its head: it is there when what runs now has ended.
  return now.then(() => received(arriving));
}

const now = Promise.resolve();

/** Throws or rejects with 400, 408, 413. */
function received(arriving: Arriving): MaybePromise<ReceivedBody> {
  const { request, limit } = arriving;
  if (!request.complete) return receivedLater(arriving);
  // Listening to the events of a body that is there would cost more than reading it.
  const bytes = (request.read() as Buffer | null) ?? nothingReceived.bytes;
  if (bytes.length > limit) throw tooLarge(limit);
  return charged(arriving, bytes);
}

async function receivedLater(arriving: Arriving): Promise<ReceivedBody> {
  if (arriving.request.destroyed) throw clientGone();
  const bytes = await new Promise<Buffer>((resolve, reject) => {
    new ArrivingBody({ ...arriving, resolve, reject }).receive();
  });
  return charged(arriving, bytes);
}

function charged({ type, account }: Arriving, bytes: Buffer): ReceivedBody {
  account?.charge('bytesIn', bytes.length);
  return { type, bytes };
}

/** Throws 400. */
export function parseBody({ type, bytes }: ReceivedBody): ReadBody {
  if (bytes.length === 0) return noBody;
  return type === 'json'
    ? { body: parseJson(utf8(bytes)), form: undefined }
    : { body: undefined, form: utf8(bytes) };
}

/** The same of many bytes: what they say as a text, and what the text says, each in a turn of its own. */
export async function parseLargeBody({ type, bytes }: ReceivedBody): Promise<ReadBody> {
  const text = utf8(bytes);
  if (type !== 'json') return { body: undefined, form: text };
  await loopTurn();
  return { body: parseJson(text), form: undefined };
}

export const tooLarge = (limit: number) =>
  errors.PAYLOAD_TOO_LARGE({ message: `The body is larger than ${limit} bytes` });

/** The announced length is believed where it is too much. */
export function refuseLong({ headers }: IncomingMessage, limit: number): void {
  if (Number(headerOf(headers, 'content-length')) > limit) throw tooLarge(limit);
}

export function refuseEncoded({ headers }: IncomingMessage): void {
  const encoding = headerOf(headers, 'content-encoding');
  if (encoding !== undefined && encoding !== 'identity')
    throw errors.UNSUPPORTED_MEDIA_TYPE({ message: 'Send the body without Content-Encoding' });
}

const jsonMedia = /^application\/(?:json|[a-z0-9.-]+\+json)\s*(?:;\s*charset="?utf-8"?\s*)?$/i;
const formMedia = /^application\/x-www-form-urlencoded\s*(?:;\s*charset="?utf-8"?\s*)?$/i;

const mediaNames: Readonly<Record<BodyType, string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
};

function bodyTypeOf({ headers }: IncomingMessage, types: readonly BodyType[]): BodyType {
  const type = headerOf(headers, 'content-type');
  const found = type === undefined || type.length >= 200 ? undefined : writtenAs(type);
  if (found !== undefined && types.includes(found)) return found;
  const requested = types.includes('json')
    ? 'Send the body as JSON, with Content-Type: application/json'
    : 'Send the body as a form, with Content-Type: application/x-www-form-urlencoded';
  throw errors.UNSUPPORTED_MEDIA_TYPE({
    message: types.length > 1 ? `${requested} (or ${mediaNames.form})` : requested,
  });
}

function writtenAs(type: string): BodyType | undefined {
  if (type === 'application/json' || jsonMedia.test(type)) return 'json';
  return formMedia.test(type) ? 'form' : undefined;
}

/** Milliseconds between looks at how fast bodies arrive. */
const LOOK_MS = 1_000;
/** Milliseconds after which a body must have had so many bytes a second on average. */
const PACE_MS = 5_000;
export const MIN_BYTES_PER_SECOND = 1_024;

export const tooSlow = () =>
  errors.REQUEST_TIMEOUT({ message: 'The body came too slowly', headers: { connection: 'close' } });

interface Arriving {
  readonly request: IncomingMessage;
  /** Bytes. */
  readonly limit: number;
  readonly type: BodyType;
  readonly account: RequestAccount | undefined;
}

interface Receiving extends Arriving {
  readonly resolve: (bytes: Buffer) => void;
  readonly reject: (error: Error) => void;
}

const clientGone = (): Error =>
  new ClientGoneError('The client closed the connection while sending');

/** A whole body on its way. */
class ArrivingBody {
  readonly #receiving: Receiving;
  readonly #held: ArrivingBytes;
  readonly #began = performance.now();
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #isDone = false;

  constructor(receiving: Receiving) {
    this.#receiving = receiving;
    this.#held = heldAt(receiving.request.socket.localPort);
  }

  receive(): void {
    const { request } = this.#receiving;
    request.on('data', this.#onData).on('end', this.#onEnd);
    request.on('close', this.#onGone).on('error', this.#onGone);
    watch(this);
  }

  /** Whole bodies are small: one that trickles in only holds memory. The time of the request counts too. */
  lookAtPace(now: number): void {
    const waited = now - this.#began;
    const isSlow = waited >= PACE_MS && this.#size < (waited / 1_000) * MIN_BYTES_PER_SECOND;
    if (isSlow || (this.#receiving.account?.remainingMs ?? 1) <= 0) this.#giveUp(tooSlow());
  }

  readonly #onData = (chunk: Buffer): void => {
    const { limit } = this.#receiving;
    this.#size += chunk.length;
    const refusal = this.#held.take(this.#address, chunk.length);
    if (this.#size > limit) this.#giveUp(tooLarge(limit));
    else if (refusal) this.#giveUp(refusal);
    else this.#chunks.push(chunk);
  };

  // A request that has ended is done with: taking the listeners off would cost as much as reading a small body.
  readonly #onEnd = (): void => {
    this.#done();
    const [only] = this.#chunks;
    this.#receiving.resolve(only && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks));
  };

  readonly #onGone = (): void => {
    if (this.#isDone) return;
    this.#stop();
    this.#receiving.reject(clientGone());
  };

  #giveUp(error: Error): void {
    this.#stop();
    this.#receiving.request.pause();
    this.#receiving.reject(error);
  }

  #stop(): void {
    this.#done();
    const { request } = this.#receiving;
    request.off('data', this.#onData).off('end', this.#onEnd);
    request.off('close', this.#onGone).off('error', this.#onGone);
  }

  #done(): void {
    this.#isDone = true;
    arriving.delete(this);
    this.#held.giveBack(this.#address, this.#size);
  }

  get #address(): string {
    return this.#receiving.account?.address ?? '';
  }
}

/** By port: whoever floods clients takes nothing from operators. */
const heldByPort = new Map<number | undefined, ArrivingBytes>();

export function heldAt(port: number | undefined): ArrivingBytes {
  const held = heldByPort.get(port) ?? new ArrivingBytes();
  heldByPort.set(port, held);
  return held;
}

/** Bodies that are on their way; one timer looks at all of them. */
const arriving = new Set<ArrivingBody>();
let looking: NodeJS.Timeout | undefined;

function watch(body: ArrivingBody): void {
  arriving.add(body);
  looking ??= setInterval(lookAtAll, LOOK_MS).unref();
}

function lookAtAll(): void {
  const now = performance.now();
  for (const body of arriving) body.lookAtPace(now);
  if (arriving.size > 0) return;
  clearInterval(looking);
  looking = undefined;
}

function utf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw errors.JSON_MALFORMED({ message: 'The body is not valid UTF-8' });
  return bytes.toString('utf8');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch (error) {
    const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    throw errors.JSON_MALFORMED({
      message: `The body is not valid JSON${position === undefined ? '' : ` (at character ${position})`}`,
    });
  }
}
