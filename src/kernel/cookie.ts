/**
 * Cookies of an answer (RFC 6265). They are safe unless told otherwise, and a part
 * that does not fit is refused before it can become another header.
 */
export interface Cookie {
  /** A token; names with `__Host-` and `__Secure-` must keep what they promise. */
  readonly name: string;
  /** Visible ASCII without spaces, quotes, commas, semicolons and backslashes. Encode anything else. */
  readonly value: string;
  /** Milliseconds that it lives; 0 removes it, absent: until the browser closes. */
  readonly maxAge?: number;
  /** Scripts cannot read it, unless false. */
  readonly httpOnly?: boolean;
  /** Sent over TLS only (and to localhost), unless false. */
  readonly secure?: boolean;
  /** `lax` unless set. `none` needs `secure`. */
  readonly sameSite?: 'strict' | 'lax' | 'none';
  /** Absent: this host alone, which is safest. */
  readonly domain?: string;
  /** `/` unless set. A cookie is removed under the domain and the path that it was set with. */
  readonly path?: string;
}

const names = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const values = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{0,4096}$/;
const domains = /^\.?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i;
const paths = /^\/[\x21-\x3a\x3c-\x7e]{0,1023}$/;

const siteWords = { strict: 'Strict', lax: 'Lax', none: 'None' } as const;

/** The text of a `Set-Cookie` header. Throws when a part is none: that is a mistake of the program, never shown to callers. */
export function serializeCookie(cookie: Cookie): string {
  const problem = problemOf(cookie);
  if (problem) throw new Error(`Cookie "${names.test(cookie.name) ? cookie.name : '?'}": ${problem}`);
  const { name, value, maxAge, domain, path = '/', httpOnly = true, secure = true, sameSite = 'lax' } = cookie;
  const parts = [`${name}=${value}`, `Path=${path}`];
  if (domain !== undefined) parts.push(`Domain=${domain}`);
  if (maxAge !== undefined) parts.push(`Max-Age=${Math.floor(maxAge / 1_000)}`);
  if (httpOnly) parts.push('HttpOnly');
  if (secure) parts.push('Secure');
  parts.push(`SameSite=${siteWords[sameSite]}`);
  return parts.join('; ');
}

function problemOf({ name, value, maxAge, domain, path = '/', secure = true, sameSite }: Cookie): string | undefined {
  if (!names.test(name)) return 'the name must be 1 to 128 characters of a token';
  if (!values.test(value)) return 'the value has characters that a cookie cannot hold, or is longer than 4096: encode it';
  if (domain !== undefined && !domains.test(domain)) return 'the domain is no host name';
  if (!paths.test(path)) return 'the path must start with / and hold no spaces and semicolons';
  if (maxAge !== undefined && !(maxAge >= 0 && Number.isFinite(maxAge))) return 'maxAge must be milliseconds, 0 or more';
  if (sameSite === 'none' && !secure) return 'sameSite "none" needs secure';
  if (/^__(?:host|secure)-/i.test(name) && !secure) return 'its prefix promises secure';
  if (/^__host-/i.test(name) && (domain !== undefined || path !== '/')) return 'its prefix promises no domain and the path /';
  return undefined;
}
