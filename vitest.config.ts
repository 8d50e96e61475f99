import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';

/** Tests of a server that cannot be had everywhere: whoever has one names it. */
const ofNamedServers =
  process.env.PGVECTOR_URL === undefined ? ['acceptance/embeddings/pgvector.test.ts'] : [];

/**
 * One worker pool of threads without isolation: modules are loaded once per worker, which makes the
 * suites several times faster. Tests therefore keep their state in what they create, never in modules.
 */
export default defineConfig({
  test: {
    include: ['{src,acceptance,test,scripts,bench,examples}/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...ofNamedServers],
    globalSetup: ['test/global-setup.ts'],
    setupFiles: ['test/setup.ts'],
    pool: 'threads',
    isolate: false,
    // Tests wait for servers as much as they compute: three workers for two cores, where the default leaves a core out.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    sequence: { sequencer: LongestFirst },
    // Longer than `waitFor` waits: its error says what did not happen.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
    reporters: [['default', { summary: false }], './test/summary-reporter.ts'],
  },
});
