import { describe, expect, it } from 'vitest';
import { andThen, concluded, endedBy } from './maybe-promise.ts';

const fails = (): never => {
  throw new Error('failed');
};
const later = async <T>(value: T): Promise<T> => value;

describe('work that answers now or later', () => {
  it('goes on at once where the value is there', async () => {
    expect(andThen(1, (value) => value + 1)).toBe(2);
    await expect(andThen(later(1), (value) => value + 1)).resolves.toBe(2);
    await expect(andThen(1, (value) => later(value + 1))).resolves.toBe(2);
    expect(() => andThen(1, fails)).toThrow('failed');
    await expect(andThen(later(1), fails)).rejects.toThrow('failed');
  });

  it('runs the end once, however the work ends', async () => {
    let ends = 0;
    const end = (): void => void ends++;
    expect(endedBy(() => 1, end)).toBe(1);
    expect(() => endedBy(fails, end)).toThrow('failed');
    expect(ends).toBe(2);
    const running = endedBy(() => later(1), end);
    expect(ends).toBe(2);
    expect(await running).toBe(1);
    await expect(endedBy(async () => fails(), end)).rejects.toThrow('failed');
    expect(ends).toBe(4);
  });

  it('concludes with the value or the error', async () => {
    const text = (error: unknown): string => (error as Error).message;
    expect(concluded(() => 1, String, text)).toBe('1');
    expect(concluded(fails, String, text)).toBe('failed');
    expect(await concluded(() => later(1), String, text)).toBe('1');
    expect(await concluded(async () => fails(), String, text)).toBe('failed');
  });
});
