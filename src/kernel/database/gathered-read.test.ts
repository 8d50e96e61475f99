/** Reads of one turn of the event loop that one statement answers. */
import { beforeEach, describe, expect, it } from 'vitest';
import { errors } from '../errors.ts';
import {
  type AccountLimits,
  onAccount,
  RequestAccount,
} from '../request-account/request-account.ts';
import { createGatheredRead } from './gathered-read.ts';

const limits: AccountLimits = {
  milliseconds: 10_000,
  bytesIn: 1_000,
  bytesOut: 1_000,
  statements: 2,
  lockedRows: 1,
  outboundCalls: 1,
};

let sent: (readonly string[])[] = [];
let failure: (questions: readonly string[]) => Error | undefined;
beforeEach(() => {
  sent = [];
  failure = () => undefined;
});

const ask = createGatheredRead<string, string>({
  max: 3,
  isLike: (first, other) => first[0] === other[0],
  async read(questions) {
    sent.push(questions);
    await Promise.resolve();
    const error = failure(questions);
    if (error) throw error;
    return questions.map((question) => question.toUpperCase());
  },
});

describe('gathered reads', () => {
  it('are one statement for a turn, with the answers in their places', async () => {
    expect(await Promise.all(['a1', 'a2'].map(ask))).toEqual(['A1', 'A2']);
    expect(await ask('a3')).toBe('A3');
    expect(sent).toEqual([['a1', 'a2'], ['a3']]);
  });

  it('are sent when they are full, and apart from others', async () => {
    const answers = await Promise.all(['a1', 'a2', 'a3', 'a4', 'b1', 'a5'].map(ask));
    expect(answers).toEqual(['A1', 'A2', 'A3', 'A4', 'B1', 'A5']);
    expect(sent).toEqual([['a1', 'a2', 'a3'], ['a4'], ['b1'], ['a5']]);
  });

  it('fail alone: the others are asked again, each by itself', async () => {
    failure = (questions) => (questions.includes('a2') ? new Error('bad') : undefined);
    const settled = await Promise.allSettled(['a1', 'a2', 'a3'].map(ask));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(sent).toEqual([['a1', 'a2', 'a3'], ['a1'], ['a2'], ['a3']]);
  });

  it('fail together, once, where there is no database', async () => {
    failure = () => errors.UNAVAILABLE();
    const settled = await Promise.allSettled(['a1', 'a2'].map(ask));
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(sent).toHaveLength(1);
  });

  it('count for each request but the one that sends, whose statement the database counts', async () => {
    const [first, second] = [new RequestAccount(limits), new RequestAccount(limits)];
    await Promise.all([
      onAccount(first, () => ask('a1')),
      onAccount(second, () => ask('a2')),
      onAccount(second, () => ask('a3')),
    ]);
    expect([first.spent('statements'), second.spent('statements')]).toEqual([0, 2]);
    const refused = onAccount(first, () => ask('a4'));
    await expect(onAccount(second, () => ask('a5'))).rejects.toThrow('too many things');
    expect(await refused).toBe('A4');
  });
});
