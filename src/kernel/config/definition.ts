/**
 * Typed configuration of a module: one TypeBox object whose leaves carry
 * defaults and descriptions. Forms, docs, validation and masking come from it.
 */
import Type, { type Static, type TObject, type TString } from 'typebox';

/** Marks a leaf as secret: encrypted at rest, shown as `********`. */
export const sensitive = (options: { description: string; default?: string }): TString =>
  Type.String({ ...options, default: options.default ?? '', sensitive: true });

/** What a masked secret looks like. Four or more asterisks written back mean "unchanged". */
export const secretMask = '********';

export interface ConfigDefinition<T extends TObject = TObject> {
  readonly schema: T;
  /** Keys (dotted) that only a super admin may write. A prefix covers everything below it. */
  readonly superAdminOnly?: readonly string[];
  /** Rules across keys; answers problems with dotted paths. */
  check?(config: Static<T>): readonly { path: string; rule: string; message: string }[];
}

/**
 * Declares a module's configuration. Every leaf needs a `default` and a `description`.
 * The key `active` is added by the kernel for modules that can be switched off.
 */
export function defineConfig<T extends TObject>(definition: ConfigDefinition<T>): ConfigDefinition<T> {
  return Object.freeze(definition);
}

/** Live view of one module's configuration. */
export interface ConfigHandle<C = Record<string, unknown>> {
  /** The whole configuration with defaults filled in and secrets in clear. Frozen; read it anew for each use. */
  current(): C;
  version(): number;
  /**
   * Runs on every node when a new version is applied (`current()` is the new one already). A throw
   * keeps the old version, marks the module degraded, and tells earlier listeners with the two
   * swapped. Answers how to stop listening.
   */
  onChange(listener: (next: C, previous: C) => void | Promise<void>): () => void;
}
