/** What operators and the composition decide about MCP. Read anew for each request. */
import type { TObject } from 'typebox';

export interface McpOptions {
  /** Off: the address answers 404. */
  readonly enabled: boolean;
  /** Adds tools that search and call the tools that are not loaded. */
  readonly dynamic: boolean;
  /** Off: no tool answers a secret: neither one that is shown once, nor stored ones. */
  readonly allowSecrets: boolean;
}

/** A module's configuration, which has tools of its own. */
export interface ConfigDocument {
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
  current: () => ({ enabled: false, dynamic: false, allowSecrets: false }),
  onChange: () => undefined,
  configDocuments: () => [],
};
