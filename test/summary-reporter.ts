import { appendFileSync, writeFileSync, writeSync } from 'node:fs';
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

/** How many tests ended how; errors outside of tests (a file that does not load, a stray rejection) count as failures. */
export interface Summary {
  passed: number;
  failed: number;
  skipped: number;
}

/** `12 passed, 0 failed`, and `, 3 skipped` when some were. Programs read this line. */
export function summaryLine({ passed, failed, skipped }: Summary): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/**
 * Prints the result of a run as its very last line, after whatever else is still written while the process ends.
 * With `FAILED_FILES=path` it also writes the paths of the files that failed, one a line, so that
 * CI can run them once more. Errors outside of tests belong to no file: then it writes nothing.
 * With `FINISHED_FILES=path` it appends each file that ended, a tab, and its numbers of passed, failed and skipped tests: what
 * is known where the process itself crashes.
 */
export class SummaryReporter implements Reporter {
  /** Until a run has ended it has failed. */
  #summary: Summary = { passed: 0, failed: 1, skipped: 0 };

  onInit(): void {
    process.on('exit', () => writeSync(1, `${summaryLine(this.#summary)}\n`));
  }

  onTestModuleEnd(module: TestModule): void {
    const list = process.env.FINISHED_FILES;
    if (!list) return;
    const { passed, failed, skipped } = countAll([module], 0);
    appendFileSync(list, `${pathOf(module)}\t${passed} ${failed} ${skipped}\n`);
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    this.#summary = countAll(modules, unhandledErrors.length);
    const list = process.env.FAILED_FILES;
    if (list && unhandledErrors.length === 0) writeFileSync(list, failedFiles(modules).join('\n'));
  }
}

const pathOf = ({ moduleId }: TestModule): string => relative(process.cwd(), moduleId);

const failedFiles = (modules: readonly TestModule[]): string[] =>
  modules.filter((module) => !module.ok()).map(pathOf);

function countAll(modules: readonly TestModule[], strayErrors: number): Summary {
  const summary: Summary = { passed: 0, failed: strayErrors, skipped: 0 };
  for (const module of modules) {
    const states = [...module.children.allTests()].map((test) => test.result().state);
    const failed = states.filter((state) => state === 'failed').length;
    summary.passed += states.filter((state) => state === 'passed').length;
    summary.skipped += states.filter((state) => state === 'skipped').length;
    summary.failed += failed === 0 && !module.ok() ? 1 : failed;
    // An interrupted run leaves tests without a result: they have not passed.
    summary.failed += states.filter((state) => state === 'pending').length;
  }
  return summary;
}

// Vitest loads custom reporters by their default export.
// biome-ignore lint/style/noDefaultExport: the interface of the test runner asks for it
export default SummaryReporter;
