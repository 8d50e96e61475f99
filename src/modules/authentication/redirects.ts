/**
 * Where a browser may be sent at the end of a flow. An address from a request must match the list of the
 * configuration by origin and path; anything else would let a mail of ours lead to somebody else's page,
 * with tokens in the address.
 */

import Type from 'typebox';
import { authErrors } from './errors.ts';

interface RedirectRules {
  /** Accept every address on the web. */
  readonly allowAny: boolean;
  /** Whole addresses; one whose path ends in `/*` stands for everything below. */
  readonly whitelistedUris: readonly string[];
}

const maxLength = 2048;
/** Schemes that run or show something instead of leading somewhere. */
const refusedSchemes: ReadonlySet<string> = new Set([
  'javascript:',
  'data:',
  'vbscript:',
  'file:',
  'blob:',
  'about:',
  'view-source:',
]);

/**
 * The address in its normal form. Throws 400 for what is none, 403 for what is not on the list. `path`
 * names the input field in the answer.
 */
export function allowedRedirect(
  address: string,
  rules: RedirectRules,
  path = 'redirectUri',
): string {
  const url = parseTarget(address);
  if (!url) {
    const message = 'this is not an address that a browser can be sent to';
    throw authErrors.REDIRECT_INVALID({
      message: `${path}: ${message}`,
      errors: [{ path, rule: 'uri', message }],
    });
  }
  if (rules.allowAny && isWeb(url)) return url.href;
  if (rules.whitelistedUris.some((entry) => matches(url, entry))) return url.href;
  throw authErrors.REDIRECT_NOT_ALLOWED({
    errors: [
      {
        path,
        rule: 'allowed',
        message: 'an operator must add this address to redirectUris.whitelistedUris',
      },
    ],
  });
}

/** The parsed address, or nothing when it could be read in two ways, hides its host, or would run something. */
export function parseTarget(address: string): URL | undefined {
  // Browsers drop control characters and read backslashes as slashes: what is checked must be what is used.
  if (address.length > maxLength || /[\p{Cc}\s\\]/u.test(address)) return undefined;
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  if (refusedSchemes.has(url.protocol) || url.username !== '' || url.password !== '')
    return undefined;
  if (isWeb(url) && !/^https?:\/\/[^/]/i.test(address)) return undefined;
  return url;
}

const isWeb = ({ protocol }: URL): boolean => protocol === 'https:' || protocol === 'http:';

/** Same scheme, host and port, and the same path; queries and fragments do not matter. */
function matches(url: URL, entry: string): boolean {
  const allowed = parseTarget(entry);
  if (!allowed || allowed.protocol !== url.protocol || allowed.host !== url.host) return false;
  if (allowed.pathname.endsWith('/*'))
    return url.pathname.startsWith(allowed.pathname.slice(0, -1));
  return bare(allowed.pathname) === bare(url.pathname);
}

/** A slash at the end does not make another page. */
const bare = (pathname: string): string => pathname.replace(/\/$/, '');

/* Where browsers may be sent at the end of a flow. */

/** An address of the app; empty where there is none. */
export const address = (description: string) =>
  Type.String({ default: '', maxLength: 2048, description });

export const redirectsConfig = Type.Object({
  allowAny: Type.Boolean({
    default: false,
    description:
      'Accept every web address that a request names. Only for development: links in mails could then lead anywhere.',
  }),
  whitelistedUris: Type.Array(Type.String({ maxLength: 2048 }), {
    default: [],
    maxItems: 1000,
    description:
      'Addresses that a request may name as its redirectUri. The path must be the same; one that ends in `/*` stands for everything below.',
  }),
  tokenDelivery: Type.Union(
    [Type.Literal('query'), Type.Literal('fragment'), Type.Literal('exchange')],
    {
      default: 'query',
      description:
        'How an app gets its tokens at the end of a flow in the browser: in the query of the address, behind its `#`, or by a code that it exchanges once at POST /authentication/exchange (the safest).',
    },
  ),
});

/** Configured addresses that are none, with dotted paths. */
export const addressProblems = (addresses: Readonly<Record<string, string>>) =>
  Object.entries(addresses)
    .filter(([, value]) => value !== '' && !parseTarget(value))
    .map(([path]) => ({
      path,
      rule: 'uri',
      message: 'this is not an address that a browser can be sent to',
    }));

/* Addresses that messages and answers carry. They are built by URL, so that a query that is there already stays. */

export interface Links {
  /** A path of our own client surface as a whole address: `/hook/authentication/verify-email/...`. */
  to(path: string): string;
}

export const createLinks = (publicUrl: () => string): Links => ({
  to: (path) => `${publicUrl()}${path}`,
});

/** The address with these parameters in its query; one that was there under the same name is replaced. */
export function withQuery(address: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The address with these parameters behind `#`, which browsers do not send to servers. */
export function withFragment(
  address: string,
  parameters: Readonly<Record<string, string>>,
): string {
  const url = new URL(address);
  url.hash = new URLSearchParams(parameters).toString();
  return url.href;
}
