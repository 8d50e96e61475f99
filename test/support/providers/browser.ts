/** A browser as far as a sign-in at a provider needs one: it keeps cookies and follows redirects when told to. */
import { randomInt } from 'node:crypto';
import type { Answer, Api, Json } from '../api.ts';

export interface StartedSignIn {
  /** Of the provider. */
  readonly url: URL;
  readonly state: string;
}

export interface TestBrowser {
  /** Cookies by name. */
  readonly cookies: Map<string, string>;
  /** Starts from a page of ours unless an `origin` says otherwise; follows the start page when there is one. */
  start(
    provider: string,
    query?: Record<string, string>,
    headers?: Record<string, string>,
  ): Promise<StartedSignIn>;
  /** Comes back from the provider. */
  back(provider: string, query: Record<string, string>): Promise<Answer<Json>>;
  /** GET with the browser's cookies. */
  get(
    path: string,
    query?: Record<string, string>,
    headers?: Record<string, string>,
  ): Promise<Answer<Json>>;
  /** Visits any address with a jar of its own; answers where it was sent when that is at `stopAt`. */
  follow(url: string, stopAt: string): Promise<URL>;
}

/** Each browser comes from an address of its own where the platform trusts 127.0.0.1 as a proxy (`TRUSTED_PROXIES`): limits count per address. */
export function createBrowser(client: Api): TestBrowser {
  const cookies = new Map<string, string>();
  const address = `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
  const cookieHeader = (): Record<string, string> => ({
    'x-forwarded-for': address,
    ...(cookies.size === 0
      ? {}
      : { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') }),
  });
  const keep = (headers: Headers): void => {
    for (const line of headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
  };
  const get = async (
    path: string,
    query: Record<string, string> = {},
    headers: Record<string, string> = {},
  ): Promise<Answer<Json>> => {
    const ownPage = headers.origin === undefined && path.startsWith('/authentication/');
    const page: Record<string, string> = ownPage ? { 'sec-fetch-site': 'same-origin' } : {};
    const answer = await client.get(path, {
      query,
      headers: { ...cookieHeader(), ...page, ...headers },
    });
    keep(answer.headers);
    return answer;
  };

  return {
    cookies,
    async start(provider, query, headers) {
      const answer = await get(`/authentication/init/${provider}`, query, headers);
      if (answer.status !== 200) throw new Error(`init answered ${answer.status} ${answer.text}`);
      let url = new URL(answer.body.result);
      if (url.pathname.endsWith('/start'))
        url = new URL((await get(`${url.pathname}${url.search}`)).headers.get('location') ?? '');
      return { url, state: url.searchParams.get('state') ?? '' };
    },
    get,
    back: (provider, query) => get(`/hook/authentication/${provider}`, query),
    follow,
  };
}

async function follow(start: string, stopAt: string): Promise<URL> {
  const jar = new Map<string, string>();
  let url = new URL(start);
  for (let hops = 0; hops < 10; hops += 1) {
    if (url.href.startsWith(stopAt)) return url;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, {
      redirect: 'manual',
      headers: cookie === '' ? {} : { cookie },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      jar.set(name, value);
    }
    const location = response.headers.get('location');
    if (location === null)
      throw new Error(`${url.href} answered ${response.status} ${await response.text()}`);
    url = new URL(location, url);
  }
  throw new Error('too many redirects');
}
