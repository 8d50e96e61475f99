import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createProgressLine, sizeText } from './progress-line.ts';

describe('progress', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const output = (isTTY: boolean) => {
    const written: string[] = [];
    return {
      written,
      out: {
        isTTY,
        columns: 20,
        write: (text: string | Uint8Array) => written.push(String(text)) > 0,
      },
    };
  };

  test('is one line of a terminal that is written over, and gone at the end', () => {
    const { written, out } = output(true);
    const line = createProgressLine(out);
    line.show({ what: 'app.A table with a long name', done: 1, total: 4 });
    line.show({ what: 'too soon', done: 2, total: 4 });
    vi.advanceTimersByTime(200);
    line.show({ what: 'app.B', done: 5, total: 4 });
    line.end();
    expect(written).toEqual([' 25 %  app.A table ', '\r\x1b[K', '100 %  app.B', '\r\x1b[K']);
  });

  test('is a new line now and then where it goes to a log, and none for short works', () => {
    const { written, out } = output(false);
    const line = createProgressLine(out);
    line.show({ what: 'app.A', done: 1, total: 4 });
    vi.advanceTimersByTime(11_000);
    line.show({ what: 'app.B', done: 1_500_000, total: 0 });
    line.show({ what: 'app.C', done: 3, total: 4 });
    line.end();
    expect(written).toEqual(['1.5 MB  app.B\n']);
  });

  test('writes sizes for people', () => {
    expect([0, 999, 1_000, 12_345_678, 5e15].map(sizeText)).toEqual([
      '0 bytes',
      '999 bytes',
      '1.0 KB',
      '12.3 MB',
      '5000.0 TB',
    ]);
  });
});
