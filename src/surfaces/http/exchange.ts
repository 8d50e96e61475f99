/** One request and its answer on an HTTP surface. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type PresentedApp, presentedApp } from '../../kernel/apps.ts';
import type { PresentedCredentials } from '../../kernel/identity.ts';
import type { SurfaceName } from '../../kernel/operation.ts';
import type { Answer, AnswerStream } from '../../kernel/operations/answer.ts';
import type { CompiledOperation } from '../../kernel/operations/compile.ts';
import type { Call } from '../../kernel/operations/context.ts';
import { STALL_MS, sendStream } from './answer-stream.ts';
import { announcesBody } from './body.ts';
import { presentedCredentials } from './credentials.ts';
import { type HeaderList, setHeader } from './headers.ts';
import { KEEP_ALIVE_BYTES, linger } from './linger.ts';
import { requestIdOf } from './request-id.ts';
import type { Match } from './route-table.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

export interface ExchangeOrigin {
  readonly surface: SurfaceName;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: string;
  readonly address: string;
}

export class Exchange implements Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: string;
  readonly address: string;
  readonly requestId: string;
  readonly startedAt = performance.now();
  app: string | undefined;
  readonly #surface: SurfaceName;
  #match: Match | undefined;

  constructor({ surface, request, response, url, address }: ExchangeOrigin) {
    this.#surface = surface;
    this.request = request;
    this.response = response;
    this.url = url;
    this.address = address;
    this.requestId = requestIdOf(request.headers);
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
    return presentedCredentials(this.request, this.#surface, this.address);
  }

  get presentedApp(): PresentedApp {
    return presentedApp(this.request.headers);
  }

  get userAgent(): string | undefined {
    return this.request.headers['user-agent'];
  }

  get idempotencyKey(): string | undefined {
    const key = this.request.headers['idempotency-key'];
    return key === undefined ? undefined : String(key);
  }

  get origin(): string | undefined {
    return this.request.headers.origin;
  }

  get fetchSite(): string | undefined {
    const site = this.request.headers['sec-fetch-site'];
    return typeof site === 'string' ? site : undefined;
  }

  onDisconnect(listener: () => void): void {
    const { response } = this;
    response.once('close', () => {
      if (!response.writableFinished) listener();
    });
  }

  /** Sends the answer with the surface's headers. Does nothing when the client is gone or was answered. */
  send(base: readonly string[], answer: Answer): void {
    const { response, request } = this;
    if (response.headersSent || response.destroyed) return;
    const unchanged = request.headers['if-none-match'] !== undefined && isUnchanged(request, answer);
    const list = this.#headerList(base, answer, unchanged);
    const body = unchanged ? '' : answer.body;
    if (announcesBody(request) && !request.complete && this.#isLong()) this.#sendAndLinger(list, answer.status, body);
    else response.writeHead(unchanged ? 304 : answer.status, list).end(body);
    // What the network did not take at once waits in memory: nobody may leave it there. Progress begins the time anew.
    if (response.writableLength > 0) request.socket.setTimeout(STALL_MS);
  }

  /**
   * Sends a body that is made meanwhile; settles when it is out. A failure before its first piece leaves the
   * response untouched, for the caller to answer.
   */
  async sendStream(base: readonly string[], answer: Answer, stream: AnswerStream): Promise<void> {
    const { response, request } = this;
    if (request.method === 'HEAD') {
      await stream.chunks[Symbol.asyncIterator]().return?.();
      response.writeHead(answer.status, this.#headerList(base, answer, true)).end();
      return;
    }
    await sendStream(response, stream, () => {
      const list = this.#headerList(base, answer, true);
      if (!request.complete) setHeader(list, 'connection', 'close');
      response.writeHead(answer.status, list);
    });
  }

  #headerList(base: readonly string[], answer: Answer, unchanged: boolean): HeaderList {
    const list: HeaderList = [...base, 'x-request-id', this.requestId, 'request-id', this.requestId];
    if (answer.json) list.push('content-type', JSON_TYPE);
    for (const name in answer.headers) setHeader(list, name, answer.headers[name] ?? '');
    if (answer.cookies) for (const cookie of answer.cookies) list.push('set-cookie', cookie);
    if (!unchanged && answer.status !== 204) list.push('content-length', String(Buffer.byteLength(answer.body)));
    return list;
  }

  /** The part of the body that nobody read is more than can be read away in passing. */
  #isLong(): boolean {
    const length = this.request.headers['content-length'];
    return length === undefined || Number(length) > KEEP_ALIVE_BYTES;
  }

  #sendAndLinger(list: HeaderList, status: number, body: string): void {
    const { response } = this;
    setHeader(list, 'connection', 'close');
    response.writeHead(status, list);
    if (this.request.method !== 'HEAD') response.write(body);
    linger(this.request, () => response.end());
  }
}

/** RFC 9110 13.1.2: the client has this version already. */
function isUnchanged(request: IncomingMessage, answer: Answer): boolean {
  const etag = answer.headers.etag;
  const known = request.headers['if-none-match'];
  if (etag === undefined || known === undefined || answer.status !== 200) return false;
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const bare = weakless(etag);
  return known.trim() === '*' || known.split(',').some((one) => weakless(one.trim()) === bare);
}

const weakless = (etag: string): string => (etag.startsWith('W/') ? etag.slice(2) : etag);
