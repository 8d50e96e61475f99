/**
 * Requests that the platform sends by itself: bounded in time and size, without redirects, over TLS to
 * public addresses unless the operator opened their own network (OWASP API7, server-side request forgery).
 */
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { guardedLookup } from './outbound-names.ts';
import { currentAccount } from './request-account/request-account.ts';
import { version } from './version.ts';

/*
 * Which network addresses the platform may call by itself. Names come from operators, but what a name
 * resolves to, and what a provider's own documents point at, is decided by others: so the address is
 * judged at the moment of the connection (no DNS answer can change in between).
 */

type Range = readonly [network: string, prefix: number, family: 'ipv4' | 'ipv6'];

/** Never called: nothing that an operator wants lives there, but the metadata service of clouds does. */
const forbidden: readonly Range[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['224.0.0.0', 4, 'ipv4'],
  ['240.0.0.0', 4, 'ipv4'],
  ['::', 128, 'ipv6'],
  // Tunnels and translators of somebody's own: where these lead cannot be read off the address.
  ['64:ff9b:1::', 48, 'ipv6'],
  ['2001::', 32, 'ipv6'],
  ['fd00:ec2::254', 128, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
];

/** Called only where the operator said so. */
const internal: readonly Range[] = [
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['::1', 128, 'ipv6'],
  ['fc00::', 7, 'ipv6'],
  ['fec0::', 10, 'ipv6'],
];

const forbiddenList = listOf(forbidden);
const internalList = listOf(internal);

type AddressClass = 'public' | 'internal' | 'forbidden';

/** What kind of address an IP literal is. IPv4 inside IPv6 (mapped, compatible, translated, 6to4) counts as the IPv4 that it reaches. */
export function addressClass(address: string): AddressClass {
  const family = isIP(address);
  if (family === 0) return 'forbidden';
  const embedded = family === 6 ? embeddedIPv4(address) : undefined;
  if (embedded !== undefined) return addressClass(embedded);
  const name = family === 6 ? 'ipv6' : 'ipv4';
  if (forbiddenList.check(address, name)) return 'forbidden';
  return internalList.check(address, name) ? 'internal' : 'public';
}

function listOf(ranges: readonly Range[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix, family] of ranges) list.addSubnet(network, prefix, family);
  return list;
}

/** Prefixes under which an IPv6 address stands for an IPv4 one, and the group at which that one begins. */
const carriers: readonly (readonly [groups: readonly number[], at: number])[] = [
  [[0, 0, 0, 0, 0, 0], 6],
  [[0, 0, 0, 0, 0, 0xffff], 6],
  [[0, 0, 0, 0, 0xffff, 0], 6],
  [[0x64, 0xff9b, 0, 0, 0, 0], 6],
  [[0x2002], 1],
];

function embeddedIPv4(address: string): string | undefined {
  const groups = groupsOf(address);
  if (isItself(groups)) return undefined;
  const at = carriers.find(([prefix]) => prefix.every((group, i) => groups[i] === group))?.[1];
  if (at === undefined) return undefined;
  const [high = 0, low = 0] = groups.slice(at, at + 2);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** `::` and `::1` stand where IPv4 addresses would, and mean themselves. */
const isItself = (groups: readonly number[]): boolean =>
  groups.every((group, i) => (i === 7 ? group <= 1 : group === 0));

/** The eight groups of an IPv6 literal; a dotted end and `::` are written out by the URL parser first. */
function groupsOf(address: string): readonly number[] {
  const canonical = new URL(`http://[${address.split('%', 1)[0]}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const parse = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  if (tail === undefined) return parse(head);
  const [left, right] = [parse(head), parse(tail)];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
}

interface OutboundOptions {
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
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
}

/** Answers whatever status comes, redirects included (nothing is followed). Throws `OutboundError`, and 400 when the request behind it has made too many. */
export type OutboundFetch = (url: string, request?: OutboundRequest) => Promise<Response>;

type OutboundFailure = 'address' | 'insecure' | 'timeout' | 'tooLarge' | 'unreachable';

/** Why a request was not sent or its answer not taken. The message names the host, never the path or the query. */
export class OutboundError extends Error {
  readonly failure: OutboundFailure;
  /** The connection stood: whoever was asked may have taken the request. */
  readonly sent: boolean;

  constructor(
    failure: OutboundFailure,
    host: string,
    { cause, sent = false }: { readonly cause?: unknown; readonly sent?: boolean } = {},
  ) {
    super(`${host}: ${sentences[failure]}`, cause === undefined ? undefined : { cause });
    this.name = 'OutboundError';
    this.failure = failure;
    this.sent = sent;
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
    let sent = false;
    const onConnected = (): void => {
      sent = true;
    };
    try {
      const incoming = await send(url, request, {
        signal,
        // Resolves and judges in one step: the connection goes to an address that was judged.
        lookup: guardedLookup(
          (found) => mayCall(found, allowInternal),
          () => new OutboundError('address', url.host),
        ),
        onConnected,
      });
      return answerOf(incoming, await readBody(incoming, options.maxBytes, url.host));
    } catch (error) {
      if (error instanceof OutboundError) throw error;
      throw new OutboundError(signal.aborted ? 'timeout' : 'unreachable', url.host, {
        cause: error,
        sent,
      });
    }
  };
}

function parse(address: string): URL {
  if (!URL.canParse(address)) throw new OutboundError('address', 'unknown host');
  return new URL(address);
}

/** A literal address never reaches the resolver, so it is judged here. */
function requireAllowed(url: URL, allowInternal: boolean): void {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && allowInternal))
    throw new OutboundError('insecure', url.host);
  const literal = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(literal) !== 0 && !mayCall(literal, allowInternal))
    throw new OutboundError('address', url.host);
}

function mayCall(address: string, allowInternal: boolean): boolean {
  const kind = addressClass(address);
  return kind === 'public' || (kind === 'internal' && allowInternal);
}

interface Connection {
  readonly signal: AbortSignal;
  readonly lookup: LookupFunction;
  /** From now on the request is on its way. */
  onConnected(): void;
}

function send(
  url: URL,
  { method = 'GET', headers, body }: OutboundRequest,
  { signal, lookup, onConnected }: Connection,
): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    // A connection of its own each time: a pooled one might have been opened under other rules.
    const outgoing = request(url, {
      method,
      signal,
      lookup,
      agent: false,
      headers: { ...headers, ...standardHeaders, ...lengthOf(body) },
    });
    const connected = url.protocol === 'https:' ? 'secureConnect' : 'connect';
    outgoing.once('socket', (socket) => socket.once(connected, onConnected));
    // A broken answer is an error of the request too, after it was answered.
    outgoing.once('response', resolve).on('error', reject);
    // Who wants to speak another protocol (101) gives neither an answer nor an error.
    outgoing.once('close', () => reject(new Error('The connection ended without an answer')));
    outgoing.end(body);
  });
}

/** Node says nothing of it where the method (DELETE) needs no body: its bytes would be another request to the receiver. */
const lengthOf = (body: OutboundRequest['body']) =>
  body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };

/** Some services answer only to those who say who they are; these win over whatever a library says. */
const standardHeaders = { 'user-agent': `Penstock/${version}`, 'accept-encoding': 'identity' };

async function readBody(
  incoming: IncomingMessage,
  maxBytes: number,
  host: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new OutboundError('tooLarge', host, { sent: true });
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

/** Of an answer, what callers may read beside its body. */
const passedHeaders = [
  'content-type',
  'www-authenticate',
  'retry-after',
  'location',
  'x-message-id',
  'x-amzn-errortype',
] as const;

function answerOf(
  { statusCode = 502, headers }: IncomingMessage,
  body: Uint8Array<ArrayBuffer>,
): Response {
  const passed = passedHeaders.flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  return new Response(bodiless.has(statusCode) ? null : body, {
    status: statusCode,
    headers: Object.fromEntries(passed),
  });
}
