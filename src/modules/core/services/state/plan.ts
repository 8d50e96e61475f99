/**
 * What an import would do. Everything that can be known to be wrong is found here, before the first write: the
 * shape of every document, each configuration as it would be, and what every type has to say about its documents
 * beside all others of the import.
 */
import type { Caller } from '../../../../kernel/caller.ts';
import type { ConfigDifference, ConfigService } from '../../../../kernel/config/service.ts';
import type { SchemaNode, Tree } from '../../../../kernel/config/tree.ts';
import { errors, PenstockError, type Problem } from '../../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../../kernel/identity.ts';
import { invalidInput } from '../../../../kernel/operations/problems.ts';
import { checksumOf } from '../../../../kernel/state/canonical.ts';
import { placed } from '../../../../kernel/state/placed.ts';
import type { StateChange, StateRegistry, StateType } from '../../../../kernel/state/state.ts';
import type { StateContent } from './document.ts';
import { requireTypes } from './known-types.ts';
import { planTypes } from './plan-types.ts';
import { resolveSecrets, type SecretSources } from './secrets.ts';

/** What to do with a document whose key is there already with another content. */
export type OnConflict = 'overwrite' | 'skip' | 'fail';

export interface PlanOptions {
  readonly onConflict: OnConflict;
  /** Take away what the document does not have, of the types that it has. */
  readonly prune: boolean;
  /** Refuse keys that a configuration does not know. */
  readonly strict: boolean;
}

export interface PlanEntry {
  readonly action: 'create' | 'update' | 'delete' | 'noop';
  readonly module: string;
  /** `config` for the configuration of the module. */
  readonly type: string;
  readonly key: string;
  /** Leaves that change, by dotted path; secrets are masked. */
  readonly diff: readonly ConfigDifference[];
  /** It differs, and `onConflict=skip` leaves it. */
  readonly skipped?: boolean;
}

export interface ConfigStep {
  readonly module: string;
  readonly patch: Tree;
  readonly strict: boolean;
  /** The version that was planned against. */
  readonly version: number;
}

export interface TypeStep {
  readonly state: StateType;
  readonly changes: readonly StateChange[];
  readonly unchanged: number;
  readonly skipped: number;
}

export interface StatePlan {
  readonly entries: readonly PlanEntry[];
  /** Equal plans have equal ones: what was confirmed is what is done. */
  readonly checksum: string;
  readonly warnings: readonly string[];
  /** Configurations that change. */
  readonly configs: readonly ConfigStep[];
  /** Every type of the document, in the order in which they are written. */
  readonly steps: readonly TypeStep[];
}

export interface PlanParts {
  readonly config: ConfigService;
  readonly state: StateRegistry;
  readonly environment: SecretSources['environment'];
}

/** Throws 400 with places, and 403, 409, 412 of what stands in the way. */
export async function planImport(parts: PlanParts, caller: Caller, content: StateContent, options: PlanOptions): Promise<StatePlan> {
  const types = requireTypes(parts, content);
  const configs = await planConfigs(parts, caller, content, options);
  const planned = await planTypes(caller, types, options);
  const entries = [...configs.map(({ entry }) => entry), ...planned.flatMap(({ entries: of }) => of)];
  if (options.onConflict === 'fail') refuseConflicts(planned.map(({ step }) => step));
  return {
    entries,
    checksum: checksumOf(entries.filter(({ action }) => action !== 'noop')),
    warnings: configs.flatMap(({ warnings }) => warnings),
    configs: configs.flatMap(({ step, entry }) => (entry.action === 'noop' ? [] : [step])),
    steps: planned.map(({ step }) => step),
  };
}

interface PlannedConfig {
  readonly entry: PlanEntry;
  readonly step: ConfigStep;
  readonly warnings: readonly string[];
}

async function planConfigs(
  { config, environment }: PlanParts,
  caller: Caller,
  { configs, secrets: given }: StateContent,
  { strict }: PlanOptions,
): Promise<readonly PlannedConfig[]> {
  const planned: PlannedConfig[] = [];
  const faults = collectFaults();
  for (const [module, wanted] of configs) {
    const place = `configs.modules.${module}`;
    const { config: current } = await config.read(caller, module);
    const node = config.definition(module)?.schema as SchemaNode;
    const { patch, problems } = resolveSecrets(
      wanted as Tree,
      { module, node, current, place },
      { given, environment, isTrusted: isSuperAdmin(caller) },
    );
    faults.add(problems);
    // What is not known is refused below; until then the document is looked at as if it were there.
    const preview = await faults.of(() => placed(place, () => config.preview(caller, module, patch, { strict })));
    if (!preview) continue;
    const action = preview.differences.length > 0 ? 'update' : 'noop';
    planned.push({
      entry: { action, module, type: 'config', key: module, diff: preview.differences },
      step: { module, patch, strict, version: preview.version },
      warnings: preview.warnings.map((key) => `${place}.${key} is not known here and is left out`),
    });
  }
  faults.refuse();
  return planned;
}

/** All that is wrong with the configurations of a document, so that nobody has to mend them one by one. */
function collectFaults() {
  const found: Problem[] = [];
  return {
    add: (problems: readonly Problem[]): void => void found.push(...problems),
    /** Nothing where the work says that the input is not valid; whatever else it throws stands in the way at once. */
    async of<T>(work: () => Promise<T>): Promise<T | undefined> {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof PenstockError) || error.status !== 400 || !error.errors) throw error;
        found.push(...error.errors);
        return undefined;
      }
    },
    refuse(): void {
      const seen = new Set<string>();
      const distinct = found.filter(({ path }) => !seen.has(path) && seen.add(path));
      if (distinct.length > 0) throw invalidInput(distinct);
    },
  };
}

function refuseConflicts(steps: readonly TypeStep[]): void {
  const conflicts = steps.flatMap(({ changes }) => changes.filter(({ action }) => action === 'update'));
  if (conflicts.length === 0) return;
  throw errors.CONFLICT({
    message: `${conflicts.length} documents differ from what is there, such as ${conflicts[0]?.key}; nothing was changed`,
    errors: conflicts.map(({ key, place }) => ({ path: place, rule: 'conflict', message: `${key} is there with another content` })),
  });
}
