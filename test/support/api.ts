/** A small HTTP client for tests: answers whatever comes, never throws for a status. */

export interface Answer<T = unknown> {
  readonly status: number;
  readonly headers: Headers;
  /** The body as it came. */
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: T;
}

export interface RequestOptions {
  /** Becomes `Authorization: Bearer <token>`. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  readonly signal?: AbortSignal;
}

// biome-ignore lint/suspicious/noExplicitAny: the shape of a body is what the calling test asserts
export type Json = any;

export interface Api {
  readonly baseUrl: string;
  /** The same address with further headers on every request. */
  with(headers: Readonly<Record<string, string>>): Api;
  /** Sends `body` as it is when it is text, else as JSON. */
  send<T = Json>(
    method: string,
    path: string,
    body?: unknown,
    options?: RequestOptions,
  ): Promise<Answer<T>>;
  get<T = Json>(path: string, options?: RequestOptions): Promise<Answer<T>>;
  post<T = Json>(path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
  patch<T = Json>(path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
  put<T = Json>(path: string, body?: unknown, options?: RequestOptions): Promise<Answer<T>>;
  delete<T = Json>(path: string, options?: RequestOptions): Promise<Answer<T>>;
}

export function createApi(baseUrl: string, standing: Readonly<Record<string, string>> = {}): Api {
  const send = async <T>(
    method: string,
    path: string,
    body?: unknown,
    options: RequestOptions = {},
  ): Promise<Answer<T>> => {
    const url = new URL(path, baseUrl);
    for (const [name, value] of Object.entries(options.query ?? {}))
      url.searchParams.set(name, String(value));
    const headers = new Headers(standing);
    if (body !== undefined) headers.set('content-type', 'application/json');
    for (const [name, value] of Object.entries(headersOf(options))) headers.set(name, value);
    const response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: options.signal ?? null,
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: parse(text) as T };
  };
  return {
    baseUrl,
    with: (headers) => createApi(baseUrl, { ...standing, ...headers }),
    send,
    get: (path, options) => send('GET', path, undefined, options),
    post: (path, body, options) => send('POST', path, body, options),
    patch: (path, body, options) => send('PATCH', path, body, options),
    put: (path, body, options) => send('PUT', path, body, options),
    delete: (path, options) => send('DELETE', path, undefined, options),
  };
}

const headersOf = ({ token, headers }: RequestOptions): Record<string, string> => ({
  ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  ...headers,
});

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
