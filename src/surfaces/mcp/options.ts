/** What operators and the composition decide about MCP. Read anew for each request. */
import type { TObject } from 'typebox';
import { withoutEnd } from '../../kernel/text.ts';
import type { Exchange } from '../http/exchange.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';

/* Where clients reach this surface. */

/** As configured, else as the client wrote it: descriptions of the address must be whole addresses (RFC 9728). */
export function publicAddress({ current }: SurfaceOptionsSource, { request }: Exchange): string {
  const { hostUrl } = current();
  if (hostUrl !== '') return withoutEnd(hostUrl, '/');
  return `http://${(request.headers.host ?? 'localhost').replace(/["\\\s]/g, '')}`;
}

export const metadataPath = '/.well-known/oauth-protected-resource';

export interface McpOptions {
  /** Off: the address answers 404. */
  readonly enabled: boolean;
  /** Adds tools that search and call the tools that are not loaded. */
  readonly dynamic: boolean;
  /** Off: no tool answers a secret: neither one that is shown once, nor stored ones. */
  readonly allowSecrets: boolean;
  /** Tool calls of one credential in 10 s. */
  readonly callsPer10s: number;
}

/** A module's configuration, which has tools of its own. */
interface ConfigDocument {
  readonly module: string;
  /** The module that it belongs to. */
  readonly owner: string;
  readonly schema: TObject;
}

export interface McpSource {
  current(): McpOptions;
  onChange(listener: () => void): void;
  configDocuments(): readonly ConfigDocument[];
}

/** For surfaces that are started without a composition. */
export const noMcp: McpSource = {
  current: () => ({ enabled: false, dynamic: false, allowSecrets: false, callsPer10s: 60 }),
  onChange: () => undefined,
  configDocuments: () => [],
};
