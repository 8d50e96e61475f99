/** Figures about embeddings. They belong to the process, also while the module is switched off and on. */
import type { Kernel } from '../../host/kernel.ts';
import type { GaugeReading, Histogram } from '../../kernel/telemetry/metrics.ts';
import { remembered } from '../../kernel/telemetry/metrics.ts';
import { type QueueFigures, queueFigures } from './queries/pending.ts';

/** What operators are told about the search through a generation, on the node that they ask. */
export interface IndexFacts {
  /** `memory`: every vector is looked at. */
  readonly kind: 'memory' | 'usearch' | 'pgvector';
  /** `idle`: nobody has searched for a while, so nothing of it is held. */
  readonly state: 'idle' | 'loading' | 'building' | 'ready';
  readonly passages: number;
  readonly indexed: number;
  readonly megabytes: number;
  /** Of the ten nearest passages, how many are found: 0 to 1, measured with passages of its own. */
  readonly recall?: number;
  readonly reason?: string;
}

interface Counter {
  inc(labels?: Record<string, string>, by?: number): void;
}

export interface EmbeddingMeasures {
  readonly generated: Counter;
  readonly skipped: Counter;
  readonly failed: Counter;
  readonly retried: Counter;
  readonly tokens: Counter;
  /** Backfills that have ended, by how. */
  readonly backfills: Counter;
  /** Files whose texts were read, could not be read, or are of no kind that is read. */
  readonly files: Counter;
  readonly provider: Histogram;
  readonly searches: Histogram;
  /** What this node holds in memory; the running module says it. */
  readonly indexes: { read: () => readonly IndexFacts[] };
}

const measured = new WeakMap<Kernel['metrics'], EmbeddingMeasures>();
const REMEMBERED_MS = 10_000;

export function measuresOf({
  metrics,
  database,
}: Pick<Kernel, 'metrics' | 'database'>): EmbeddingMeasures {
  const known = measured.get(metrics);
  if (known) return known;
  const made: EmbeddingMeasures = {
    generated: metrics.counter('generated_embeddings_total', 'Records that got vectors'),
    skipped: metrics.counter(
      'skipped_embeddings_total',
      'Records whose text was the same, or empty',
    ),
    failed: metrics.counter('failed_embeddings_total', 'Records that were given up'),
    retried: metrics.counter('retried_embeddings_total', 'Attempts that will be made again'),
    tokens: metrics.counter('embedding_tokens_total', 'Tokens that providers counted', [
      'provider',
    ]),
    backfills: metrics.counter('embedding_backfill_jobs_total', 'Backfills that have ended', [
      'result',
    ]),
    files: metrics.counter('embedding_files_total', 'Files that records hold, as they were read', [
      'result',
    ]),
    provider: metrics.histogram(
      'embedding_provider_duration_seconds',
      'Time in which texts became vectors',
      ['provider'],
    ),
    searches: metrics.histogram('embedding_search_duration_seconds', 'Time of a search', ['mode']),
    indexes: { read: () => [] },
  };
  gaugeIndexes(metrics, made);
  gaugeQueue(metrics, database);
  measured.set(metrics, made);
  return made;
}

function gaugeQueue(metrics: Kernel['metrics'], database: Kernel['database']): void {
  const figures = remembered<readonly QueueFigures[]>(REMEMBERED_MS, [], () =>
    queueFigures(database),
  );
  const reading =
    (of: (all: readonly QueueFigures[]) => number) => async (): Promise<GaugeReading> =>
      of(await figures());
  metrics.gauge(
    'embeddings_waiting',
    'Records whose texts are to be looked at',
    reading((all) => all.reduce((sum, one) => sum + one.waiting + one.active + one.delayed, 0)),
  );
  metrics.gauge(
    'embeddings_lag_seconds',
    'Age of the oldest change whose text was not looked at',
    reading((all) => Math.max(0, ...all.map(({ lagSeconds }) => lagSeconds))),
  );
}

function gaugeIndexes(metrics: Kernel['metrics'], { indexes }: EmbeddingMeasures): void {
  const sum = (of: 'passages' | 'indexed' | 'megabytes') => (): GaugeReading =>
    indexes.read().reduce((total, one) => total + one[of], 0);
  metrics.gauge(
    'embeddings_loaded_passages',
    'Passages in the memory of this node',
    sum('passages'),
  );
  metrics.gauge('embeddings_indexed_passages', 'Of these, in an index', sum('indexed'));
  metrics.gauge('embeddings_index_megabytes', 'Memory of these', sum('megabytes'));
  metrics.gauge(
    'embeddings_index_recall',
    'Of the ten nearest, how many the worst index finds; 1 without an index',
    () => Math.min(1, ...indexes.read().map(({ recall = 1 }) => recall)),
  );
}
