/** Which runs begin, and in which order, where many wait. */
import { describe, expect, it } from 'vitest';
import { KnownFunctions } from './known-functions.ts';
import { inOrder } from './line.ts';
import { type Active, isOffence, lost, mayRunAgain, newActive, type PoolRun } from './pool-runs.ts';
import { roomFor } from './room.ts';
import type { ProcessUse, SandboxProcess } from './sandbox-process.ts';

const active = (key: string, deadlineAt = Number.POSITIVE_INFINITY): Active =>
  newActive({
    ...{ id: 0, resolve: () => undefined, cancel: () => undefined },
    run: { key, deadlineAt } as unknown as PoolRun,
  });

const running = (key: string, use: ProcessUse, openCalls = 0): Active => ({
  ...active(key),
  process: { use } as unknown as SandboxProcess,
  openCalls,
});

const many = (count: number, make: (at: number) => Active): readonly Active[] =>
  Array.from({ length: count }, (_, at) => make(at));

/** How many of so many begin now. */
function beginning(known: KnownFunctions, runs: readonly Active[], keys: readonly string[]) {
  const hasRoom = roomFor({ known, runs: () => runs, processes: 1 });
  return keys.filter(hasRoom);
}

const keys = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `k${at}`);

describe('room for runs', () => {
  it('is there for all whose function is known to behave', () => {
    const known = new KnownFunctions();
    known.proved('good', 1);
    const all = many(50, () => running('good', 'usual'));
    expect(beginning(known, all, Array<string>(50).fill('good'))).toHaveLength(50);
    expect(beginning(known, all, keys(9))).toHaveLength(6);
  });

  it('is not taken by who waits for a call', () => {
    const known = new KnownFunctions();
    const waiting = many(20, (at) => running(`w${at}`, 'usual', 1));
    expect(beginning(known, waiting, keys(9))).toHaveLength(6);
    expect(beginning(known, [...waiting, running('x', 'usual')], keys(9))).toHaveLength(5);
  });

  it('is there for two of one function until a run of it has ended by itself, wherever they run', () => {
    const known = new KnownFunctions();
    expect(beginning(known, [], ['a', 'a', 'a', 'b'])).toEqual(['a', 'a', 'b']);
    known.costs('a');
    expect(beginning(known, [running('a', 'usual')], ['a', 'a'])).toEqual(['a']);
    known.proved('a', 1_000);
    expect(beginning(known, [], Array<string>(9).fill('a'))).toHaveLength(8);
  });

  it('is counted apart for those that cost much and those that had to be ended', () => {
    const known = new KnownFunctions();
    const hostile = many(8, (at) => running(`h${at}`, 'offenders'));
    for (const { run } of hostile) known.costs(run.key, 1);
    known.costs('h8', 1);
    known.costs('costly');
    expect(beginning(known, hostile, ['h8', 'costly', 'new'])).toEqual(['costly', 'new']);
  });

  it('is given in the order of offences, then of arrival, and not to whom no time is left', () => {
    const line = [
      active('often'),
      active('once'),
      active('late', performance.now()),
      active('new'),
    ];
    const offences: Readonly<Record<string, number>> = { often: 5, once: 1 };
    const order = inOrder([...line, active('once')], (key) => offences[key] ?? 0);
    expect(order.map(({ run }) => run.key)).toEqual(['new', 'once', 'once', 'often']);
  });
});

describe('a process of functions that cost much, when it dies', () => {
  it('has done nothing to those that behave, and were there before it was left to the others', () => {
    const one = active('any');
    for (const slow of [true, false])
      for (const behaves of [true, false]) {
        const isTheirs = slow && !behaves;
        expect(isOffence(lost, one, { slow }, behaves)).toBe(isTheirs);
        expect(mayRunAgain(one, { slow }, behaves)).toBe(!isTheirs);
      }
    expect(mayRunAgain({ ...one, calls: 1 }, { slow: false }, true)).toBe(false);
    expect(isOffence({ ...lost, outcome: 'cpu' }, one, { slow: false }, true)).toBe(true);
  });
});
