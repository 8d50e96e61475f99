/** How far embeddings are: what operators look at. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { IndexFacts } from '../measure.ts';
import { builtInProvider, noProvider, openaiProvider } from '../model.ts';
import { allConfigs, type ConfigRow, type GenerationRow } from '../queries/configs.ts';
import { type QueueFigures, queueFigures } from '../queries/pending.ts';
import { type RunState, recentUsage, runCounts, type UsageRow } from '../queries/runs.ts';
import { type Coverage, coverage } from '../queries/vectors.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { requireEligible } from './recipe.ts';
import type { IndexParts } from './search-request.ts';

export interface Capabilities {
  readonly supported: boolean;
  readonly storage: boolean;
  readonly indexing: boolean;
  readonly search: boolean;
  readonly provider: string;
  readonly reason?: string;
}

interface Queue {
  readonly waiting: number;
  readonly active: number;
  readonly completed: number;
  readonly failed: number;
  readonly delayed: number;
  readonly paused: number;
}

interface GenerationStatus {
  readonly id: string;
  readonly model: string;
  /** Records that were looked at, and passages with vectors. */
  readonly records: number;
  readonly passages: number;
  readonly waiting: number;
  readonly failed: number;
  readonly lagSeconds: number;
  /** How this node searches it. */
  readonly index: IndexFacts;
}

interface ConfigStatus {
  readonly configId: string;
  readonly schemaName: string;
  readonly targetField: string;
  readonly enabled: boolean;
  readonly current: GenerationStatus;
  readonly next: GenerationStatus | null;
}

export interface Status {
  readonly enabled: boolean;
  readonly ready: boolean;
  readonly capabilities: Capabilities;
  readonly generationQueue: Queue;
  readonly backfillQueue: Queue;
  readonly configs: ConfigStatus[];
  readonly usage: UsageRow[];
  readonly warnings: string[];
}

export const capabilities: Capabilities = {
  supported: true,
  storage: true,
  indexing: true,
  search: true,
  provider: 'automatic',
  reason:
    'Few vectors are all looked at, in memory; many get an index, in the database where it has pgvector, in memory elsewhere',
};

/** What could be searched in a schema. */
export function capabilitiesOf(schema: CompiledSchema): Capabilities {
  try {
    requireEligible(schema);
    return capabilities;
  } catch {
    const reason = 'This schema belongs to the platform, or is closed to others';
    return { ...capabilities, supported: false, search: false, reason };
  }
}

const USAGE_DAYS = 30;

export async function statusOf(parts: IndexParts, schemaName?: string): Promise<Status> {
  const { database, config } = parts;
  const configs = (await allConfigs(database)).filter(
    (one) => schemaName === undefined || one.schemaName === schemaName,
  );
  const generations = configs.flatMap(({ current, next }) => (next ? [current, next] : [current]));
  const ids = generations.map(({ id }) => id);
  const figures = await queueFigures(database);
  const covered = await coverage(database, ids);
  const own = figures.filter((one) => generations.some(({ id }) => id === one.generationId));
  return {
    enabled: config().enabled,
    ready: config().enabled && configs.some(({ enabled }) => enabled),
    capabilities,
    generationQueue: queueOf(own, covered),
    backfillQueue: await runsOf(parts, schemaName),
    configs: await Promise.all(configs.map((one) => configStatus(parts, one, own, covered))),
    usage: [...(await recentUsage(database, USAGE_DAYS))],
    warnings: warningsOf(parts, configs, own),
  };
}

function queueOf(figures: readonly QueueFigures[], covered: readonly Coverage[]): Queue {
  const sum = (of: 'waiting' | 'active' | 'failed' | 'delayed') =>
    figures.reduce((total, one) => total + one[of], 0);
  return {
    waiting: sum('waiting'),
    active: sum('active'),
    completed: covered.reduce((total, { records }) => total + records, 0),
    failed: sum('failed'),
    delayed: sum('delayed'),
    paused: 0,
  };
}

async function runsOf({ database }: EmbeddingParts, schemaName?: string): Promise<Queue> {
  const counts = await runCounts(database, schemaName);
  const count = (state: RunState) => counts.get(state) ?? 0;
  return {
    waiting: count('queued'),
    active: count('running'),
    completed: count('completed'),
    failed: count('failed'),
    delayed: 0,
    paused: count('canceled'),
  };
}

async function configStatus(
  { index }: Pick<IndexParts, 'index'>,
  { id, schemaName, targetField, enabled, current, next }: ConfigRow,
  figures: readonly QueueFigures[],
  covered: readonly Coverage[],
): Promise<ConfigStatus> {
  const of = async (generation: GenerationRow): Promise<GenerationStatus> => {
    const queue = figures.find(({ generationId }) => generationId === generation.id);
    const there = covered.find(({ generationId }) => generationId === generation.id);
    return {
      id: generation.id,
      model: generation.model,
      records: there?.records ?? 0,
      passages: there?.passages ?? 0,
      waiting: (queue?.waiting ?? 0) + (queue?.active ?? 0) + (queue?.delayed ?? 0),
      failed: queue?.failed ?? 0,
      lagSeconds: Math.max(0, queue?.lagSeconds ?? 0),
      index: await index.facts(generation),
    };
  };
  return {
    configId: id,
    schemaName,
    targetField,
    enabled,
    current: await of(current),
    next: next && (await of(next)),
  };
}

function warningsOf(
  parts: EmbeddingParts,
  configs: readonly ConfigRow[],
  figures: readonly QueueFigures[],
): string[] {
  const off = parts.config().enabled ? [] : ['Embeddings are switched off'];
  return [
    ...off,
    ...configs.flatMap(({ schemaName, targetField, current, next }) => {
      const used = next ?? current;
      const failed = figures.find(({ generationId }) => generationId === used.id)?.failed ?? 0;
      const own = [
        ...(parts.schemas.get(schemaName) ? [] : ['the schema is gone']),
        ...(failed > 0 ? [`${failed} records were given up`] : []),
        ...providerWarnings(parts, used),
      ];
      return own.map((warning) => `${schemaName}.${targetField}: ${warning}`);
    }),
  ];
}

function* providerWarnings(
  { config, models }: EmbeddingParts,
  used: GenerationRow,
): Generator<string> {
  const { endpoint } = config().providers[openaiProvider];
  if (used.provider === openaiProvider && endpoint === '') yield 'the provider has no endpoint';
  if ((models.of(used)?.pausedUntil() ?? 0) > performance.now())
    yield 'the provider has failed and gets time to recover';
  if (used.provider === noProvider) yield 'it is searched by words alone';
  if (
    used.provider === builtInProvider &&
    used.language !== 'simple' &&
    used.language !== 'english'
  )
    yield 'the built-in model knows English only';
}
