/**
 * What an import would do. Everything that can be known to be wrong is found here, before the first write: the
 * shape of every document, each configuration as it would be, and what every type has to say about its documents
 * beside all others of the import. What is no document of this platform is refused; what stands in the way of one is
 * part of the plan.
 */
import type { Caller } from '../../../../kernel/caller.ts';
import type { ConfigDifference, ConfigService } from '../../../../kernel/config/service.ts';
import { fillDefaults, mergePatch, type SchemaNode, type Tree } from '../../../../kernel/config/tree.ts';
import { errors } from '../../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../../kernel/identity.ts';
import { checksumOf } from '../../../../kernel/state/canonical.ts';
import { placed } from '../../../../kernel/state/placed.ts';
import type { StateChange, StateEffects, StateRegistry, StateType } from '../../../../kernel/state/state.ts';
import { differencesOf } from './differences.ts';
import type { StateContent } from './document.ts';
import { requireTypes } from './known-types.ts';
import { planTypes } from './plan-types.ts';
import { collectRefusals, type Refusals } from './refusals.ts';
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
  readonly renames?: StateEffects['renames'];
  /** Counts as taken away. */
  readonly hides?: StateEffects['hides'];
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
  /** Why an import of it would be refused. */
  readonly refusals: Refusals;
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

/** Throws 400 with places for what is no document of this platform. */
export async function planImport(parts: PlanParts, caller: Caller, content: StateContent, options: PlanOptions): Promise<StatePlan> {
  const types = requireTypes(parts, content);
  const refusals = collectRefusals();
  const configs = await planConfigs(parts, caller, { content, options, refusals });
  const planned = await planTypes(caller, types, { options, refusals });
  const entries = [...configs.map(({ entry }) => entry), ...planned.flatMap(({ entries: of }) => of)];
  if (options.onConflict === 'fail') await refusals.of(async () => refuseConflicts(planned.map(({ step }) => step)));
  return {
    entries,
    checksum: checksumOf(entries.filter(({ action }) => action !== 'noop').map(agreedPart)),
    warnings: [...configs, ...planned].flatMap(({ warnings }) => warnings),
    refusals,
    configs: configs.flatMap(({ step, entry }) => (entry.action === 'noop' ? [] : [step])),
    steps: planned.map(({ step }) => step),
  };
}

/** What is agreed to: records come and go between the plan and its import. */
const agreedPart = ({ hides, ...entry }: PlanEntry): object => ({ ...entry, ...(hides && { hides: hides.map(({ field }) => field) }) });

interface PlannedConfig {
  readonly entry: PlanEntry;
  readonly step: ConfigStep;
  readonly warnings: readonly string[];
}

async function planConfigs(
  { config, environment }: PlanParts,
  caller: Caller,
  { content: { configs, secrets: given }, options: { strict }, refusals }: PlannedContent,
): Promise<readonly PlannedConfig[]> {
  const planned: PlannedConfig[] = [];
  for (const [module, wanted] of configs) {
    const place = `configs.modules.${module}`;
    const { config: current, version } = await config.read(caller, module);
    const node = config.definition(module)?.schema as SchemaNode;
    const { patch, problems } = resolveSecrets(
      wanted as Tree,
      { module, node, current, place },
      { given, environment, isTrusted: isSuperAdmin(caller) },
    );
    refusals.addFaults(problems);
    const preview = await refusals.of(() => placed(place, () => config.preview(caller, module, patch, { strict })));
    // What would be refused is shown all the same: as the difference between what is there and what is asked for.
    const diff = preview?.differences ?? differencesOf(current, wouldBe(node, current, config.maskPatch(module, patch)));
    planned.push({
      entry: { action: diff.length > 0 ? 'update' : 'noop', module, type: 'config', key: module, diff },
      step: { module, patch, strict, version: preview?.version ?? version },
      warnings: (preview?.warnings ?? []).map((key) => `${place}.${key} is not known here and is left out`),
    });
  }
  return planned;
}

const wouldBe = (node: SchemaNode, current: Tree, patch: unknown): unknown =>
  fillDefaults(
    node,
    mergePatch(node, current, patch, () => undefined),
  );

interface PlannedContent {
  readonly content: StateContent;
  readonly options: PlanOptions;
  readonly refusals: Refusals;
}

function refuseConflicts(steps: readonly TypeStep[]): void {
  const conflicts = steps.flatMap(({ changes }) => changes.filter(({ action }) => action === 'update'));
  if (conflicts.length === 0) return;
  throw errors.CONFLICT({
    message: `${conflicts.length} documents differ from what is there, such as ${conflicts[0]?.key}; nothing was changed`,
    errors: conflicts.map(({ key, place }) => ({ path: place, rule: 'conflict', message: `${key} is there with another content` })),
  });
}
