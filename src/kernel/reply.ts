/** Answers that are more than a value, and bodies that are too large to be one. */
import { type Cookie, serializeCookie } from './cookie.ts';

type Headers = Readonly<Record<string, string>>;

/** A body that comes and goes piece by piece. Text is sent as UTF-8. */
export type Chunks = AsyncIterable<Uint8Array | string>;

interface Body {
  readonly value?: unknown;
  readonly json?: string;
  readonly text?: string;
  readonly chunks?: Chunks;
}

/** An answer that is more than its JSON body. Records never steer the response; only handlers do. */
export class Reply {
  readonly status: number;
  readonly headers: Headers;
  /** A value like one that a handler returns bare: the output's declaration decides what of it leaves. */
  readonly value: unknown;
  /** Body that is JSON text already, rendered by PostgreSQL and passed through. */
  readonly json: string | undefined;
  /** Body of another content type; `headers` must name it. */
  readonly text: string | undefined;
  /** Body that is made while it is sent; `headers` must name its content type. */
  readonly chunks: Chunks | undefined;
  /** Texts of `Set-Cookie` headers. */
  readonly cookies: readonly string[];

  private constructor(status: number, headers: Headers, body: Body, cookies: readonly string[] = []) {
    this.status = status;
    this.headers = headers;
    this.value = body.value;
    this.json = body.json;
    this.text = body.text;
    this.chunks = body.chunks;
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

  /** Text of another content type, such as HTML or the legacy health line. */
  static text(text: string, contentType: string, status = 200, headers: Headers = {}): Reply {
    return new Reply(status, { ...headers, 'content-type': contentType }, { text });
  }

  /**
   * A body without a known end. The client's pace is the pace at which `chunks` is asked for more; when the
   * client goes away or the operation's deadline passes, the context's signal is aborted and `chunks` is
   * ended (`return`). A failure before the first chunk is answered like any error; after it, the
   * connection is cut, so that nobody takes half a body for a whole one.
   */
  static stream(contentType: string, chunks: Chunks, headers: Headers = {}): Reply {
    return new Reply(200, { ...headers, 'content-type': contentType }, { chunks });
  }

  static redirect(location: string): Reply {
    return new Reply(302, { location }, {});
  }

  /**
   * The same answer that also sets (or with `maxAge: 0` removes) these cookies. Throws when one is malformed.
   * Operations that do so declare `idempotency: false`: cookies are not kept for replay.
   * @example Reply.value({ accessToken }).withCookies([{ name: 'accessToken', value: accessToken, maxAge: 3_600_000 }])
   */
  withCookies(cookies: readonly Cookie[]): Reply {
    return new Reply(this.status, this.headers, this, [...this.cookies, ...cookies.map(serializeCookie)]);
  }
}
