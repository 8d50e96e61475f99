import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { errors } from '../../kernel/errors.ts';
import type { CookieSender, PresentedCredentials } from '../../kernel/identity.ts';
import type { SurfaceName } from '../../kernel/operations/operation.ts';
import { headerOf } from '../../kernel/request-header.ts';
import type { CorsOptions } from './options.ts';

/** Short and harmless in logs and headers. */
const safe = /^[A-Za-z0-9._:-]{1,64}$/;

/** The caller's id for the request when it is a safe text, else a new one. `own`: a header that counts before the usual ones. */
export function requestIdOf(headers: IncomingHttpHeaders, own?: string): string {
  const first = own === undefined ? undefined : headerOf(headers, own);
  const given = first ?? headerOf(headers, 'x-request-id') ?? headerOf(headers, 'request-id');
  return typeof given === 'string' && safe.test(given) ? given : randomUUID();
}

/* The `Host` header: exactly one (RFC 9112 3.2). What stands behind two of them may believe the other one (CWE-444). */

/** Throws 400. Probes of HTTP/1.0 may leave it out. */
export function requireOneHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return;
  throw errors.INVALID_ARGUMENTS({ message: 'A request has one Host header' });
}

/* Cross-origin rules of a surface. Listed origins are echoed exactly; `*` never goes with credentials. */

export interface Cors {
  /** Headers of an answer to a request from `origin`, as a flat list. */
  headers(origin: string | undefined): readonly string[];
  /** Headers of a preflight answer. */
  preflight(origin: string | undefined): readonly string[];
}

const none: readonly string[] = [];

export function createCors(options: CorsOptions): Cors {
  if (!options.enabled) return { headers: () => none, preflight: () => none };
  const plan = [
    'access-control-allow-methods',
    options.methods,
    'access-control-allow-headers',
    options.allowedHeaders,
    'access-control-max-age',
    String(options.maxAge),
  ];
  const expose = ['access-control-expose-headers', options.exposedHeaders];

  if (options.origins.includes('*')) {
    const any = ['access-control-allow-origin', '*'];
    const answer = [...any, ...expose];
    const preflight = [...any, ...plan];
    return { headers: () => answer, preflight: () => preflight };
  }

  const vary = ['vary', 'Origin'];
  const perOrigin = (extra: readonly string[]): ReadonlyMap<string, readonly string[]> =>
    new Map(
      options.origins.map((origin) => [
        origin,
        [...allow(origin, options.credentials), ...vary, ...extra],
      ]),
    );
  const answers = perOrigin(expose);
  const preflights = perOrigin(plan);
  const find = (table: ReadonlyMap<string, readonly string[]>, origin: string | undefined) =>
    (origin === undefined ? undefined : table.get(origin)) ?? vary;
  return {
    headers: (origin) => find(answers, origin),
    preflight: (origin) => find(preflights, origin),
  };
}

const allow = (origin: string, credentials: boolean): readonly string[] => [
  'access-control-allow-origin',
  origin,
  ...(credentials ? ['access-control-allow-credentials', 'true'] : []),
];

/* Credentials out of request headers: believed in form only, never in content. */

/** Longer tokens than this are nobody's. */
const MAX_TOKEN = 8_192;

/**
 * Reads what the surface understands and ignores the rest: admin credentials mean nothing on the
 * client surface, cookies mean nothing on the admin surface. Throws 401 for a malformed Authorization header.
 */
export function presentedCredentials(
  request: IncomingMessage,
  surface: SurfaceName,
  address: string,
): PresentedCredentials {
  const bearer = bearerOf(request);
  if (surface === 'client') {
    const cookies = cookiesOf(request);
    const sender = cookies === noCookies ? undefined : senderOf(request);
    return { bearer, masterKey: undefined, apiToken: undefined, cookies, sender, address };
  }
  return {
    bearer,
    masterKey: single(request, 'masterkey'),
    apiToken: single(request, 'credential'),
    cookies: {},
    address,
  };
}

function bearerOf(request: IncomingMessage): string | undefined {
  const header = headerOf(request.headers, 'authorization');
  if (header === undefined) return undefined;
  const token = header.slice('Bearer '.length);
  const wellFormed =
    header.length <= MAX_TOKEN &&
    header.slice(0, 7).toLowerCase() === 'bearer ' &&
    visibleAscii.test(token);
  if (!wellFormed || isRepeated(request, 'authorization')) {
    throw errors.UNAUTHORIZED({ message: 'The Authorization header must be: Bearer <token>' });
  }
  return token;
}

const visibleAscii = /^[\x21-\x7e]+$/;

/** Node keeps the first of several Authorization headers; two of them are a contradiction, not a choice. */
function isRepeated(request: IncomingMessage, name: string): boolean {
  const { rawHeaders } = request;
  let seen = false;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const key = rawHeaders[i];
    if (key?.length !== name.length || key.toLowerCase() !== name) continue;
    if (seen) return true;
    seen = true;
  }
  return false;
}

/** A header of our own; an empty one counts as absent. Repeated ones are joined by Node and so match nothing. */
function single(request: IncomingMessage, name: string): string | undefined {
  const value = headerOf(request.headers, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function senderOf(request: IncomingMessage): CookieSender {
  const { method = 'GET', headers } = request;
  const { origin, host } = headers;
  return {
    method,
    origin,
    host,
    fetchSite: single(request, 'sec-fetch-site'),
    csrfToken: single(request, 'x-csrf-token'),
  };
}

const noCookies: Readonly<Record<string, string>> = Object.freeze(
  Object.create(null) as Record<string, string>,
);

function cookiesOf(request: IncomingMessage): Readonly<Record<string, string>> {
  const header = headerOf(request.headers, 'cookie');
  if (header === undefined) return noCookies;
  const cookies = Object.create(null) as Record<string, string>;
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals > 0) cookies[part.slice(0, equals).trim()] ??= part.slice(equals + 1).trim();
  }
  return cookies;
}

/**
 * Response headers as one flat list (`[name, value, ...]`), the form that
 * `writeHead` takes without building an object first.
 */
export type HeaderList = string[];

/**
 * Sent with everything, refusals included. The policy suits JSON: nothing in an answer may be run,
 * framed or used as a page. Pages of our own (the API viewer) replace it.
 */
export const securityHeaders: readonly string[] = [
  'content-security-policy',
  "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options',
  'nosniff',
  'x-frame-options',
  'DENY',
  'referrer-policy',
  'no-referrer',
  'cross-origin-opener-policy',
  'same-origin',
  'cache-control',
  'no-store',
];

/** Replaces the header of that name, or adds it. */
export function setHeader(list: HeaderList, name: string, value: string): void {
  for (let i = 0; i < list.length; i += 2) {
    if (list[i] === name) {
      list[i + 1] = value;
      return;
    }
  }
  list.push(name, value);
}

/** Takes the header of that name away. */
export function dropHeader(list: HeaderList, name: string): void {
  for (let i = 0; i < list.length; i += 2) {
    if (list[i] === name) {
      list.splice(i, 2);
      return;
    }
  }
}
