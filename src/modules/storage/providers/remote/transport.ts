/**
 * HTTP to a store: bodies as streams, every wait with an end, tries again where nothing can happen twice. The
 * operator names the address, which may be in their own network; what no store is at is never called.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { addressClass } from '../../../../kernel/outbound.ts';
import { guardedLookup } from '../../../../kernel/outbound-names.ts';
import { ProviderError, type TransportLimits, usualLimits } from '../provider.ts';

/** A body: bytes, or what reads them from the beginning each time (`size` bytes), or a stream that is read once. */
export type RequestBody =
  | { readonly bytes: Uint8Array }
  | { readonly open: () => Readable; readonly size: number }
  | { readonly once: Readable; readonly size: number | undefined };

export interface StoreRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Signs each try anew: signatures carry the time. */
  readonly sign?: (request: UnsignedRequest) => Promise<Readonly<Record<string, string>>>;
}

export interface UnsignedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

export interface StoreAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Must be read or destroyed. */
  readonly body: IncomingMessage;
  /** Milliseconds that the next bytes may take. */
  readonly idleMs: number;
}

export interface Transport {
  /** Answers whatever status comes in the end. @throws ProviderError UNAVAILABLE, ABORTED; and what a body throws */
  send(request: StoreRequest): Promise<StoreAnswer>;
  close(): void;
}

/** Answers after which the same request may be sent again. */
const passing: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);
/** Milliseconds. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

export function createTransport(limits: TransportLimits = usualLimits): Transport {
  const options = { keepAlive: true, maxFreeSockets: 16, scheduling: 'lifo' as const };
  const agents = { 'http:': new HttpAgent(options), 'https:': new HttpsAgent(options) };
  const agentOf = ({ url, body }: StoreRequest): HttpAgent | false => {
    // A kept connection may be closed just now. Who cannot send the body again takes a new one.
    if (body && 'once' in body) return false;
    return url.protocol === 'https:' ? agents['https:'] : agents['http:'];
  };
  return {
    async send(request) {
      const repeatable = !(request.body && 'once' in request.body);
      for (let attempt = 1; ; attempt++) {
        const last = !repeatable || attempt >= limits.attempts;
        const outcome = await sendOnce(request, agentOf(request), limits).catch(
          (error: unknown) => {
            if (last || !(error instanceof ProviderError) || error.problem !== 'UNAVAILABLE')
              throw error;
            return undefined;
          },
        );
        if (outcome && (last || !passing.has(outcome.status))) return outcome;
        outcome?.body.resume();
        await waitBefore(attempt, request.signal);
      }
    },
    close() {
      agents['http:'].destroy();
      agents['https:'].destroy();
    },
  };
}

/** Full jitter: those that failed together do not come back together. */
async function waitBefore(attempt: number, signal: AbortSignal | undefined): Promise<void> {
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
  try {
    await pause(Math.random() * longest, undefined, signal && { signal });
  } catch (error) {
    throw aborted(error);
  }
}

const aborted = (cause: unknown): ProviderError =>
  new ProviderError('ABORTED', 'Nobody waits for it', { cause });

async function sendOnce(
  request: StoreRequest,
  agent: HttpAgent | false,
  limits: TransportLimits,
): Promise<StoreAnswer> {
  if (request.signal?.aborted) {
    destroyBody(request.body);
    throw aborted(request.signal.reason);
  }
  const unsigned = { ...request, headers: { ...request.headers, ...lengthOf(request) } };
  const headers = { ...unsigned.headers, ...(await request.sign?.(unsigned)) };
  const begin = request.url.protocol === 'https:' ? requestHttps : requestHttp;
  const outgoing = begin(request.url, {
    method: request.method,
    headers,
    agent,
    lookup,
    ...(request.signal && { signal: request.signal }),
  });
  limitWaiting(outgoing, request, limits);
  const answered = answerOf(outgoing, request, limits);
  try {
    requireCallable(request.url);
    const [answer] = await Promise.all([answered, sendBody(outgoing, request.body, answered)]);
    return answer;
  } catch (error) {
    answered.catch(() => undefined);
    outgoing.destroy();
    destroyBody(request.body);
    if (request.signal?.aborted) throw aborted(error);
    throw error;
  }
}

function lengthOf({ method, body }: StoreRequest): Record<string, string> {
  if (!body) return method === 'PUT' || method === 'POST' ? { 'content-length': '0' } : {};
  if ('bytes' in body) return { 'content-length': String(body.bytes.byteLength) };
  return body.size === undefined ? {} : { 'content-length': String(body.size) };
}

function destroyBody(body: RequestBody | undefined): void {
  if (body && 'once' in body) body.once.destroy();
}

/** What the body throws is its sender's; what the connection says is the store's. */
async function sendBody(
  outgoing: ClientRequest,
  body: RequestBody | undefined,
  answered: Promise<StoreAnswer>,
): Promise<void> {
  if (!body || 'bytes' in body) {
    outgoing.end(body?.bytes);
    return;
  }
  const source = 'once' in body ? body.once : body.open();
  let own: unknown;
  source.once('error', (error) => {
    own ??= error;
  });
  try {
    await pipeline(source, outgoing);
  } catch (error) {
    if (own !== undefined && own === error) throw error;
    // The store may have answered before it had everything, and closed.
    await answered;
  }
}

function answerOf(
  outgoing: ClientRequest,
  { url, method }: StoreRequest,
  { idleMs }: TransportLimits,
): Promise<StoreAnswer> {
  return new Promise((resolve, reject) => {
    outgoing.on('error', (error) => reject(unavailable(url, method, error)));
    outgoing.once('response', (body) => {
      resolve({ status: body.statusCode ?? 0, headers: body.headers, body, idleMs });
    });
  });
}

/** While a sender is slow the connection may rest: their pace is theirs, and limited elsewhere. */
function limitWaiting(
  outgoing: ClientRequest,
  { body }: StoreRequest,
  limits: TransportLimits,
): void {
  const connecting = setTimeout(
    () => outgoing.destroy(new Error(`no connection within ${limits.connectMs} ms`)),
    limits.connectMs,
  );
  const connected = (): void => clearTimeout(connecting);
  outgoing.once('close', connected).once('socket', (socket) => {
    if (socket.connecting) socket.once('connect', connected);
    else connected();
  });
  let answered = false;
  outgoing.once('response', () => {
    answered = true;
  });
  outgoing.setTimeout(limits.idleMs, () => {
    // From here on only waiting counts: see `chunksOf`.
    if (answered) return;
    const waitsForSender =
      body && 'once' in body && !outgoing.writableFinished && outgoing.writableLength === 0;
    if (!waitsForSender) outgoing.destroy(new Error(`nothing moved for ${limits.idleMs} ms`));
  });
}

function unavailable(url: URL, method: string, cause: Error): ProviderError {
  if (cause instanceof ProviderError) return cause;
  return new ProviderError('UNAVAILABLE', `${method} ${url.host}: ${cause.message}`, { cause });
}

/** A literal address never reaches the resolver, so it is judged here. */
function requireCallable({ hostname, host }: URL): void {
  const literal = hostname.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0 && addressClass(literal) === 'forbidden') throw forbidden(host);
}

const forbidden = (host: string): ProviderError =>
  new ProviderError('REFUSED', `${host} is at an address that is never called`);

const lookup = guardedLookup((address) => addressClass(address) !== 'forbidden', forbidden);

/** Bytes of an answer that says what went wrong, or lists. */
const MAX_TEXT_BYTES = 8 * 1024 * 1024;

/** A slow reader is not a slow store: time runs only while somebody waits for bytes. */
async function* chunksOf({ body, idleMs }: StoreAnswer): AsyncGenerator<Buffer> {
  const source = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  try {
    for (;;) {
      const late = setTimeout(
        () => body.destroy(new Error(`nothing came for ${idleMs} ms`)),
        idleMs,
      );
      const next = await source.next().finally(() => clearTimeout(late));
      if (next.done) return;
      yield next.value;
    }
  } catch (cause) {
    throw new ProviderError('UNAVAILABLE', 'The answer broke off', { cause });
  } finally {
    body.destroy();
  }
}

/** The whole of a short answer. */
export async function textOf(answer: StoreAnswer): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunksOf(answer)) {
    size += chunk.length;
    if (size > MAX_TEXT_BYTES) throw new ProviderError('UNAVAILABLE', 'The answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** The bytes of an answer for a reader; a break is `UNAVAILABLE`. */
export function streamOf(answer: StoreAnswer, signal: AbortSignal | undefined): Readable {
  return Readable.from(chunksOf(answer), { objectMode: false, ...(signal && { signal }) });
}
