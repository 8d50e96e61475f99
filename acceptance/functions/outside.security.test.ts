/**
 * Where `ctx.fetch` of a running platform can be led: by redirects, by names that mean another address each time they are
 * asked for, and by names of several addresses. CWE-918, CWE-350.
 */
import dns from 'node:dns';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
let inside: Server;
let redirecting: Server;
const hits: string[] = [];
const listening = async (server: Server): Promise<Server> => {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return server;
};
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

beforeAll(async () => {
  platform = await createTestPlatform();
  inside = await listening(
    createServer(({ url = '' }, response) => {
      hits.push(url);
      response.end('a secret');
    }),
  );
  redirecting = await listening(
    createServer((_, response) =>
      response.writeHead(302, { location: `http://127.0.0.1:${portOf(inside)}/led` }).end(),
    ),
  );
});
afterAll(async () => {
  inside.close();
  redirecting.close();
  await platform.close();
});
beforeEach(() => void hits.splice(0));

const egress = async (given: object) =>
  expectStatus(
    await platform.admin.patch('/config/functions', { config: { egress: given } }),
    200,
    'egress',
  );

let number = 0;
async function run(functionCode: string) {
  number += 1;
  const { _id } = await upload(platform.admin, { name: `outside_${number}`, functionCode });
  return invoke(platform.admin, _id, {});
}

it('follows no redirect, and where the code follows it itself the address is judged again', async () => {
  await egress({ denyPrivate: false, allow: ['localhost'] });
  const from = `http://localhost:${portOf(redirecting)}/`;
  const seen = await run(`const answer = await fetch('${from}');
    return [answer.status, answer.headers.get('location')];`);
  expect(seen.result).toEqual([302, `http://127.0.0.1:${portOf(inside)}/led`]);
  expect(hits).toEqual([]);
  const followed = await run(`const answer = await fetch('${from}');
    return (await fetch(answer.headers.get('location'))).text();`);
  expect(followed.error).toMatchObject({ message: expect.stringContaining('may not call') });
  expect(hits).toEqual([]);
  // What would have been found there, where operators allow it.
  await egress({ denyPrivate: false, allow: ['localhost', '127.0.0.1'] });
  const allowed = await run(`const answer = await fetch('${from}');
    return (await fetch(answer.headers.get('location'))).text();`);
  expect(allowed.result).toBe('a secret');
});

/* Names: what the name servers say, in turns. */

const { resolve4, resolve6 } = dns.Resolver.prototype;
const asked: string[] = [];
type Found = readonly { readonly address: string; readonly family: number }[];
type Answered = (error: Error | null, addresses: readonly string[]) => void;

/** From now on names under `.test` have these addresses, the next ones at each question. */
function resolves(answers: readonly Found[]): void {
  const answer = (family: number) => (name: string, answered: Answered) => {
    // The addresses of both families are asked for together: one question.
    if (family === 4) asked.push(name);
    const found = answers[Math.min(asked.length, answers.length) - 1] ?? [];
    const addresses = found.flatMap((one) => (one.family === family ? [one.address] : []));
    if (addresses.length > 0) return answered(null, addresses);
    return answered(Object.assign(new Error('No such address'), { code: 'ENODATA' }), []);
  };
  Object.assign(dns.Resolver.prototype, { resolve4: answer(4), resolve6: answer(6) });
}
afterEach(() => {
  asked.splice(0);
  Object.assign(dns.Resolver.prototype, { resolve4, resolve6 });
});

/** Of a network for documentation: nobody has it. */
const elsewhere = { address: '203.0.113.7', family: 4 };
const here = { address: '127.0.0.1', family: 4 };

it.each([
  ['another address at each question', [[elsewhere], [here], [here]]],
  ['an address inside beside one outside', [[here, elsewhere]]],
  ['an address inside alone', [[here]]],
  ['an address inside, written as one of IPv6', [[{ address: '::ffff:127.0.0.1', family: 6 }]]],
] as const)('reaches nothing inside by a name with %s', async (_what, answers) => {
  await egress({ denyPrivate: true, allow: [], timeoutMs: 300 });
  resolves(answers);
  const { error } = await run(
    `return (await fetch('https://rebind.test:${portOf(inside)}/')).text();`,
  );
  expect(error).toMatchObject({ message: expect.stringContaining('rebind.test') });
  // Asked once: what was judged is what is called.
  expect(asked).toEqual(['rebind.test']);
  expect(hits).toEqual([]);
});

it('calls the address that was judged, where operators allow addresses inside', async () => {
  await egress({ denyPrivate: false, allow: ['*.test'], timeoutMs: 5_000 });
  resolves([[here], [{ address: '169.254.169.254', family: 4 }]]);
  const url = `http://name.test:${portOf(inside)}/open`;
  expect((await run(`return (await fetch('${url}')).text();`)).result).toBe('a secret');
  expect(hits).toEqual(['/open']);
  const { error } = await run(`return (await fetch('${url}')).text();`);
  expect(error).toMatchObject({ message: expect.stringContaining('may not be called') });
  expect(hits).toEqual(['/open']);
});
