/** Cross-origin rules of a surface. Listed origins are echoed exactly; `*` never goes with credentials. */
import type { CorsOptions } from './options.ts';

export interface Cors {
  /** Headers of an answer to a request from `origin`, as a flat list. */
  headers(origin: string | undefined): readonly string[];
  /** Headers of a preflight answer. */
  preflight(origin: string | undefined): readonly string[];
}

const none: readonly string[] = [];

export function createCors(options: CorsOptions): Cors {
  if (!options.enabled) return { headers: () => none, preflight: () => none };
  const plan = [
    'access-control-allow-methods',
    options.methods,
    'access-control-allow-headers',
    options.allowedHeaders,
    'access-control-max-age',
    String(options.maxAge),
  ];
  const expose = ['access-control-expose-headers', options.exposedHeaders];

  if (options.origins.includes('*')) {
    const any = ['access-control-allow-origin', '*'];
    const answer = [...any, ...expose];
    const preflight = [...any, ...plan];
    return { headers: () => answer, preflight: () => preflight };
  }

  const vary = ['vary', 'Origin'];
  const perOrigin = (extra: readonly string[]): ReadonlyMap<string, readonly string[]> =>
    new Map(options.origins.map((origin) => [origin, [...allow(origin, options.credentials), ...vary, ...extra]]));
  const answers = perOrigin(expose);
  const preflights = perOrigin(plan);
  const find = (table: ReadonlyMap<string, readonly string[]>, origin: string | undefined) =>
    (origin === undefined ? undefined : table.get(origin)) ?? vary;
  return { headers: (origin) => find(answers, origin), preflight: (origin) => find(preflights, origin) };
}

const allow = (origin: string, credentials: boolean): readonly string[] => [
  'access-control-allow-origin',
  origin,
  ...(credentials ? ['access-control-allow-credentials', 'true'] : []),
];
