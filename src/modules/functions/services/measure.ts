/** Figures of functions for monitoring, under their names and those of before (specification section 6). */
import type { Kernel } from '../../../host/kernel.ts';
import type { FunctionKind } from '../definition/definition.ts';

export interface FunctionMetrics {
  /** A run begins; answers how to say that it ended. */
  begin(
    name: string,
  ): (kind: FunctionKind, outcome: string, durationMs: number, memoryBytes: number) => void;
  /** Seconds that something waited before its function ran. */
  lag(name: string, seconds: number): void;
}

/** Milliseconds. */
const olderBuckets = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000];

/** Made once for each process. */
export function measureFunctions({ metrics }: Pick<Kernel, 'metrics'>): FunctionMetrics {
  const active = new Map<string, number>();
  const memory = new Map<string, number>();
  const executions = metrics.counter('function_executions_total', 'Runs of functions', [
    'name',
    'kind',
    'outcome',
  ]);
  const duration = metrics.histogram('function_duration_seconds', 'How long functions ran', [
    'name',
  ]);
  const lag = metrics.histogram(
    'function_queue_lag_seconds',
    'How long events and schedules waited for their function',
    ['name'],
  );
  const executed = metrics.counter('executed_functions_total', 'Runs of functions');
  const failed = metrics.counter('failed_functions_total', 'Runs of functions that failed');
  const older = metrics.histogram(
    'function_execution_time',
    'How long functions ran, in milliseconds',
    ['function_name'],
    olderBuckets,
  );
  const reading = (figures: ReadonlyMap<string, number>) => () =>
    [...figures].map(([name, value]) => ({ labels: { name }, value }));
  metrics.gauge('function_active', 'Functions that run now', reading(active), ['name']);
  metrics.gauge('function_memory_bytes', 'Heap of the last run', reading(memory), ['name']);
  return {
    begin(name) {
      active.set(name, (active.get(name) ?? 0) + 1);
      return (kind, outcome, durationMs, memoryBytes) => {
        active.set(name, (active.get(name) ?? 1) - 1);
        if (memoryBytes > 0) memory.set(name, memoryBytes);
        executions.inc({ name, kind, outcome });
        duration.observe({ name }, durationMs / 1_000);
        executed.inc();
        older.observe({ function_name: name }, durationMs);
        if (outcome !== 'ok' && outcome !== 'suspended' && outcome !== 'rejected') failed.inc();
      };
    },
    lag: (name, seconds) => lag.observe({ name }, seconds),
  };
}
