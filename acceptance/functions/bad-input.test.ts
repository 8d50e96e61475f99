/** What functions cannot be stored as, asked with or answer: the error says what, and where it stands. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const limits = { maxResultBytes: 2_048, maxCodeBytes: 4_096 };
  const { status } = await platform.admin.patch('/config/functions', { config: { limits } });
  expect(status).toBe(200);
});
afterAll(() => platform.close());

it.each([
  ['functionType', { functionType: 'lambda' }],
  ['inputs.method', { inputs: { method: 'FETCH' } }],
  ['inputs.Auth', { inputs: { method: 'GET', Auth: true } }],
  ['inputs.trigger.schma', { inputs: { trigger: { schma: 'A', op: 'create', when: 'before' } } }],
  ['returns.total', { returns: { total: 'Nmber' } }],
  ['returns.rows.0.total', { returns: { rows: [{ total: 7 }] } }],
  ['timeout', { timeout: -1 }],
  ['name', { name: '../up' }],
  ['functionCode', { functionCode: `// ${'x'.repeat(5_000)}` }],
  ['functionCode', { functionCode: 'export const other = 1;' }],
])('a definition is refused that names what is wrong: %s', async (path, wrong) => {
  const answer = await platform.admin.post('/functions/upload', {
    ...{ name: 'wrong', functionType: 'request', functionCode: 'return 1' },
    inputs: { method: 'GET' },
    ...wrong,
  });
  expect(answer.status).toBe(400);
  expect(answer.text).toContain(path);
});

it.each([
  ['itself', 'const a = { b: {} }; a.b.c = a; return { a };', 'RESULT_INVALID', 'result.a.b.c'],
  ['a BigInt', 'return { rows: [{ total: 5n }] };', 'RESULT_INVALID', 'result.rows.0.total'],
  ['too much', 'return "x".repeat(4_000);', 'RESULT_TOO_LARGE', '2048 bytes'],
])(
  'a result with %s is the failure of the run, and says where',
  async (what, functionCode, code, place) => {
    const name = `answers_${what.replaceAll(' ', '_')}`;
    const { _id } = await upload(platform.admin, { name, functionCode });
    const { error } = await invoke(platform.admin, _id, {});
    expect(error).toMatchObject({ code });
    expect(error?.message).toContain(place);
    const answer = await platform.client.get(`/functions/${name}`);
    expect(answer.body).toMatchObject({ status: 500, code: 'FUNCTION_FAILED' });
    expect(answer.text).not.toContain(place);
  },
);

it('what is answered may have a key of the name type', async () => {
  await upload(platform.admin, {
    name: 'kinds',
    returns: {
      type: 'String',
      parts: [{ type: 'String', id: { type: 'Number', required: true } }],
    },
    functionCode: "return { type: 'a', other: 1, parts: [{ type: 'b', id: 2, other: 3 }] };",
  });
  const answer = await platform.client.get('/functions/kinds');
  expect(answer.text).toBe('{"type":"a","parts":[{"type":"b","id":2}]}');
});

it('a request that is too large or of another type does not reach the code', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'takes',
    functionCode: 'return { size: req.bodyParams.text.length };',
    inputs: { method: 'POST', bodyParams: { text: { type: 'String', required: true } } },
  });
  const large = await platform.client.post('/functions/takes', { text: 'x'.repeat(1_100_000) });
  expect(large.status).toBe(413);
  const wrong = await platform.client.post('/functions/takes', { text: 7 });
  expect(wrong.body).toMatchObject({ status: 400, errors: [{ path: 'text' }] });
  expect((await platform.client.post('/functions/takes', { text: 'abc' })).body).toMatchObject({
    result: { size: 3 },
  });
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.count).toBe(1);
});

it('what answers twice has one record, with its first answer', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'twice',
    functionCode: 'res({ first: true }); res({ first: false });',
  });
  expect((await platform.client.get('/functions/twice')).body).toMatchObject({
    result: { first: true },
  });
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.count).toBe(1);
});
