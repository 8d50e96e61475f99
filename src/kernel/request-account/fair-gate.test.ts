import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairGate, type GateLimits } from './fair-gate.ts';

const plenty = { ofKey: 1_000, ofAll: 1_000 };
const limits: GateLimits = {
  width: 4,
  perKey: 2,
  maxWaitMs: 2_147_483_647,
  maxWaiting: plenty,
  maxBytes: plenty,
};
const gateOf = (changes: Partial<GateLimits> = {}) => {
  const all = { ...limits, ...changes };
  return new FairGate(
    () => all,
    (why) => new Error(why),
  );
};

describe('fair gate', () => {
  it('lets in at once while there is room, each key up to its own bound', () => {
    const gate = gateOf();
    expect([gate.enter('a'), gate.enter('a')]).toEqual([undefined, undefined]);
    expect(gate.enter('a')).toBeInstanceOf(Promise);
    expect([gate.enter('b'), gate.enter('b')]).toEqual([undefined, undefined]);
    expect(gate.counts()).toEqual({ running: 4, waiting: 1 });
  });

  it('lets those who wait in key by key: one who asks for a hundred does not delay another who asks for one', async () => {
    const gate = gateOf({ width: 1, perKey: 1 });
    void gate.enter('greedy');
    const order: string[] = [];
    const ask = (key: string) => Promise.resolve(gate.enter(key)).then(() => void order.push(key));
    const all = [...Array.from({ length: 100 }, () => ask('greedy')), ask('modest')];
    gate.leave('greedy');
    for (let i = 0; i < all.length; i++) {
      await Promise.resolve().then(() => undefined);
      gate.leave(order.at(-1) ?? 'greedy');
    }
    expect(order.indexOf('modest')).toBeLessThanOrEqual(2);
  });

  it('refuses by whose problem it is: too many of this key, or too many of all', async () => {
    const gate = gateOf({ maxWaiting: { ofKey: 1, ofAll: 2 }, width: 2, perKey: 1 });
    for (const key of ['a', 'b']) gate.enter(key);
    for (const key of ['a', 'b']) void gate.enter(key);
    expect(() => gate.enter('a')).toThrow('own');
    expect(() => gate.enter('c')).toThrow('all');
  });

  it('bounds what those who wait hold', () => {
    const gate = gateOf({ width: 1, maxBytes: { ofKey: 10, ofAll: 15 } });
    gate.enter('a', 1_000);
    void gate.enter('a', 10);
    expect(() => gate.enter('a', 1)).toThrow('own');
    expect(() => gate.enter('b', 6)).toThrow('all');
    expect(gate.enter('b', 5)).toBeInstanceOf(Promise);
  });

  it('refuses whoever has waited too long, and gives the place to nobody twice', async () => {
    const gate = gateOf({ width: 1, perKey: 1, maxWaitMs: 5 });
    gate.enter('a');
    await expect(gate.enter('a')).rejects.toThrow('own');
    await expect(gate.enter('b')).rejects.toThrow('all');
    gate.leave('a');
    expect(gate.counts()).toEqual({ running: 0, waiting: 0 });
    expect(gate.enter('b')).toBeUndefined();
  });

  it('never holds more than its width, and lets everybody in in the end', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 }),
        async (keys) => {
          const gate = gateOf({ width: 3, perKey: 2 });
          const running: Record<string, number> = { a: 0, b: 0, c: 0 };
          const work = async (key: string): Promise<void> => {
            await gate.enter(key);
            running[key] = (running[key] ?? 0) + 1;
            expect(running[key]).toBeLessThanOrEqual(2);
            expect(gate.counts().running).toBeLessThanOrEqual(3);
            await Promise.resolve();
            running[key] = (running[key] ?? 0) - 1;
            gate.leave(key);
          };
          await Promise.all(keys.map(work));
          expect(gate.counts()).toEqual({ running: 0, waiting: 0 });
        },
      ),
    );
  });
});
