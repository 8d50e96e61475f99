/** Strict-Transport-Security (RFC 6797), the same for each surface. Off by default: it binds browsers, and with subdomains others too. */
import Type, { type Static } from 'typebox';

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
      description: 'Whether the domain may go on the lists that browsers ship. Hard to undo; needs subdomains and a year.',
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
  return [{ path: 'hsts.preload', rule: 'consistent', message: `needs includeSubDomains, and a maxAge of at least ${PRELOAD_MIN_AGE}` }];
}

/** Value of the header; nothing while it is off. */
export function hstsValue({ enabled, maxAge, includeSubDomains, preload }: HstsConfig): string | undefined {
  if (!enabled) return undefined;
  return [`max-age=${maxAge}`, ...(includeSubDomains ? ['includeSubDomains'] : []), ...(preload ? ['preload'] : [])].join('; ');
}
