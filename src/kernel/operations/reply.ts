/** Answers that are more than a value, and bodies that are too large to be one. */
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
  if (problem)
    throw new Error(`Cookie "${names.test(cookie.name) ? cookie.name : '?'}": ${problem}`);
  const {
    name,
    value,
    maxAge,
    domain,
    path = '/',
    httpOnly = true,
    secure = true,
    sameSite = 'lax',
  } = cookie;
  const parts = [`${name}=${value}`, `Path=${path}`];
  if (domain !== undefined) parts.push(`Domain=${domain}`);
  if (maxAge !== undefined) parts.push(`Max-Age=${Math.floor(maxAge / 1_000)}`);
  if (httpOnly) parts.push('HttpOnly');
  if (secure) parts.push('Secure');
  parts.push(`SameSite=${siteWords[sameSite]}`);
  return parts.join('; ');
}

function problemOf({
  name,
  value,
  maxAge,
  domain,
  path = '/',
  secure = true,
  sameSite,
}: Cookie): string | undefined {
  if (!names.test(name)) return 'the name must be 1 to 128 characters of a token';
  if (!values.test(value))
    return 'the value has characters that a cookie cannot hold, or is longer than 4096: encode it';
  if (domain !== undefined && !domains.test(domain)) return 'the domain is no host name';
  if (!paths.test(path)) return 'the path must start with / and hold no spaces and semicolons';
  if (maxAge !== undefined && !(maxAge >= 0 && Number.isFinite(maxAge)))
    return 'maxAge must be milliseconds, 0 or more';
  if (sameSite === 'none' && !secure) return 'sameSite "none" needs secure';
  if (/^__(?:host|secure)-/i.test(name) && !secure) return 'its prefix promises secure';
  if (/^__host-/i.test(name) && (domain !== undefined || path !== '/'))
    return 'its prefix promises no domain and the path /';
  return undefined;
}

type Headers = Readonly<Record<string, string>>;

const encoded = (address: string): string =>
  address.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);

/** Bytes from which on the memory of a piece may be used again when the next piece is asked for. */
export const REUSABLE_BYTES = 65_536;

/** A body that comes and goes piece by piece. Text is sent as UTF-8. Who sends it is done with a piece of `REUSABLE_BYTES` before asking for the next. */
export type Chunks = AsyncIterable<Uint8Array | string>;

/** Bytes that are a whole body, or the part of one that was asked for. */
export interface BodyBytes {
  readonly bytes: Uint8Array;
  /** Called when the system has taken them: their memory may be used again. Not called where nobody knows that. */
  free?(): void;
}

interface Body {
  readonly value?: unknown;
  readonly json?: string;
  readonly isRequested?: boolean;
  readonly text?: string;
  readonly chunks?: Chunks;
  readonly read?: () => Promise<BodyBytes>;
}

/** An answer that is more than its JSON body. Records never steer the response; only handlers do. */
export class Reply {
  readonly status: number;
  readonly headers: Headers;
  /** A value like one that a handler returns bare: the output's declaration decides what of it leaves. */
  readonly value: unknown;
  /** Body that is JSON text already, rendered by PostgreSQL and passed through. */
  readonly json: string | undefined;
  /** `json` has the members that were requested, in their order, and nothing else. */
  readonly isRequested: boolean;
  /** Body of another content type; `headers` must name it. */
  readonly text: string | undefined;
  /** Body that is made while it is sent; `headers` must name its content type. */
  readonly chunks: Chunks | undefined;
  /** Body that is read in one piece when it is about to be sent; `headers` must name its content type. */
  readonly read: (() => Promise<BodyBytes>) | undefined;
  /** Texts of `Set-Cookie` headers. */
  readonly cookies: readonly string[];

  private constructor(
    status: number,
    headers: Headers,
    body: Body,
    cookies: readonly string[] = [],
  ) {
    this.status = status;
    this.headers = headers;
    this.value = body.value;
    this.json = body.json;
    this.isRequested = body.isRequested ?? false;
    this.text = body.text;
    this.chunks = body.chunks;
    this.read = body.read;
    this.cookies = cookies;
  }

  /** What a handler would return, with headers or cookies beside it. A string becomes `{"result": ...}`. */
  static value(value: unknown, headers: Headers = {}, status = 200): Reply {
    return new Reply(status, headers, { value });
  }

  /** JSON text as it is. */
  static json(json: string, headers: Headers = {}, status = 200): Reply {
    return new Reply(status, headers, { json });
  }

  /** JSON text with exactly what the context's `requested` names: a surface that builds answers of parts takes it unread. */
  static requested(json: string): Reply {
    return new Reply(200, {}, { json, isRequested: true });
  }

  /** Text of another content type, such as HTML or the legacy health line. */
  static text(text: string, contentType: string, status = 200, headers: Headers = {}): Reply {
    return new Reply(status, { ...headers, 'content-type': contentType }, { text });
  }

  /**
   * A body without a known end, unless `headers` has its `content-length`. With an `etag` a client that has it already
   * gets 304 and nothing is asked of `chunks`, as for HEAD. The client's pace is the pace at which `chunks` is asked for more; when the
   * client goes away or the operation's deadline passes, the context's signal is aborted and `chunks` is
   * ended (`return`). A failure before the first chunk is answered like any error; after it, the
   * connection is cut, so that nobody takes half a body for a whole one.
   */
  static stream(contentType: string, chunks: Chunks, headers: Headers = {}, status = 200): Reply {
    return new Reply(status, { ...headers, 'content-type': contentType }, { chunks });
  }

  /**
   * A body that is read in one piece: `headers` has its `content-length`. It is not read for HEAD, nor for a client that
   * has what its `etag` says. A failure to read it is answered like any error. It is awaited no longer than the operation may take.
   */
  static bytes(
    contentType: string,
    read: () => Promise<BodyBytes>,
    headers: Headers = {},
    status = 200,
  ): Reply {
    return new Reply(status, { ...headers, 'content-type': contentType }, { read });
  }

  /** An answer without a body, such as 204 or a 416 that tells the length. */
  static empty(status: number, headers: Headers = {}): Reply {
    return new Reply(status, headers, { text: '' });
  }

  /** Characters that no header takes are percent-encoded, as browsers do with addresses. */
  static redirect(location: string, headers: Headers = {}, status = 302): Reply {
    return new Reply(status, { ...headers, location: encoded(location) }, {});
  }

  /**
   * The same answer that also sets (or with `maxAge: 0` removes) these cookies. Throws when one is malformed.
   * Operations that do so declare `idempotency: false`: cookies are not kept for replay.
   * @example Reply.value({ accessToken }).withCookies([{ name: 'accessToken', value: accessToken, maxAge: 3_600_000 }])
   */
  withCookies(cookies: readonly Cookie[]): Reply {
    return new Reply(this.status, this.headers, this, [
      ...this.cookies,
      ...cookies.map(serializeCookie),
    ]);
  }
}
