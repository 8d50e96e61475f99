/** Packages that functions ask for, out of those that the operator installed, as one text each. */
import { invalid } from '../../../kernel/errors.ts';
import type { SourceForm } from '../engine/protocol.ts';

export interface Bundler {
  /** Texts by name. Throws 400 for a package that is not allowed or not there. */
  bundle(names: readonly string[], form: SourceForm): Promise<Readonly<Record<string, string>>>;
}

/** What every sandbox brings along. */
export const builtInPackages: ReadonlySet<string> = new Set(['axios']);

export const noPackages: Bundler = {
  async bundle(names) {
    const [missing] = names.filter((name) => !builtInPackages.has(name));
    if (missing === undefined) return {};
    throw invalid('functionCode', 'package', `the package ${missing} is not installed`);
  },
};
