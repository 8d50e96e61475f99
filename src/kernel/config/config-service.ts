/**
 * The contract of the configuration service (spec/core.md 6): one row per
 * module, compare-and-set on its version, applied on every node.
 */
import type { Caller } from '../caller.ts';
import type { ConfigDefinition, ConfigHandle } from './config-definition.ts';

export interface ConfigService {
  /** Called once per module at install, before it starts. */
  register<C>(module: string, definition: ConfigDefinition): Promise<ConfigHandle<C>>;
  modules(): readonly string[];
  /** Told of each configuration that is another one here from now on. Answers how to stop. */
  onChange(listener: (module: string) => void): () => void;
  /** Those that the caller may reach. */
  modulesFor(caller: Caller): readonly string[];
  definition(module: string): ConfigDefinition | undefined;
  /** The stored configuration with secrets masked, or in clear with `reveal` (super admin only). */
  read(caller: Caller, module: string, options?: { reveal?: boolean }): Promise<StoredConfig>;
  /** RFC 7396 merge, or whole replacement. Validates, stores, applies everywhere, then returns. */
  change(
    caller: Caller,
    module: string,
    patch: Record<string, unknown>,
    options?: ChangeOptions,
  ): Promise<ChangedConfig>;
  /** What `change` would do now, and throws what it would throw. Writes nothing. */
  preview(
    caller: Caller,
    module: string,
    patch: Record<string, unknown>,
    options?: ChangeOptions,
  ): Promise<PreviewedConfig>;
  history(caller: Caller, module: string): Promise<readonly ConfigVersion[]>;
  rollback(
    caller: Caller,
    module: string,
    version: number,
    options?: Pick<ChangeOptions, 'onDecided'>,
  ): Promise<ChangedConfig>;
  /** A patch as it may be written down: secrets masked, by the marks of the module. */
  maskPatch(module: string, patch: Record<string, unknown>): unknown;
}

export interface ChangeOptions {
  readonly replace?: boolean;
  /** Version the caller saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
  /** What guards would refuse is done. */
  readonly force?: boolean;
  /** Keys that are not known are refused instead of left out. */
  readonly strict?: boolean;
  /** Told what will change, right before it is stored; once more when somebody else was faster. */
  readonly onDecided?: (differences: readonly ConfigDifference[]) => void;
}

export interface PreviewedConfig
  extends Pick<ChangedConfig, 'config' | 'warnings' | 'differences'> {
  /** The stored one. */
  readonly version: number;
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
  /** What this change changed; secrets are masked. */
  readonly differences: readonly ConfigDifference[];
}

/** One leaf that has another value now; `null`: it had or has none. */
export interface ConfigDifference {
  /** Dotted. */
  readonly path: string;
  readonly from: unknown;
  readonly to: unknown;
}

export interface ConfigVersion {
  readonly version: number;
  readonly updatedAt: string;
  readonly updatedBy: string;
}
