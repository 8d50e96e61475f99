/**
 * The contract of the configuration service (spec/core.md 6): one row per
 * module, compare-and-set on its version, applied on every node.
 */
import type { Caller } from '../caller.ts';
import type { ConfigDefinition, ConfigHandle } from './definition.ts';

export interface ConfigService {
  /** Called once per module at install, before it starts. */
  register<C>(module: string, definition: ConfigDefinition): Promise<ConfigHandle<C>>;
  modules(): readonly string[];
  definition(module: string): ConfigDefinition | undefined;
  /** The stored configuration with secrets masked, or in clear with `reveal` (super admin only). */
  read(caller: Caller, module: string, options?: { reveal?: boolean }): Promise<StoredConfig>;
  /** RFC 7396 merge, or whole replacement. Validates, stores, applies everywhere, then returns. */
  change(caller: Caller, module: string, patch: Record<string, unknown>, options?: ChangeOptions): Promise<ChangedConfig>;
  history(caller: Caller, module: string): Promise<readonly ConfigVersion[]>;
  rollback(caller: Caller, module: string, version: number): Promise<ChangedConfig>;
}

export interface ChangeOptions {
  readonly replace?: boolean;
  /** Version the caller saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
}

export interface StoredConfig {
  readonly config: Record<string, unknown>;
  readonly version: number;
  readonly updatedAt: string | null;
  readonly updatedBy: string | null;
}

export interface ChangedConfig extends StoredConfig {
  /** Keys that were not known and left out. */
  readonly warnings: readonly string[];
  readonly applied: { readonly replicas: number; readonly failed: readonly string[] };
}

export interface ConfigVersion {
  readonly version: number;
  readonly updatedAt: string;
  readonly updatedBy: string;
}
