import { defineConfig } from 'vitest/config';

/**
 * One worker pool of threads without isolation: modules are loaded once per worker, which makes the
 * suites several times faster. Tests therefore keep their state in what they create, never in modules.
 */
export default defineConfig({
  test: {
    include: ['{src,acceptance,test,scripts,bench,examples}/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts'],
    pool: 'threads',
    isolate: false,
    // Tests wait for servers more than they compute: one worker per core, where the default leaves one core out.
    maxWorkers: '100%',
    testTimeout: 20_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
    reporters: [['default', { summary: false }], './test/summary-reporter.ts'],
  },
});
