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
  /** The module that the document belongs to, where that is not its name. */
  readonly module?: string;
  /**
   * Former modules whose documents this one took over: what such a document says, as a patch of this one. Throws 400 for
   * what makes no sense.
   */
  readonly formerly?: ReadonlyMap<
    string,
    (document: Record<string, unknown>) => Record<string, unknown>
  >;
  /** Rules across keys; answers problems with dotted paths. */
  check?(config: Static<T>): readonly { path: string; rule: string; message: string }[];
}

/** The module that a configuration document belongs to. */
export const moduleOfConfig = (
  name: string,
  { module = name }: Pick<ConfigDefinition, 'module'>,
): string => module;

/**
 * The class of a key, in the options of its schema: any admin may change it. Everything that is not marked is guarded,
 * for super admins only: keys that decide who may sign in or act, where data and messages go, or what is public. A mark
 * on an object covers what is below it.
 */
export const harmless = { harmless: true } as const;

/**
 * Declares a module's configuration. Every leaf needs a `default` and a `description`.
 * The key `active` is added by the kernel for modules that can be switched off.
 */
export function defineConfig<T extends TObject>(
  definition: ConfigDefinition<T>,
): ConfigDefinition<T> {
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
  /**
   * Asked on the node that changes the document, before it is stored: a throw refuses the change, and texts are told as
   * its `warnings`. Answers how to end that.
   */
  guard(guard: ConfigGuard<C>): () => void;
}

/** `force`: whoever changes it has said that what is in the way does not count. */
export type ConfigGuard<C> = (
  next: C,
  previous: C,
  how: { readonly force: boolean },
) => Promise<readonly string[] | undefined>;
