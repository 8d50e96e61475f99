/** The cookie that marks the browser in which a sign-in began. It opens nothing: it only has to come back. */
import type { Cookie } from '../../../../kernel/operation.ts';
import type { Provider } from './provider.ts';

/** As long as an attempt lives; ms. */
const maxAge = 10 * 60_000;

export interface BrowserCookie {
  /** One per provider, so that an answer meant for one cannot end at another. */
  readonly name: string;
  read(cookies: Readonly<Record<string, string>>): string | undefined;
  write(value: string): Cookie;
}

/**
 * A provider that answers by form post comes across sites, where browsers send only cookies that allow it.
 * Without TLS (development) neither that nor the `__Host-` prefix can be had.
 */
export function browserCookie({ settings, preset }: Provider, publicUrl: string): BrowserCookie {
  const secure = publicUrl.startsWith('https:');
  const name = `${secure ? '__Host-' : ''}sign-in-${settings.name}`;
  const sameSite = preset.formPost && secure ? 'none' : 'lax';
  return {
    name,
    read: (cookies) => (Object.hasOwn(cookies, name) ? cookies[name] : undefined),
    write: (value) => ({ name, value, maxAge, secure, sameSite, httpOnly: true }),
  };
}
