import { describe, expect, it } from 'vitest';
import { boundsOf, FairTurns } from './fair-turns.ts';

const always = {
  since: 0,
  deadlineAt: Number.POSITIVE_INFINITY,
  patientUntil: Number.POSITIVE_INFINITY,
};

/** Asks for a turn and notes when it came. */
function asking(turns: FairTurns) {
  const came: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (group: string, name = group): void => {
    void turns.take(group, always).then((end) => {
      came.push(name);
      ends.push(end);
    });
  };
  return { came, ends, ask, turned: () => new Promise((resolve) => setImmediate(resolve)) };
}

describe('turns', () => {
  it('are not all given to one group, and the last ones only to groups that have none', async () => {
    const turns = new FairTurns({ size: 5, perGroup: 3, reserve: 1 });
    const { came, ask, turned } = asking(turns);
    for (let i = 0; i < 10; i += 1) ask('a');
    for (let i = 0; i < 10; i += 1) ask('b');
    ask('c');
    await turned();
    expect(came.toSorted()).toEqual(['a', 'a', 'a', 'b', 'c']);
    expect(turns.figures()).toMatchObject({ running: 5, waiting: 16 });
  });

  it('go round between groups, in order within each', async () => {
    const turns = new FairTurns({ size: 1, perGroup: 1, reserve: 0 });
    const { came, ends, ask, turned } = asking(turns);
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) ask(name.slice(0, 1), name);
    for (let i = 0; i < 6; i += 1) {
      await turned();
      ends[i]?.();
    }
    await turned();
    expect(came).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
    expect(turns.figures()).toMatchObject({ running: 0, waiting: 0, waits: 5 });
  });

  it('that do not come in time are refused, and the next in line is not', async () => {
    const turns = new FairTurns(boundsOf(1));
    const end = await turns.take('a', always);
    const now = performance.now();
    const late = turns.take('a', { since: now, deadlineAt: now + 1_000, patientUntil: now + 20 });
    const over = turns.take('a', { since: now, deadlineAt: now + 20, patientUntil: now + 1_000 });
    const patient = turns.take('a', always);
    await expect(late).rejects.toMatchObject({ code: 'UNAVAILABLE', retryAfter: 1 });
    await expect(over).rejects.toMatchObject({ code: 'TIMEOUT' });
    end();
    (await patient)();
    expect(turns.figures()).toMatchObject({ running: 0, waiting: 0, refused: 2 });
  });
});
