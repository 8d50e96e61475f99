import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

/** What runs for every request, over and over: first for clients that send their headers in one order, then in others. */
const program = `
  import { announcesBody } from ${JSON.stringify(new URL('../surfaces/http/body.ts', import.meta.url).href)};
  import { presentedCredentials, requestIdOf } from ${JSON.stringify(new URL('../surfaces/http/headers.ts', import.meta.url).href)};

  const values = { host: 'a', authorization: 'Bearer abc', 'x-request-id': 'r1', 'content-length': '2' };
  const rawHeaders = ['Authorization', 'Bearer abc'];
  const orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]].map((order) =>
    order.map((place) => Object.keys(values)[place]),
  );
  let known = 0;
  for (const order of orders)
    for (let i = 0; i < 300_000; i += 1) {
      const headers = {};
      for (const name of order) headers[name] = values[name];
      const request = { headers, rawHeaders };
      if (presentedCredentials(request, 'client', 'here').bearer === 'abc') known += 1;
      if (requestIdOf(headers) === 'r1' && announcesBody(request)) known += 1;
    }
  console.log('known ' + known);
`;

describe('headers of requests', () => {
  it('are read by code that stays compiled when clients send them in another order', () => {
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--trace-deopt', '--no-warnings', '--input-type=module-typescript', '--eval', program],
      { encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    expect(stdout).toContain('known 1800000');
    const thrownAway = stdout.split('\n').filter((line) => line.includes('reason: wrong map'));
    expect(thrownAway).toEqual([]);
  });
});
