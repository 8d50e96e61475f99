import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { defaultRequestSettings } from '../pipeline/request-limits.ts';
import { currentAccount, offAccount, onAccount, RequestAccount } from './request-account.ts';

const limits = {
  milliseconds: 1_000,
  bytesIn: 10,
  bytesOut: 10,
  statements: 2,
  lockedRows: 2,
  outboundCalls: 1,
};

describe('request account', () => {
  it('is found by everything that the request causes, and by nothing else', async () => {
    const account = new RequestAccount(limits);
    const seen = await onAccount(account, async () => {
      await sleep(1);
      return [currentAccount(), offAccount(currentAccount)];
    });
    expect(seen).toEqual([account, undefined]);
    expect(currentAccount()).toBeUndefined();
  });

  it('gives what it holds and refuses what is more, each by its own status', () => {
    const account = new RequestAccount(limits);
    account.charge('statements', 2);
    expect(account.left('statements')).toBe(0);
    expect(() => account.charge('statements')).toThrow(expect.objectContaining({ status: 400 }));
    expect(() => account.charge('bytesIn', 11)).toThrow(expect.objectContaining({ status: 413 }));
    expect(() => account.charge('bytesOut', 11)).toThrow(expect.objectContaining({ status: 400 }));
    expect(() => account.charge('lockedRows', 3)).toThrow(expect.objectContaining({ status: 400 }));
    expect(() => account.charge('outboundCalls', 2)).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });

  it('counts its time from the arrival, whatever has waited since', () => {
    const account = new RequestAccount(limits, performance.now() - 900);
    expect(account.remainingMs).toBeLessThanOrEqual(100);
    account.renew();
    // More than was left before; a busy machine may have taken some of it already.
    expect(account.remainingMs).toBeGreaterThan(100);
  });

  it('may give a part of its work up: that part has no time left, and the whole all of its own', () => {
    const whole = new RequestAccount(limits);
    const part = whole.until(performance.now() + 500);
    part.giveUp();
    expect(part.remainingMs).toBeLessThanOrEqual(0);
    expect(whole.remainingMs).toBeGreaterThan(0);
    whole.giveUp();
    whole.close();
    expect(whole.closed).toBe(false);
  });

  it('ends with its answer: what still runs is the platform’s own, unless the time was over', async () => {
    const answered = new RequestAccount(limits);
    const late = new RequestAccount({ ...limits, milliseconds: 0 });
    const seenAfter = (account: RequestAccount) =>
      onAccount(account, async () => {
        account.close();
        await sleep(1);
        return currentAccount();
      });
    expect(await seenAfter(answered)).toBeUndefined();
    expect(await seenAfter(late)).toBe(late);
  });

  it('lets three calls of one request run at a time, the others in order', async () => {
    const account = new RequestAccount(defaultRequestSettings);
    const order: number[] = [];
    let running = 0;
    const call = async (number: number): Promise<void> => {
      await account.enterCall();
      running += 1;
      expect(running).toBeLessThanOrEqual(3);
      order.push(number);
      await sleep(2);
      running -= 1;
      account.leaveCall();
    };
    await Promise.all([0, 1, 2, 3, 4, 5, 6].map(call));
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });
});
