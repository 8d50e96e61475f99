import Type from 'typebox';
import { describe, expect, it } from 'vitest';
import { addressKey, anonymous, type UserCaller } from '../caller.ts';
import type { LimitBucket, Limits } from '../limits/limits.ts';
import { defineOperation, type Limit, TextResult } from '../operations/operation.ts';
import { createOperationLimiter, type LimitSettings } from './rate-limits.ts';

describe('addressKey', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2/64'],
    ['2001:db8:1:2::', '2001:db8:1:2/64'],
    ['2001:0db8:0001:0002:ffff::1', '2001:db8:1:2/64'],
    ['::1', '0:0:0:0/64'],
    ['fe80::1%eth0', 'fe80:0:0:0/64'],
    ['unknown', 'unknown'],
  ])('%s counts as %s', (address, key) => expect(addressKey(address)).toBe(key));
});

const recorder = () => {
  const taken: [string, string, number][] = [];
  const allow = { allowed: true, remaining: 1, resetMs: 0 };
  const limits: Limits = {
    consume(bucket: LimitBucket, key: string) {
      taken.push([bucket.name, key, bucket.requests]);
      return allow;
    },
    peek: () => allow,
    reset: async () => undefined,
  };
  return { taken, limits };
};

const operation = (limit: Limit) =>
  defineOperation({
    id: 'auth.reset',
    surface: 'client',
    method: 'POST',
    path: '/reset',
    access: 'public',
    limit,
    summary: 'Test',
    input: { body: Type.Object({ email: Type.String() }) },
    output: TextResult,
    handler: () => 'ok',
  });

const user: UserCaller = {
  kind: 'user',
  userId: 'u1',
  sessionId: 's',
  authenticatedAt: 0,
  complete: true,
  clientId: 'c',
};

describe('operation limiter', () => {
  it('takes the standard budget per user, else per address', () => {
    const { taken, limits } = recorder();
    const limiter = createOperationLimiter(limits);
    limiter.admit(operation('standard'), user, '10.0.0.1');
    limiter.admit(operation('standard'), anonymous, '10.0.0.1');
    limiter.admitAddress('2001:db8::1', 'client');
    expect(taken).toEqual([
      ['standard', 'user:u1', 300],
      ['standard', '10.0.0.1', 300],
      ['standard', '2001:db8:0:0/64', 300],
    ]);
  });

  it('takes ten times the budget per address, and the budget per account and address', () => {
    const { taken, limits } = recorder();
    const limiter = createOperationLimiter(limits);
    const reset = operation({ requests: 8, seconds: 900, account: 'email' });
    limiter.admit(reset, anonymous, '10.0.0.1');
    limiter.admitAccount(reset, { email: ' Ann@Example.com ' }, '10.0.0.1');
    limiter.admitAccount(reset, { email: 'ann@example.com' }, '10.0.0.1');
    limiter.admitAccount(reset, undefined, '10.0.0.1');
    expect(taken.slice(1)).toEqual([
      ['auth.reset:address', '10.0.0.1', 80],
      ['auth.reset:account', 'ann@example.com 10.0.0.1', 8],
      ['auth.reset:account', 'ann@example.com 10.0.0.1', 8],
    ]);
  });

  it('takes as many times the budget of one person per address without a user, as people stand behind it', () => {
    const { taken, limits } = recorder();
    let settings: LimitSettings = { standard: { requests: 300, seconds: 1 } };
    const limiter = createOperationLimiter(limits, () => settings);
    const begin = operation({ requests: 35, seconds: 900 });
    const reset = operation({ requests: 8, seconds: 900, account: 'email' });
    const own = () => taken.splice(0).filter(([name]) => name !== 'standard');
    limiter.admit(begin, anonymous, '10.0.0.1');
    limiter.admit(begin, user, '10.0.0.1');
    expect(own()).toEqual([
      ['auth.reset:address', '10.0.0.1', 350],
      ['auth.reset', 'user:u1', 35],
    ]);
    settings = { standard: { requests: 6, seconds: 1 }, peoplePerAddress: 200 };
    limiter.admit(begin, anonymous, '10.0.0.1');
    limiter.admit(begin, user, '10.0.0.1');
    limiter.admit(reset, anonymous, '10.0.0.1');
    limiter.admitAccount(reset, { email: 'ann@example.com' }, '10.0.0.1');
    expect(own()).toEqual([
      ['auth.reset:address', '10.0.0.1', 7_000],
      ['auth.reset', 'user:u1', 35],
      ['auth.reset:address', '10.0.0.1', 1_600],
      ['auth.reset:account', 'ann@example.com 10.0.0.1', 8],
    ]);
  });

  it('takes no more of who is about to be an operator', () => {
    const { taken, limits } = recorder();
    const step = { ...operation({ requests: 60, seconds: 900 }), surface: 'admin' as const };
    createOperationLimiter(limits).admit(step, anonymous, '10.0.0.1');
    expect(taken).toEqual([
      ['standard:admin', '10.0.0.1', 300],
      ['auth.reset', '10.0.0.1', 60],
    ]);
  });

  it('waits for limits that answer later', async () => {
    const { limits } = recorder();
    const refuse = {
      ...limits,
      consume: async () => ({ allowed: false, remaining: 0, resetMs: 1_200 }),
    };
    await expect(
      createOperationLimiter(refuse).admit(operation('standard'), user, 'a'),
    ).rejects.toMatchObject({
      status: 429,
      retryAfter: 2,
      headers: { 'ratelimit-limit': '300', 'ratelimit-remaining': '0', 'ratelimit-reset': '2' },
    });
  });
});
