/**
 * Requests that the platform sends by itself: bounded in time and size, without redirects, over TLS to
 * public addresses unless the operator opened his own network (OWASP API7, server-side request forgery).
 */
import { lookup as resolveName } from 'node:dns';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { currentAccount } from '../account/request-account.ts';
import { version } from '../version.ts';
import { addressClass } from './addresses.ts';

export interface OutboundOptions {
  /** Whether private and loopback addresses, and plain HTTP, may be used; read at each request. */
  readonly allowInternal: () => boolean;
  /** Milliseconds for the whole exchange, the body included. */
  readonly timeoutMs: number;
  /** Bytes of the answer's body. */
  readonly maxBytes: number;
}

export interface OutboundRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** Answers whatever status comes, redirects included (nothing is followed). Throws `OutboundError`, and 400 when the request behind it has made too many. */
export type OutboundFetch = (url: string, request?: OutboundRequest) => Promise<Response>;

export type OutboundFailure = 'address' | 'insecure' | 'timeout' | 'tooLarge' | 'unreachable';

/** Why a request was not sent or its answer not taken. The message names the host, never the path or the query. */
export class OutboundError extends Error {
  readonly failure: OutboundFailure;

  constructor(failure: OutboundFailure, host: string, cause?: unknown) {
    super(`${host}: ${sentences[failure]}`, cause === undefined ? undefined : { cause });
    this.name = 'OutboundError';
    this.failure = failure;
  }
}

const sentences: Readonly<Record<OutboundFailure, string>> = {
  address: 'this address may not be called',
  insecure: 'only https addresses may be called',
  timeout: 'no answer in time',
  tooLarge: 'the answer is too large',
  unreachable: 'no connection, or it broke',
};

export function createOutboundFetch(options: OutboundOptions): OutboundFetch {
  return async (address, request = {}) => {
    currentAccount()?.charge('outboundCalls');
    const url = parse(address);
    const allowInternal = options.allowInternal();
    requireAllowed(url, allowInternal);
    const timeout = AbortSignal.timeout(options.timeoutMs);
    const signal = request.signal ? AbortSignal.any([timeout, request.signal]) : timeout;
    try {
      const incoming = await send(url, request, { signal, lookup: guardedLookup(url.host, allowInternal) });
      return answerOf(incoming, await readBody(incoming, options.maxBytes, url.host));
    } catch (error) {
      if (error instanceof OutboundError) throw error;
      throw new OutboundError(signal.aborted ? 'timeout' : 'unreachable', url.host, error);
    }
  };
}

function parse(address: string): URL {
  if (!URL.canParse(address)) throw new OutboundError('address', 'unknown host');
  return new URL(address);
}

/** A literal address never reaches the resolver, so it is judged here. */
function requireAllowed(url: URL, allowInternal: boolean): void {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && allowInternal)) throw new OutboundError('insecure', url.host);
  const literal = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0 && !mayCall(literal, allowInternal)) throw new OutboundError('address', url.host);
}

function mayCall(address: string, allowInternal: boolean): boolean {
  const kind = addressClass(address);
  return kind === 'public' || (kind === 'internal' && allowInternal);
}

/** Resolves and judges in one step: the connection goes to an address that was judged. */
function guardedLookup(host: string, allowInternal: boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolveName(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const allowed = addresses.filter(({ address }) => mayCall(address, allowInternal));
      const [first] = allowed;
      if (!first) return callback(new OutboundError('address', host), []);
      if (options.all) return callback(null, allowed);
      return callback(null, first.address, first.family);
    });
  };
}

interface Connection {
  readonly signal: AbortSignal;
  readonly lookup: LookupFunction;
}

function send(url: URL, { method = 'GET', headers, body }: OutboundRequest, { signal, lookup }: Connection): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    // A connection of its own each time: a pooled one might have been opened under other rules.
    const outgoing = request(url, { method, signal, lookup, agent: false, headers: { ...headers, ...standardHeaders } });
    outgoing.once('response', resolve).once('error', reject).end(body);
  });
}

/** Some services answer only to those who say who they are; these win over whatever a library says. */
const standardHeaders = { 'user-agent': `Penstock/${version}`, 'accept-encoding': 'identity' };

async function readBody(incoming: IncomingMessage, maxBytes: number, host: string): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new OutboundError('tooLarge', host);
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

function answerOf({ statusCode = 502, headers }: IncomingMessage, body: Uint8Array<ArrayBuffer>): Response {
  const type = headers['content-type'];
  const challenge = headers['www-authenticate'];
  return new Response(bodiless.has(statusCode) ? null : body, {
    status: statusCode,
    headers: {
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(challenge === undefined ? {} : { 'www-authenticate': challenge }),
    },
  });
}
