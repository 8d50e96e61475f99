/** A browser as far as sign-ins need one: it keeps cookies by their paths and follows redirects of one origin. */
export interface CookieBrowser {
  /** Follows redirects until one leaves the origin; answers that address, or the page. */
  visit(url: string): Promise<Visit>;
  /** Sends JSON with the cookies of that address. */
  send(
    url: string,
    body: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly status: number; readonly body: Record<string, unknown> }>;
  /** Sends the form of a page; follows redirects. */
  submit(url: string, fields: Readonly<Record<string, string>>): Promise<Visit>;
}

export interface Visit {
  readonly status: number;
  /** Where the browser is, or was sent to. */
  readonly url: string;
  readonly text: string;
  readonly headers: Headers;
}

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

export function createCookieBrowser(origin: string): CookieBrowser {
  const jar = new Map<string, Cookie>();
  const keep = (headers: Headers): void => {
    for (const line of headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split('; ');
      const [name = '', value = ''] = pair.split(/=(.*)/s);
      const named = new Map(
        attributes.map((one) => one.toLowerCase().split('=') as [string, string]),
      );
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/';
      const gone = named.get('max-age') === '0';
      if (gone) jar.delete(`${name} ${path}`);
      else jar.set(`${name} ${path}`, { name, value, path });
    }
  };
  const cookiesOf = (url: string): string => {
    const { pathname } = new URL(url);
    return [...jar.values()]
      .filter(({ path }) => pathname === path || pathname.startsWith(path.replace(/\/?$/, '/')))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
  };
  const request = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (!headers.has('accept')) headers.set('accept', 'text/html');
    headers.set('cookie', cookiesOf(url));
    const response = await fetch(url, { ...init, headers, redirect: 'manual' });
    keep(response.headers);
    return response;
  };
  const follow = async (first: Response, from: string): Promise<Visit> => {
    let response = first;
    let url = from;
    for (let hops = 0; hops < 10; hops += 1) {
      const location = response.headers.get('location');
      if (location === null) break;
      url = new URL(location, url).href;
      if (new URL(url).origin !== origin) break;
      await response.body?.cancel();
      response = await request(url);
    }
    const { status, headers } = response;
    return { status, url, headers, text: await response.text() };
  };
  return {
    visit: async (url) => follow(await request(url), url),
    async send(url, body, headers = {}) {
      const response = await request(url, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
      });
      return {
        status: response.status,
        body: (await response.json()) as Record<string, unknown>,
      };
    },
    submit: async (url, fields) =>
      follow(await request(url, { method: 'POST', body: new URLSearchParams(fields) }), url),
  };
}
