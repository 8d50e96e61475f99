/** What runs leave behind them, whatever their code answers and keeps: records, transactions, secrets. CWE-532, CWE-770, CWE-835. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

it('records runs whose code answers a status that is none', async () => {
  const functionCode = 'res(1, { status: req.params.status })';
  const inputs = { method: 'POST', bodyParams: { status: 'JSON' } };
  const { _id } = await upload(platform.admin, { name: 'created', functionCode, inputs });
  for (const status of ['created', 200.5, 1e300, -1, { a: 1 }, 201])
    expect(await platform.client.post('/functions/created', { status })).toMatchObject({
      status: status === 201 ? 201 : 500,
    });
  const codes = async (): Promise<unknown[]> => {
    const { body } = await platform.admin.get(`/functions/executions/${_id}`);
    return (body.functionExecutions as { statusCode: number }[]).map((one) => one.statusCode);
  };
  await waitFor(async () => (await codes()).length === 6, { what: 'records of all runs' });
  expect((await codes()).toSorted()).toEqual([201, 500, 500, 500, 500, 500]);
});

it('ends a workflow that answers what the database does not take', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'unstorable',
    functionType: 'workflow',
    functionCode: "return { text: 'a\\0b' }",
    inputs: { attempts: 1 },
  });
  const started = await platform.admin.post(`/functions/${_id}/start`, {});
  const { _id: runId } = started.body.run as { readonly _id: string };
  const ended = await waitFor(
    async () => {
      const { body } = await platform.admin.get(`/functions/queue/${runId}`);
      return body.state === 'waiting' ? undefined : body;
    },
    { what: 'the end of the workflow' },
  );
  expect(ended).toMatchObject({
    state: 'dead',
    tries: [{ error: expect.stringContaining('result.text must not hold the NUL character') }],
  });
});

it('opens at most two transactions of one run, however many are asked for at once', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'many_open',
    functionCode: `
      let open = 0, most = 0;
      const one = () => ctx.db.transaction(async () => {
        most = Math.max(most, ++open);
        await ctx.secrets.get('NONE');
        open -= 1;
      });
      await Promise.allSettled(Array.from({ length: 50 }, one));
      return most;`,
  });
  expect((await invoke(platform.admin, _id, {})).result).toBe(2);
});

it('masks a secret that the code has kept from an earlier run, and inside JSON', async () => {
  const secret = '-----BEGIN "KEY"-----\nhunter2-hunter2\n-----END-----';
  const { _id } = await upload(platform.admin, {
    name: 'keeps',
    functionCode: `
      let kept;
      export default async (ctx, req) => {
        const isKept = kept !== undefined;
        kept ??= await ctx.secrets.get('KEY');
        console.log(kept);
        console.log({ kept });
        if (req.params.fail) throw new Error('bad key ' + kept);
        return isKept;
      };`,
  });
  await platform.admin.put(`/functions/${_id}/secrets/KEY`, { value: secret });
  const logs = [{ text: '********' }, { text: '{"kept":"********"}' }];
  expect(await invoke(platform.admin, _id, {})).toMatchObject({ result: false, logs });
  expect(await invoke(platform.admin, _id, {})).toMatchObject({ result: true, logs });
  const failed = await invoke(platform.admin, _id, { params: { fail: true } });
  expect(failed).toMatchObject({ error: { message: 'bad key ********' }, logs });
});

it('reads no address whose host would keep everybody waiting', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'long_host',
    functionCode: `
      const host = Array.from({ length: 100000 }, (_, i) => String.fromCharCode(0x4e00 + i % 20000)).join('');
      const told = [];
      for (const read of [() => new URL('http://' + host), () => ctx.fetch('https://' + host.slice(0, 7000))])
        try { await read(); } catch (error) { told.push(error.message); }
      return told;`,
  });
  expect((await invoke(platform.admin, _id, {})).result).toEqual([
    'The host of an address is too long',
    'url: must be an absolute address',
  ]);
});

it('masks a secret in the log of whom the code hands it to, and of whom it gets it from', async () => {
  const secret = 'hunter2-handed-over';
  const body = (name: string, functionCode: string) =>
    upload(platform.admin, {
      name,
      functionCode,
      inputs: { method: 'GET', queryParams: { key: 'String' } },
    });
  const taker = await body('taker', "console.log('took', req.params.key); return 1");
  const keeper = await body('keeper', "return ctx.secrets.get('KEY')");
  await platform.admin.put(`/functions/${keeper._id}/secrets/KEY`, { value: secret });
  const giver = await body(
    'giver',
    `const { result: key } = await ctx.call('GET /functions/keeper');
     console.log('got', key);
     await ctx.call('GET /functions/taker', { query: { key } });`,
  );
  expect((await platform.client.get('/functions/giver')).status).toBe(200);
  const logOf = async ({ _id }: { readonly _id: string }): Promise<unknown> =>
    (await platform.admin.get(`/functions/executions/${_id}`)).body.functionExecutions[0]?.logs;
  expect([await logOf(giver), await logOf(taker)]).toEqual([['got ********'], ['took ********']]);
});
