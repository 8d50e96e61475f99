/**
 * Pages must not speak MCP through a browser that can reach this server. The protocol asks servers to check where a
 * request comes from (DNS rebinding, CWE-350): a name that an attacker owns may lead to 127.0.0.1.
 */
import { isIP } from 'node:net';
import { errors } from '../../kernel/errors.ts';
import type { Exchange } from '../http/exchange.ts';
import type { SurfaceOptions } from '../http/options.ts';

/** Throws 403. Agents send no Origin; `*` in `cors.origin` is no list of pages that may. */
export function requireOwnOrigin(
  { cors, hostUrl }: SurfaceOptions,
  { origin, request }: Exchange,
): void {
  const own = hostUrl === '' ? undefined : new URL(hostUrl);
  if (
    origin !== undefined &&
    !isOwn(origin, own) &&
    !(cors.enabled && cors.origins.includes(origin))
  )
    throw errors.FORBIDDEN({ message: 'This origin may not use MCP: add it to admin.cors.origin' });
  const host = hostOf(request.headers.host);
  if (host !== undefined && !isUnownable(host) && host !== own?.hostname)
    throw errors.FORBIDDEN({
      message:
        'MCP does not answer under this host name: set admin.hostUrl to the address that agents use',
    });
}

function isOwn(origin: string, own: URL | undefined): boolean {
  if (!URL.canParse(origin)) return false;
  const page = new URL(origin);
  return isLoopback(page.hostname) || page.origin === own?.origin;
}

const hostOf = (header: string | undefined): string | undefined =>
  header === undefined || !URL.canParse(`http://${header}`)
    ? undefined
    : new URL(`http://${header}`).hostname;

/** Names that nobody can point at us from outside: addresses, this machine, and names without a domain. */
const isUnownable = (host: string): boolean =>
  isIP(bare(host)) !== 0 || isLoopback(host) || !host.includes('.');

const isLoopback = (host: string): boolean =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  bare(host) === '::1' ||
  (isIP(host) === 4 && host.startsWith('127.'));

const bare = (host: string): string => host.replace(/^\[|\]$/g, '');
