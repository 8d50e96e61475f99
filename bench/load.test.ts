import { describe, expect, it } from 'vitest';
import { type Material, requestOf, resultOf } from './load.ts';

const material: Material = {
  tokens: ['t0'],
  userIds: ['u0'],
  ids: ['i0'],
  sharedIds: ['s0'],
  authorIds: ['a0'],
};

describe('a request', () => {
  it('has one of each in the places that are named, also in its body', () => {
    const body = {
      query: 'query ($id: ID!) { x(id: $id) { _id title } }',
      variables: { id: '{id}' },
    };
    expect(
      requestOf(material, { method: 'POST', path: '/of/{user}?shared={shared}', body }, 0, () => 0),
    ).toEqual({
      method: 'POST',
      path: '/of/u0?shared=s0',
      headers: { authorization: 'Bearer t0', 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, variables: { id: 'i0' } }),
    });
  });
});

describe('what wrk prints', () => {
  it('is read as figures', () => {
    const printed =
      'Running 2s test\n  Latency 1ms\nRequests/sec: 50\nmeasured 1000 2000000 1500 20000 30000 9 1 0 0 0\n';
    expect(resultOf(printed)).toEqual({
      rate: 495,
      requests: 1000,
      failures: 10,
      failureKinds: '9 by status, 1 by timeout',
      latency: { p50: 1.5, p95: 20, p99: 30 },
    });
  });

  it('is shown when there are none', () => {
    expect(() => resultOf('unable to connect')).toThrow('unable to connect');
  });
});
