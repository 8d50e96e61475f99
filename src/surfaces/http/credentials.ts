/** Credentials out of request headers: believed in form only, never in content. */
import type { IncomingMessage } from 'node:http';
import { errors } from '../../kernel/errors.ts';
import type { CookieSender, PresentedCredentials } from '../../kernel/identity.ts';
import type { SurfaceName } from '../../kernel/operation.ts';

/** Longer tokens than this are nobody's. */
const MAX_TOKEN = 8_192;

/**
 * Reads what the surface understands and ignores the rest: admin credentials mean nothing on the
 * client surface, cookies mean nothing on the admin surface. Throws 401 for a malformed Authorization header.
 */
export function presentedCredentials(request: IncomingMessage, surface: SurfaceName, address: string): PresentedCredentials {
  const bearer = bearerOf(request);
  if (surface === 'client') {
    const cookies = cookiesOf(request);
    const sender = cookies === noCookies ? undefined : senderOf(request);
    return { bearer, masterKey: undefined, apiToken: undefined, cookies, sender, address };
  }
  return { bearer, masterKey: single(request, 'masterkey'), apiToken: single(request, 'credential'), cookies: {}, address };
}

function bearerOf(request: IncomingMessage): string | undefined {
  const header = request.headers.authorization;
  if (header === undefined) return undefined;
  const token = header.slice('Bearer '.length);
  const wellFormed = header.length <= MAX_TOKEN && header.slice(0, 7).toLowerCase() === 'bearer ' && visibleAscii.test(token);
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
  const value = request.headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function senderOf(request: IncomingMessage): CookieSender {
  const { method = 'GET', headers } = request;
  const { origin, host } = headers;
  return { method, origin, host, fetchSite: single(request, 'sec-fetch-site'), csrfToken: single(request, 'x-csrf-token') };
}

const noCookies: Readonly<Record<string, string>> = Object.freeze(Object.create(null) as Record<string, string>);

function cookiesOf(request: IncomingMessage): Readonly<Record<string, string>> {
  const header = request.headers.cookie;
  if (header === undefined) return noCookies;
  const cookies = Object.create(null) as Record<string, string>;
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals > 0) cookies[part.slice(0, equals).trim()] ??= part.slice(equals + 1).trim();
  }
  return cookies;
}
