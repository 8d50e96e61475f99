/** Code that attacks whoever reads its answer, and that would go where its caller may not. CWE-20, CWE-113, CWE-522, CWE-863. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let headers: Readonly<Record<string, string>>;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await platform.createSchema({ name: 'Leaf', fields: { text: 'String' } });
  const { accessToken } = await platform.registerUser();
  headers = { authorization: `Bearer ${accessToken}` };
});
afterAll(() => platform.close());

let number = 0;
/** Stores the code as a function of its own and calls it. */
async function call(functionCode: string, sent = headers) {
  number += 1;
  const name = `attack_${number}`;
  const { _id } = await upload(platform.admin, { name, functionCode });
  const answer = await platform.client.get(`/functions/${name}`, { headers: sent });
  /** Every run has one record. */
  const record = () =>
    waitFor(
      async () => {
        const { body } = await platform.admin.get(`/functions/executions/${_id}`);
        return body.count > 0 ? body.functionExecutions[0] : undefined;
      },
      { what: 'the record of the run' },
    );
  return { answer, record };
}

it.each(['99999', '200', '101', '404.5', '0', '"x"', '1e400', '304'])(
  'a refusal has the status of one, whatever the code makes of it: %s',
  async (status) => {
    const { answer, record } = await call(
      `try { ctx.reject(403, 'no') } catch (e) { e.status = ${status}; throw e }`,
    );
    expect(answer).toMatchObject({ status: 400, body: { message: 'no' } });
    expect(await record()).toMatchObject({ outcome: 'rejected', statusCode: 400 });
  },
);

it.each(['name', 'message', 'code'])('an error is bounded in its %s', async (part) => {
  const { answer, record } = await call(
    `throw Object.assign(new Error('a'), { ${part}: 'x'.repeat(3e6) })`,
  );
  expect(answer.status).toBe(500);
  expect(JSON.stringify(await record()).length).toBeLessThan(40_000);
});

it.each([
  ['many headers', "Object.fromEntries(Array.from({ length: 200 }, (_, i) => ['x-' + i, 'v']))"],
  [
    'large headers',
    "Object.fromEntries(Array.from({ length: 6 }, (_, i) => ['x-' + i, 'v'.repeat(3500)]))",
  ],
])('an answer with %s is a failed run, and no answer', async (_what, given) => {
  const { answer, record } = await call(`res(1, { headers: ${given} })`);
  expect([answer.status, answer.body.code]).toEqual([500, 'FUNCTION_FAILED']);
  const { error } = await record();
  expect(error.message).toMatch(/at most 100 headers/);
});

it('no session is handed to code by way of its cookies', async () => {
  const cookie =
    'accessToken=a; refreshToken=b; __Host-accessToken=c; __Host-refreshToken=d; own=e';
  const { answer } = await call('return req.cookies', { ...headers, cookie });
  expect(answer.body).toEqual({ result: { own: 'e' } });
});

it('what operators put before a route stands before what code calls, too', async () => {
  const route = '/router/patch-middleware?path=/database/Leaf&action=GET';
  const asked = "return ctx.call('GET /database/Leaf')";
  expect((await platform.admin.patch(route, { middlewares: ['authMiddleware'] })).status).toBe(200);
  expect((await call(asked, {})).answer.status).toBe(401);
  expect((await call(asked)).answer.status).toBe(200);
  await upload(platform.admin, {
    name: 'no_tea',
    functionType: 'middleware',
    inputs: {},
    functionCode: "ctx.reject(403, 'no tea')",
  });
  const middlewares = ['authMiddleware', 'no_tea'];
  expect((await platform.admin.patch(route, { middlewares })).status).toBe(200);
  expect((await call(asked)).answer.status).toBe(403);
});
