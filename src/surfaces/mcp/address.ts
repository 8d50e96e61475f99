/** Where clients reach this surface. */
import { withoutEnd } from '../../kernel/text.ts';
import type { Exchange } from '../http/exchange.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';

/** As configured, else as the client wrote it: descriptions of the address must be whole addresses (RFC 9728). */
export function publicAddress({ current }: SurfaceOptionsSource, { request }: Exchange): string {
  const { hostUrl } = current();
  if (hostUrl !== '') return withoutEnd(hostUrl, '/');
  return `http://${(request.headers.host ?? 'localhost').replace(/["\\\s]/g, '')}`;
}

export const metadataPath = '/.well-known/oauth-protected-resource';
