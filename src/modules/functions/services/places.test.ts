import { afterEach, describe, expect, it, vi } from 'vitest';
import type { FunctionsConfig } from '../config.ts';
import { createPlaces } from './places.ts';

const config = () =>
  ({ limits: { maxConcurrency: 4, maxConcurrencyPerFunction: 2 } }) as unknown as FunctionsConfig;

/** Runs that go on until they are ended, in the order in which they began. */
function createRuns() {
  const places = createPlaces(config);
  const running: (() => void)[] = [];
  const run = (id: string, timeMs = 60_000): Promise<number> =>
    places.inPlace(id, timeMs, (leftMs) => new Promise((done) => running.push(() => done(leftMs))));
  const endAll = async (): Promise<void> => {
    while (running.length > 0) {
      running.shift()?.();
      await new Promise(setImmediate);
    }
  };
  return { places, running, run, endAll };
}

const busy = { status: 503, code: 'FUNCTION_BUSY' };
afterEach(() => vi.useRealTimers());

describe('places of runs', () => {
  it('let a crowd wait that comes at the same moment, as many as run', async () => {
    const { places, running, run, endAll } = createRuns();
    const crowd = Array.from({ length: 4 }, () => run('a'));
    expect([running.length, places.active('a')]).toEqual([2, 2]);
    await expect(run('a')).rejects.toMatchObject(busy);
    await endAll();
    expect(await Promise.all(crowd)).toHaveLength(4);
    expect(places.active('a')).toBe(0);
  });

  it('are there for other functions while one has its own', async () => {
    const { running, run, endAll } = createRuns();
    const all = [run('a'), run('a'), run('a'), run('b')];
    expect(running).toHaveLength(3);
    await endAll();
    expect(await Promise.all(all)).toHaveLength(4);
  });

  it('are waited for no longer than a second, and in the time of the run', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { running, run } = createRuns();
    const long = [run('a'), run('a')];
    const late = expect(run('a')).rejects.toMatchObject(busy);
    await vi.advanceTimersByTimeAsync(1_001);
    await late;
    const [waits, hurries] = [run('a', 5_000), run('a', 300)];
    const tooLate = expect(hurries).rejects.toMatchObject(busy);
    await vi.advanceTimersByTimeAsync(400);
    for (const end of running.splice(0)) end();
    await Promise.all(long);
    await tooLate;
    await vi.advanceTimersByTimeAsync(0);
    for (const end of running.splice(0)) end();
    expect(await waits).toBe(4_600);
  });

  it('come back from runs that fail', async () => {
    const { places, run, endAll } = createRuns();
    const fails = () => places.inPlace('a', 1, () => Promise.reject(new Error('no')));
    for (let n = 0; n < 5; n += 1) await expect(fails()).rejects.toThrow('no');
    const all = [run('a'), run('a')];
    expect(places.active('a')).toBe(2);
    await endAll();
    await Promise.all(all);
  });
});
