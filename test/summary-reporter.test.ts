import { expect, it } from 'vitest';
import { summaryLine } from './summary-reporter.ts';

it('is a line that programs can read', () => {
  expect(summaryLine({ passed: 12, failed: 0, skipped: 0 })).toBe('12 passed, 0 failed');
  expect(summaryLine({ passed: 12, failed: 1, skipped: 3 })).toBe('12 passed, 1 failed, 3 skipped');
});
