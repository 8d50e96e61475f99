/** Addresses and requests to the outside. */
import { base64Bytes, base64Text, utf8Bytes, utf8Text, viewOf } from './bytes.ts';
import { askProcess, callPlatform, defineGlobal } from './core.ts';

type Pairs = (readonly [name: string, value: string])[];

function pairsOf(given: unknown): Pairs {
  if (given === undefined || given === null) return [];
  if (typeof given === 'string') return queryPairs(given.startsWith('?') ? given.slice(1) : given);
  if (typeof given === 'object' && Symbol.iterator in given)
    return Array.from(given as Iterable<readonly [unknown, unknown]>, ([name, value]) => [
      String(name),
      String(value),
    ]);
  return Object.entries(given).map(([name, value]) => [name, String(value)]);
}

function decodedPart(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

const queryPairs = (text: string): Pairs =>
  text
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
      return [decodedPart(name), decodedPart(value)];
    });

const encodedPart = (text: string): string => encodeURIComponent(text).replaceAll('%20', '+');

/** Pairs of names and values, in order. */
class PairList {
  protected pairs: Pairs;
  constructor(given?: unknown) {
    this.pairs = pairsOf(given);
  }
  protected keyOf(name: unknown): string {
    return String(name);
  }
  protected changed(): void {
    // Whoever shows the pairs elsewhere writes them anew.
  }
  get(name: unknown): string | null {
    return this.pairs.find(([key]) => key === this.keyOf(name))?.[1] ?? null;
  }
  getAll(name: unknown): string[] {
    return this.pairs.filter(([key]) => key === this.keyOf(name)).map(([, value]) => value);
  }
  has(name: unknown): boolean {
    return this.get(name) !== null;
  }
  append(name: unknown, value: unknown): void {
    this.pairs.push([this.keyOf(name), String(value)]);
    this.changed();
  }
  set(name: unknown, value: unknown): void {
    this.pairs = this.pairs.filter(([key]) => key !== this.keyOf(name));
    this.append(name, value);
  }
  delete(name: unknown): void {
    this.pairs = this.pairs.filter(([key]) => key !== this.keyOf(name));
    this.changed();
  }
  forEach(work: (value: string, name: string) => void): void {
    for (const [name, value] of this.pairs) work(value, name);
  }
  keys(): IterableIterator<string> {
    return this.pairs.map(([name]) => name)[Symbol.iterator]();
  }
  values(): IterableIterator<string> {
    return this.pairs.map(([, value]) => value)[Symbol.iterator]();
  }
  entries(): IterableIterator<readonly [string, string]> {
    return this.pairs[Symbol.iterator]();
  }
  [Symbol.iterator](): IterableIterator<readonly [string, string]> {
    return this.entries();
  }
}

class SandboxSearchParams extends PairList {
  onChange: (() => void) | undefined;
  protected override changed(): void {
    this.onChange?.();
  }
  sort(): void {
    this.pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.changed();
  }
  override toString(): string {
    return this.pairs
      .map(([name, value]) => `${encodedPart(name)}=${encodedPart(value)}`)
      .join('&');
  }
}

class SandboxHeaders extends PairList {
  constructor(given?: unknown) {
    super(given);
    this.pairs = this.pairs.map(([name, value]) => [name.toLowerCase(), value]);
  }
  protected override keyOf(name: unknown): string {
    return String(name).toLowerCase();
  }
}

interface UrlParts {
  readonly href: string;
  readonly origin: string;
  readonly protocol: string;
  readonly username: string;
  readonly password: string;
  readonly host: string;
  readonly hostname: string;
  readonly port: string;
  readonly pathname: string;
  readonly search: string;
  readonly hash: string;
}

const urlParts = (href: unknown, base?: unknown): UrlParts =>
  askProcess('url', {
    href: String(href),
    ...(base !== undefined && { base: String(base) }),
  }) as UrlParts;

class SandboxUrl {
  #parts: UrlParts;
  readonly searchParams: SandboxSearchParams;

  constructor(href: unknown, base?: unknown) {
    this.#parts = urlParts(href, base);
    this.searchParams = new SandboxSearchParams(this.#parts.search);
    this.searchParams.onChange = () => {
      this.#parts = changedUrl(this.#parts.href, 'search', this.searchParams.toString());
    };
  }

  static canParse(href: unknown, base?: unknown): boolean {
    try {
      return urlParts(href, base) !== undefined;
    } catch {
      return false;
    }
  }

  static part(url: SandboxUrl, name: keyof UrlParts): string {
    return url.#parts[name];
  }
  static change(url: SandboxUrl, name: keyof UrlParts, value: unknown): void {
    url.#parts = changedUrl(url.#parts.href, name, String(value));
  }
  toString(): string {
    return this.#parts.href;
  }
  toJSON(): string {
    return this.#parts.href;
  }
}

const changedUrl = (href: string, name: keyof UrlParts, value: string): UrlParts =>
  askProcess('url', { href, set: [name, value] }) as UrlParts;

for (const name of [
  'href',
  'origin',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] as const)
  Object.defineProperty(SandboxUrl.prototype, name, {
    enumerable: true,
    get(this: SandboxUrl) {
      return SandboxUrl.part(this, name);
    },
    set(this: SandboxUrl, value: unknown) {
      SandboxUrl.change(this, name, value);
    },
  });

interface FetchedAnswer {
  readonly status: number;
  readonly url: string;
  readonly headers: Pairs;
  readonly text?: string;
  readonly base64?: string;
}

/** An answer whose body is here whole. */
class SandboxResponse {
  readonly status: number;
  readonly url: string;
  readonly headers: SandboxHeaders;
  readonly #bytes: () => Uint8Array;
  readonly #text: () => string;

  constructor({ status, url, headers, text, base64 }: FetchedAnswer) {
    this.status = status;
    this.url = url;
    this.headers = new SandboxHeaders(headers);
    this.#bytes = () => (text === undefined ? base64Bytes(base64 ?? '') : utf8Bytes(text));
    this.#text = () => text ?? utf8Text(base64Bytes(base64 ?? ''));
  }
  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }
  async text(): Promise<string> {
    return this.#text();
  }
  async json(): Promise<unknown> {
    return JSON.parse(this.#text()) as unknown;
  }
  async bytes(): Promise<Uint8Array> {
    return this.#bytes();
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes().slice().buffer as ArrayBuffer;
  }
}

interface FetchOptions {
  readonly method?: string;
  readonly headers?: unknown;
  readonly body?: unknown;
}

export async function fetchOutside(
  address: unknown,
  { method, headers, body }: FetchOptions = {},
): Promise<SandboxResponse> {
  const sent = new SandboxHeaders(headers);
  const form = body instanceof SandboxSearchParams;
  if (form && !sent.has('content-type'))
    sent.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8');
  const text = typeof body === 'string' || form ? String(body) : undefined;
  const bytes = body === undefined || body === null || text !== undefined ? undefined : body;
  const answer = await callPlatform('fetch', {
    url: String(address),
    method: (method ?? 'GET').toUpperCase(),
    headers: [...sent],
    ...(text !== undefined && { text }),
    ...(bytes !== undefined && { base64: base64Text(viewOf(bytes)) }),
  });
  return new SandboxResponse(answer as FetchedAnswer);
}

defineGlobal('URL', SandboxUrl);
defineGlobal('URLSearchParams', SandboxSearchParams);
defineGlobal('Headers', SandboxHeaders);
defineGlobal('Response', SandboxResponse);
defineGlobal('fetch', fetchOutside);

/* The calls of `axios` that existing functions make, over `fetch`. */

interface AxiosConfig {
  readonly url?: string;
  readonly method?: string;
  readonly baseURL?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly data?: unknown;
  readonly validateStatus?: (status: number) => boolean;
}

async function axiosRequest(config: AxiosConfig): Promise<unknown> {
  const { url = '', method = 'get', baseURL, headers, params, data } = config;
  const address =
    baseURL === undefined ? url : `${baseURL.replace(/\/$/, '')}/${url.replace(/^\//, '')}`;
  const query = new SandboxSearchParams(params).toString();
  const asJson = data !== undefined && typeof data !== 'string';
  const response = await fetchOutside(
    query === '' ? address : `${address}${address.includes('?') ? '&' : '?'}${query}`,
    {
      method,
      headers: { ...(asJson && { 'content-type': 'application/json' }), ...headers },
      ...(data !== undefined && { body: asJson ? JSON.stringify(data) : data }),
    },
  );
  const answer = {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    data: jsonOrText(await response.text()),
    config,
  };
  const isFine = config.validateStatus ?? ((status: number) => status >= 200 && status < 300);
  if (isFine(answer.status)) return answer;
  const error = new Error(`Request failed with status code ${answer.status}`);
  throw Object.assign(error, { isAxiosError: true, response: answer, config });
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function axiosClient(defaults: AxiosConfig): Readonly<Record<string, unknown>> {
  const request = (config: AxiosConfig): Promise<unknown> =>
    axiosRequest({ ...defaults, ...config, headers: { ...defaults.headers, ...config.headers } });
  const without = ['get', 'delete', 'head'].map((method) => [
    method,
    (url: string, config?: AxiosConfig) => request({ ...config, url, method }),
  ]);
  const withData = ['post', 'put', 'patch'].map((method) => [
    method,
    (url: string, data?: unknown, config?: AxiosConfig) =>
      request({ ...config, url, method, data }),
  ]);
  const create = (config: AxiosConfig): unknown => axiosClient({ ...defaults, ...config });
  return Object.assign(request, Object.fromEntries([...without, ...withData]), { request, create });
}

export const axiosLike = axiosClient({});
