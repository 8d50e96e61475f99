/** What an import would do to configurations. */
import { hasAuthority } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { moduleOfConfig } from '../../../../kernel/config/config-definition.ts';
import type { ConfigDifference, ConfigService } from '../../../../kernel/config/config-service.ts';
import {
  fillDefaults,
  mergePatch,
  type SchemaNode,
  type Tree,
} from '../../../../kernel/config/tree.ts';
import { placed } from '../../../../kernel/state.ts';
import type { StateContent } from './document.ts';
import { differencesOf, type Refusals } from './refusals.ts';
import { resolveSecrets, type SecretSources } from './secrets.ts';

export interface ConfigPlanParts {
  readonly config: ConfigService;
  readonly environment: SecretSources['environment'];
}

export interface ConfigStep {
  readonly module: string;
  readonly patch: Tree;
  readonly strict: boolean;
  /** The version that was planned against. */
  readonly version: number;
}

interface PlannedContent {
  readonly content: StateContent;
  /** Refuse keys that a configuration does not know. */
  readonly strict: boolean;
  readonly refusals: Refusals;
}

export interface PlannedConfig {
  readonly module: string;
  /** Leaves that change, by dotted path; secrets are masked. */
  readonly diff: readonly ConfigDifference[];
  readonly step: ConfigStep;
  readonly warnings: readonly string[];
}

/** Throws what reading the current ones throws; `refusals` takes what is wrong with those that are asked for. */
export async function planConfigs(
  { config, environment }: ConfigPlanParts,
  caller: Caller,
  { content: { configs, secrets: given }, strict, refusals }: PlannedContent,
): Promise<readonly PlannedConfig[]> {
  const planned: PlannedConfig[] = [];
  for (const [module, requested] of configs) {
    const place = `configs.modules.${module}`;
    const { config: current, version } = await config.read(caller, module);
    const node = config.definition(module)?.schema as SchemaNode;
    const { patch, problems } = resolveSecrets(
      requested as Tree,
      { module, node, current, place },
      { given, environment, mayName: (reference) => mayName(config, caller, reference) },
    );
    refusals.addProblems(problems);
    const preview = await refusals.of(() =>
      placed(place, () => config.preview(caller, module, patch, { strict })),
    );
    // What would be refused is shown all the same: as the difference between what is there and what is asked for.
    const diff =
      preview?.differences ??
      differencesOf(current, wouldBe(node, current, config.maskPatch(module, patch)));
    planned.push({
      module,
      diff,
      step: { module, patch, strict, version: preview?.version ?? version },
      warnings: (preview?.warnings ?? []).map(
        (key) => `${place}.${key} is not known here and is left out`,
      ),
    });
  }
  return planned;
}

/** Super admins may name any secret; one whose token is narrowed to modules those of its modules, as elsewhere. */
function mayName(config: ConfigService, caller: Caller, reference: string): boolean {
  const [name = ''] = reference.split('.');
  const module = moduleOfConfig(name, config.definition(name) ?? {});
  return hasAuthority(caller, { kind: 'secrets', module });
}

const wouldBe = (node: SchemaNode, current: Tree, patch: unknown): unknown =>
  fillDefaults(
    node,
    mergePatch(node, current, patch, () => undefined),
  );
