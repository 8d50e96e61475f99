/** What can be configured about an HTTP surface while it runs. */

import type { ConfigHandle } from '../../kernel/config/config-definition.ts';
import { type HstsConfig, hstsValue } from '../../kernel/config/surface-config.ts';
import type { Refusal } from '../../kernel/operations/unknown-input.ts';

export interface CorsOptions {
  readonly enabled: boolean;
  /** Exact origins, or `*`. */
  readonly origins: readonly string[];
  readonly methods: string;
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
  /** Only honoured for listed origins: browsers refuse `*` with credentials, and so should everybody. */
  readonly credentials: boolean;
  /** Seconds a browser may remember a preflight. */
  readonly maxAge: number;
}

export interface SurfaceOptions {
  readonly cors: CorsOptions;
  /** Public base address for the API description; empty: the address that is listened on. */
  readonly hostUrl: string;
  /** Whether the API description and its viewer need no credential. */
  readonly docsPublic: boolean;
  /** Value of Strict-Transport-Security; nothing: it is not sent. */
  readonly hsts?: string | undefined;
  /** In which a proxy gives requests their id, beside `x-request-id`; in lower case. */
  readonly requestIdHeader?: string | undefined;
  /** What of input that an operation does not know is 400; the rest is left out, and named in a header. */
  readonly refuses?: Refusal;
  /** Whether only registered apps may call most operations. */
  readonly needsApps?: boolean;
}

/** A live source of options. `current` answers the same object until something changed. */
export interface SurfaceOptionsSource {
  current(): SurfaceOptions;
  onChange(listener: () => void): void;
}

const methods = 'GET,HEAD,PUT,PATCH,POST,DELETE';
const allowed = [
  'content-type',
  'authorization',
  'cache-control',
  'idempotency-key',
  'if-match',
  'if-none-match',
  'range',
  'if-range',
  'prefer',
  'x-request-id',
  'request-id',
];
const clientOnly = [
  'clientid',
  'clientsecret',
  'captchatoken',
  'x-csrf-token',
  'content-digest',
  // Of uploads that are continued (tus 1.0).
  'tus-resumable',
  'upload-length',
  'upload-metadata',
  'upload-offset',
  'upload-checksum',
];
const adminOnly = ['masterkey', 'credential'];
const exposed = [
  'content-type',
  'authorization',
  'cache-control',
  'etag',
  'content-length',
  'content-range',
  'accept-ranges',
  'content-disposition',
  'last-modified',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-request-id',
  'request-id',
  'idempotency-replayed',
  'penstock-input-notes',
];

/** The same protocol says by them where an upload is and how far. */
const exposedByClient = [
  'location',
  'tus-resumable',
  'upload-offset',
  'upload-length',
  'upload-metadata',
  'upload-expires',
  'x-file-id',
];
const exposedHeaders = (surface: 'client' | 'admin'): readonly string[] => [
  ...exposed,
  ...(surface === 'client' ? exposedByClient : []),
];

/** Headers that the surface itself needs, whatever the configuration lists. */
const neededHeaders = (surface: 'client' | 'admin'): readonly string[] => [
  ...allowed,
  ...(surface === 'client' ? clientOnly : adminOnly),
];

export const defaultSurfaceOptions = (surface: 'client' | 'admin'): SurfaceOptions => ({
  cors: {
    enabled: true,
    origins: ['*'],
    methods,
    allowedHeaders: neededHeaders(surface).join(','),
    exposedHeaders: exposedHeaders(surface).join(','),
    credentials: false,
    maxAge: 86_400,
  },
  hostUrl: '',
  docsPublic: true,
});

/** Options that never change. */
export const fixedSurfaceOptions = (options: SurfaceOptions): SurfaceOptionsSource => ({
  current: () => options,
  onChange: () => undefined,
});

/** The part of a module's configuration that describes a surface (spec/router.md 3, spec/core.md 6.3). */
export interface SurfaceConfig {
  readonly hostUrl: string;
  readonly cors: {
    readonly enabled: boolean;
    /** Comma list. */
    readonly origin: string;
    readonly methods: string;
    readonly allowedHeaders: string;
    readonly exposedHeaders: string;
    readonly credentials: boolean;
    readonly maxAge: number;
  };
  readonly hsts: HstsConfig;
}

/** What the rest of the configuration means for a surface. */
interface SurfaceRules<C> {
  readonly docsPublic: (config: C) => boolean;
  readonly requestIdHeader?: (config: C) => string;
  readonly refuses?: () => Refusal;
  readonly needsApps?: (config: C) => boolean;
  /** What the rules look at besides the configuration of the surface. */
  readonly alsoFollow?: readonly { onChange(listener: () => void): unknown }[];
}

/** Options that follow a configuration. */
export function configuredSurfaceOptions<C extends SurfaceConfig>(
  surface: 'client' | 'admin',
  handle: ConfigHandle<C>,
  rules: SurfaceRules<C>,
): SurfaceOptionsSource {
  const { docsPublic, requestIdHeader, refuses = () => 'none', alsoFollow = [] } = rules;
  const read = (config: C): SurfaceOptions => {
    const ownId = requestIdHeader?.(config) || undefined;
    const withId = (names: readonly string[]) => (ownId === undefined ? names : [...names, ownId]);
    return {
      cors: {
        ...config.cors,
        origins: listOf(config.cors.origin),
        allowedHeaders: union(config.cors.allowedHeaders, withId(neededHeaders(surface))),
        exposedHeaders: union(config.cors.exposedHeaders, withId(exposedHeaders(surface))),
      },
      hostUrl: config.hostUrl,
      docsPublic: docsPublic(config),
      hsts: hstsValue(config.hsts),
      requestIdHeader: ownId,
      refuses: refuses(),
      needsApps: rules.needsApps?.(config) ?? false,
    };
  };
  let current = read(handle.current());
  const listeners: (() => void)[] = [];
  const apply = (next: C): void => {
    current = read(next);
    for (const listener of listeners) listener();
  };
  handle.onChange(apply);
  for (const other of alsoFollow) other.onChange(() => apply(handle.current()));
  return { current: () => current, onChange: (listener) => void listeners.push(listener) };
}

const listOf = (text: string): readonly string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

const union = (configured: string, needed: readonly string[]): string =>
  [...new Set([...listOf(configured).map((name) => name.toLowerCase()), ...needed])].join(',');
