/** Telemetry for tests that do not look at it. */
import type { Logger } from '../../src/kernel/telemetry/logger.ts';
import type { Metrics } from '../../src/kernel/telemetry/metrics.ts';

/** Says nothing. */
export const silentLog: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};

/** Measures nothing. */
export const noMetrics: Metrics = {
  counter: () => ({ inc: () => undefined }),
  histogram: () => ({ observe: () => undefined, bind: () => () => undefined }),
  gauge: () => undefined,
  total: () => undefined,
  expose: async () => '',
};
