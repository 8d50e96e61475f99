/** The cross-origin part of a surface's configuration (spec/core.md 6.3, spec/router.md 3), the same for each surface. */

import type { Static, TString } from 'typebox';
import Type from 'typebox';

interface CorsDefaults {
  /** For descriptions: `admin` or `client`. */
  readonly surface: string;
  /** Comma lists. */
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
}

/** The `cors` block of a configuration. */
export const corsConfig = ({ surface, allowedHeaders, exposedHeaders }: CorsDefaults) =>
  Type.Object({
    enabled: Type.Boolean({
      default: true,
      description: `Whether other origins may call the ${surface} surface from a browser.`,
    }),
    origin: Type.String({
      default: '*',
      description:
        'Allowed origins, separated by commas. `*` allows all, then without credentials.',
    }),
    methods: Type.String({
      default: 'GET,HEAD,PUT,PATCH,POST,DELETE',
      description: 'Allowed methods, separated by commas.',
    }),
    allowedHeaders: Type.String({
      default: allowedHeaders,
      description: 'Request headers that browsers may send.',
    }),
    exposedHeaders: Type.String({
      default: exposedHeaders,
      description: 'Response headers that scripts may read.',
    }),
    credentials: Type.Boolean({
      default: true,
      description: 'Whether browsers may send cookies. Without effect while origin is `*`.',
    }),
    maxAge: Type.Integer({
      minimum: 0,
      maximum: 86_400,
      default: 86_400,
      description: 'Seconds that browsers may keep a preflight answer.',
    }),
  });

interface CorsLists {
  readonly origin: string;
  readonly methods: string;
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
}

/** Problems of the lists, for the `check` of a configuration: they go out in headers, and no answer could be sent with some. */
export function corsProblems({ origin, ...lists }: CorsLists) {
  const found = (field: keyof CorsLists, message: string) => ({
    path: `cors.${field}`,
    rule: 'format',
    message,
  });
  const origins = itemsOf(origin).every((item) => item === '*' || isOrigin(item));
  const wrong = (['methods', 'allowedHeaders', 'exposedHeaders'] as const).filter(
    (field) => lists[field].length > MAX_LIST || !itemsOf(lists[field]).every(isToken),
  );
  return [
    ...(origins ? [] : [found('origin', 'must list origins such as https://panel.example.com')]),
    ...wrong.map((field) =>
      found(field, `must list names, separated by commas, in at most ${MAX_LIST} characters`),
    ),
  ];
}

/** Characters: clients take headers of a few thousand. */
const MAX_LIST = 4_096;

const itemsOf = (list: string): readonly string[] =>
  list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

/** A name of a header or method (RFC 9110 5.6.2). */
const isToken = (text: string): boolean => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(text);

const isOrigin = (text: string): boolean => URL.canParse(text) && new URL(text).origin === text;

/* The public address of a surface (spec/core.md 6.3, spec/router.md 3): links, redirects and passkeys hang on it. */

export const hostUrlConfig = (surface: string): TString =>
  Type.String({
    maxLength: 2_048,
    default: '',
    description: `Public address of the ${surface} surface, for links: https://, host, and a path if a proxy adds one. Empty: the local one.`,
  });

/** For the `check` of a configuration. */
export function hostUrlProblems(
  hostUrl: string,
): readonly { path: string; rule: string; message: string }[] {
  if (hostUrl === '' || isAddress(hostUrl)) return [];
  return [
    {
      path: 'hostUrl',
      rule: 'format',
      message: 'must be an address such as https://api.example.com, or empty',
    },
  ];
}

/** Without what would end up in the middle of every link. */
function isAddress(text: string): boolean {
  const url = URL.parse(text);
  return (
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    url.username === '' &&
    url.password === '' &&
    // Nor what no header takes: links are told in some.
    !/[?#\s]|[^\x21-\xff]/.test(text)
  );
}

/* Strict-Transport-Security (RFC 6797), the same for each surface. Off by default: it binds browsers, and with subdomains others too. */

/** The least that the preload lists of browsers accept, in seconds. */
const PRELOAD_MIN_AGE = 31_536_000;

/** The `hsts` block of a configuration. */
export const hstsConfig = (surface: string) =>
  Type.Object({
    enabled: Type.Boolean({
      default: false,
      description: `Whether answers of the ${surface} surface tell browsers to use https only (Strict-Transport-Security). Switch it on once https works for good.`,
    }),
    maxAge: Type.Integer({
      minimum: 0,
      maximum: 63_072_000,
      default: 31_536_000,
      description: 'Seconds that browsers remember it. 0 makes them forget it.',
    }),
    includeSubDomains: Type.Boolean({
      default: false,
      description: 'Whether it holds for every subdomain too, whoever serves that.',
    }),
    preload: Type.Boolean({
      default: false,
      description:
        'Whether the domain may go on the lists that browsers ship. Hard to undo; needs subdomains and a year.',
    }),
  });

export type HstsConfig = Static<ReturnType<typeof hstsConfig>>;

/** For the `check` of a configuration. */
export function hstsProblems({
  enabled,
  maxAge,
  includeSubDomains,
  preload,
}: HstsConfig): readonly { path: string; rule: string; message: string }[] {
  if (!enabled || !preload || (includeSubDomains && maxAge >= PRELOAD_MIN_AGE)) return [];
  return [
    {
      path: 'hsts.preload',
      rule: 'consistent',
      message: `needs includeSubDomains, and a maxAge of at least ${PRELOAD_MIN_AGE}`,
    },
  ];
}

/** Value of the header; nothing while it is off. */
export function hstsValue({
  enabled,
  maxAge,
  includeSubDomains,
  preload,
}: HstsConfig): string | undefined {
  if (!enabled) return undefined;
  return [
    `max-age=${maxAge}`,
    ...(includeSubDomains ? ['includeSubDomains'] : []),
    ...(preload ? ['preload'] : []),
  ].join('; ');
}
