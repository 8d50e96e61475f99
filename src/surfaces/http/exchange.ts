/** One request and its answer on an HTTP surface. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type PresentedApp,
  type PresentedCredentials,
  presentedApp,
} from '../../kernel/identity.ts';
import type { MaybePromise } from '../../kernel/maybe-promise.ts';
import type { CompiledOperation } from '../../kernel/operations/compile.ts';
import type { SurfaceName } from '../../kernel/operations/operation.ts';
import type { RequestHeaders } from '../../kernel/operations/operation-input.ts';
import type { Answer, AnswerBytes, AnswerStream } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { RequestAccount } from '../../kernel/request-account/request-account.ts';
import { headerOf } from '../../kernel/request-header.ts';
import { announcesBody } from './body.ts';
import type { CompressedBody } from './compression.ts';
import {
  dropHeader,
  type HeaderList,
  presentedCredentials,
  requestIdOf,
  setHeader,
} from './headers.ts';
import type { Match } from './route-table.ts';
import { STALL_MS, sendBytes, sendStream } from './streams.ts';

/*
 * Closing a connection on which the client is still sending. Closing at once
 * makes the kernel reset the connection, and the client never sees why it was
 * refused; reading for ever lets it go on. So: a little more is read and thrown
 * away, for a short time.
 */

const MAX_BYTES = 1_048_576;
const MAX_MS = 1_000;

/** Unread bodies up to this size are simply read away and the connection is kept. */
const KEEP_ALIVE_BYTES = 65_536;

/** Calls `close` once, when the client stopped sending or had its chance. */
function drainRequest(request: IncomingMessage, close: () => void): void {
  let left = MAX_BYTES;
  const finish = (): void => {
    clearTimeout(timer);
    request.off('data', count).off('end', finish).off('close', finish).off('error', finish);
    close();
  };
  const count = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left < 0) finish();
  };
  const timer = setTimeout(finish, MAX_MS);
  timer.unref();
  request.on('data', count).on('end', finish).on('close', finish).on('error', finish).resume();
}

const JSON_TYPE = 'application/json; charset=utf-8';

const nobody: readonly (() => void)[] = [];

interface ExchangeOrigin {
  readonly surface: SurfaceName;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: string;
  readonly address: string;
  /** Where a proxy says the id of a request, beside `x-request-id`. */
  readonly requestIdHeader?: string | undefined;
}

export class Exchange implements Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: string;
  readonly address: string;
  readonly requestId: string;
  readonly startedAt = performance.now();
  app: string | undefined;
  /** On which its operation runs. */
  account: RequestAccount | undefined;
  readonly #surface: SurfaceName;
  readonly #requestIdHeader: string | undefined;
  #match: Match | undefined;
  #leaving: readonly (() => void)[] = nobody;
  #credentials: PresentedCredentials | undefined;

  constructor({ surface, request, response, url, address, requestIdHeader }: ExchangeOrigin) {
    this.#surface = surface;
    this.request = request;
    this.response = response;
    this.url = url;
    this.address = address;
    this.#requestIdHeader = requestIdHeader;
    this.requestId = requestIdOf(request.headers, requestIdHeader);
  }

  get match(): Match | undefined {
    return this.#match;
  }

  set match(match: Match) {
    this.#match = match;
  }

  get compiled(): CompiledOperation {
    if (!this.#match) throw new Error('The route is not known yet');
    return this.#match.route.compiled;
  }

  /** Throws 401 when the Authorization header is malformed; so only operations that need a caller ask. */
  get credentials(): PresentedCredentials {
    this.#credentials ??= presentedCredentials(this.request, this.#surface, this.address);
    return this.#credentials;
  }

  get presentedApp(): PresentedApp {
    return presentedApp(this.request.headers);
  }

  get headers(): RequestHeaders {
    return this.request.headers;
  }

  get userAgent(): string | undefined {
    return headerOf(this.request.headers, 'user-agent');
  }

  get rawQuery(): string | undefined {
    return this.#match?.query;
  }

  get idempotencyKey(): string | undefined {
    const key = headerOf(this.request.headers, 'idempotency-key');
    return key === undefined ? undefined : String(key);
  }

  get origin(): string | undefined {
    return headerOf(this.request.headers, 'origin');
  }

  get fetchSite(): string | undefined {
    const site = headerOf(this.request.headers, 'sec-fetch-site');
    return typeof site === 'string' ? site : undefined;
  }

  onDisconnect(listener: () => void): void {
    const { response } = this;
    this.#leaving = [...this.#leaving, listener];
    response.once('close', () => {
      if (!response.writableFinished) listener();
    });
  }

  /** Sends the answer with the surface's headers. Does nothing when the client is gone or was answered. */
  send(base: readonly string[], answer: Answer, packed?: CompressedBody): void {
    const { response, request } = this;
    if (response.headersSent || response.destroyed) return;
    const unchanged =
      headerOf(request.headers, 'if-none-match') !== undefined && isUnchanged(request, answer);
    const length = Buffer.byteLength(answer.body);
    const list = this.#headerList(base, answer, unchanged ? undefined : length);
    if (packed && !unchanged) {
      list.push('content-encoding', packed.encoding);
      setHeader(list, 'content-length', String(packed.bytes.length));
    }
    const body = unchanged ? '' : (packed?.bytes ?? answer.body);
    if (announcesBody(request) && !request.complete && this.#isLong())
      this.#sendAndDrain(list, answer.status, body);
    else
      response
        .writeHead(unchanged ? 304 : answer.status, list)
        .end(body, encodingOf(answer, length));
    // What the network did not take at once waits in memory: nobody may leave it there. Progress begins the time anew.
    if (response.writableLength > 0) request.socket.setTimeout(STALL_MS);
  }

  /**
   * Sends a body that is made meanwhile; settles when it is out. A failure before its first piece leaves the
   * response untouched, for the caller to answer.
   */
  async sendMade(
    base: readonly string[],
    answer: Answer,
    stream: AnswerStream | AnswerBytes,
  ): Promise<void> {
    const { response, request } = this;
    const unchanged =
      headerOf(request.headers, 'if-none-match') !== undefined && isUnchanged(request, answer);
    if (unchanged || request.method === 'HEAD') {
      if ('chunks' in stream) await stream.chunks[Symbol.asyncIterator]().return?.();
      // A generator that never began runs nothing at its end: what the handler opened ends by its signal.
      for (const leave of this.#leaving) leave();
      const list = this.#headerList(base, answer);
      if (unchanged) dropHeader(list, 'content-length');
      response.writeHead(unchanged ? 304 : answer.status, list).end();
      return;
    }
    const head = (): void => {
      const list = this.#headerList(base, answer);
      if (!request.complete) setHeader(list, 'connection', 'close');
      response.writeHead(answer.status, list);
    };
    if ('read' in stream) return sendBytes(response, stream, head);
    const length = answer.headers['content-length'];
    await sendStream(response, stream, {
      length: length === undefined ? undefined : Number(length),
      head,
    });
  }

  /** `length`: bytes of the body, where it goes out with the headers. */
  #headerList(base: readonly string[], answer: Answer, length?: number): HeaderList {
    const list: HeaderList = [
      ...base,
      'x-request-id',
      this.requestId,
      'request-id',
      this.requestId,
    ];
    if (this.#requestIdHeader !== undefined) list.push(this.#requestIdHeader, this.requestId);
    if (answer.json) list.push('content-type', JSON_TYPE);
    for (const name in answer.headers) setHeader(list, name, answer.headers[name] ?? '');
    if (answer.cookies) for (const cookie of answer.cookies) list.push('set-cookie', cookie);
    if (length !== undefined && answer.status !== 204) list.push('content-length', String(length));
    return list;
  }

  /** The part of the body that nobody read is more than can be read away in passing. */
  #isLong(): boolean {
    const length = headerOf(this.request.headers, 'content-length');
    return length === undefined || Number(length) > KEEP_ALIVE_BYTES;
  }

  #sendAndDrain(list: HeaderList, status: number, body: string | Buffer): void {
    const { response } = this;
    setHeader(list, 'connection', 'close');
    response.writeHead(status, list);
    if (this.request.method !== 'HEAD') response.write(body);
    drainRequest(this.request, () => response.end());
  }
}

/**
 * How a body of so many bytes is written: where each character is one byte, both are the same, and Node writes what it
 * knows to be as long as the text without memory for three times as much.
 */
const encodingOf = ({ body }: Answer, length: number): 'latin1' | 'utf8' =>
  length === body.length ? 'latin1' : 'utf8';

/** RFC 9110 13.1.2: the client has this version already. */
function isUnchanged(request: IncomingMessage, answer: Answer): boolean {
  const etag = answer.headers.etag;
  const known = headerOf(request.headers, 'if-none-match');
  if (etag === undefined || known === undefined) return false;
  if (answer.status !== 200 && answer.status !== 206) return false;
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const bare = weakless(etag);
  return known.trim() === '*' || known.split(',').some((one) => weakless(one.trim()) === bare);
}

const weakless = (etag: string): string => (etag.startsWith('W/') ? etag.slice(2) : etag);

/* Requests that hold calls of other operations (GraphQL, MCP): their handler takes the exchange whole. */

export type ProtocolHandler = (exchange: Exchange, match: Match) => MaybePromise<Answer>;

/** A handler whose code is read when it is first needed: what it builds on takes time and memory. */
export function loadedLater(load: () => Promise<ProtocolHandler>): ProtocolHandler {
  let handler: ProtocolHandler | undefined;
  let loading: Promise<ProtocolHandler> | undefined;
  return (exchange, match) => {
    if (handler) return handler(exchange, match);
    loading ??= load();
    return loading.then((loaded) => {
      handler = loaded;
      return loaded(exchange, match);
    });
  };
}
