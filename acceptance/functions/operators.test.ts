/** What operators have beside functions: dry runs, types, tools for agents, times of schedules, webhooks that answer at once. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
const open = { enabled: true, authenticated: false };
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await platform.createSchema({
    name: 'Entry',
    fields: { text: { type: 'String', required: true }, n: 'Number', tags: ['String'] },
    conduitOptions: { cms: { enabled: true, crudOperations: { create: open, read: open } } },
  });
});
afterAll(() => platform.close());

const entries = async (): Promise<string[]> =>
  (await platform.client.get('/database/Entry', { query: { limit: 100 } })).body.documents.map(
    ({ text }: Json) => text,
  );

it('a dry run sees what it writes, and leaves nothing', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'writes',
    inputs: { method: 'POST', rights: 'system' },
    functionCode: `const { db } = ctx.system;
      await db.create('Entry', { text: 'one' });
      await db.transaction(async (both) => {
        await both.create('Entry', { text: 'two' });
        await both.create('Entry', { text: 'three' });
      });
      await db.create('Entry', {}).catch(() => undefined);
      const refused = [];
      for (const work of [
        () => ctx.fetch('https://example.org/'),
        () => ctx.system.messages.email({ email: 'a@b.example', subject: 's', body: 'b' }),
        () => ctx.system.realtime.toUser('01a2076a-ba61-751f-b7c7-dd8e04f75135', 'x', 1),
        () => ctx.system.call('POST /database/Entry', { body: { text: 'four' } }),
      ])
        await work().catch((error) => refused.push(error.message.includes('dry run')));
      return { seen: await db.count('Entry'), refused, read: await ctx.system.call('GET /database/Entry') };`,
  });
  const { result, error, executionId } = await invoke(platform.admin, _id, { dryRun: true });
  expect(error).toBeNull();
  expect(result).toMatchObject({ seen: 3, refused: [true, true, true, true], read: { count: 3 } });
  expect(await entries()).toEqual([]);
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.functionExecutions[0]).toMatchObject({ _id: executionId, success: true });
  await invoke(platform.admin, _id, {});
  expect(await entries()).toHaveLength(4);
});

it('a dry run is one for the hooks and the functions too that it reaches', async () => {
  await platform.createSchema({ name: 'Dry', fields: { text: 'String' }, conduitOptions: {} });
  const told = `await ctx.fetch('https://example.org/').then(() => 'sent', (error) => error.message)`;
  await upload(platform.admin, { name: 'asked', functionCode: `return ${told};` });
  await upload(platform.admin, {
    name: 'hears',
    functionType: 'hook',
    inputs: { trigger: { schema: 'Dry', op: 'create', when: 'before' } },
    functionCode: `return { text: ${told} };`,
  });
  const { _id } = await upload(platform.admin, {
    name: 'reaches',
    inputs: { method: 'POST', rights: 'system' },
    functionCode: `const { text } = await ctx.system.db.create('Dry', { text: 'one' });
      return [text, (await ctx.call('GET /functions/asked')).result];`,
  });
  const { result, error } = await invoke(platform.admin, _id, { dryRun: true });
  expect(error).toBeNull();
  expect(result).toEqual([1, 2].map(() => 'A dry run does not do this: fetch'));
});

const program = `import type { Context, Request, Respond } from './penstock';
export default async function program(ctx: Context, req: Request<{ readonly id: string }>, res: Respond) {
  const entry = await ctx.db.get('Entry', req.params.id);
  const text: string | null | undefined = entry.text;
  const made = await ctx.system.db.create('Entry', { text, n: 1, tags: ['a'] });
  const both = await ctx.db.transaction(async (db) => [await db.count('Entry'), await db.find('Elsewhere')] as const);
  await ctx.realtime.publish('lobby', 'moved', { to: made._id });
  await ctx.step('greet', () => ctx.messages.email({ email: 'a@b.example' }));
  if (ctx.caller.kind === 'user') ctx.log.info(ctx.caller.userId, both[0] + 1, ctx.deadline.getTime());
  const key = await ctx.secrets.get('KEY');
  if (key === null) return ctx.reject(500, 'No key');
  const answer = await ctx.fetch('https://example.org/', { headers: { authorization: key } });
  res({ status: answer.status, page: await answer.json() }, { status: 201 });
  // @ts-expect-error: Entry has no such field.
  await ctx.db.create('Entry', { text: 7 });
  // @ts-expect-error: a status is a number.
  ctx.reject('no');
}
`;

it('type declarations of ctx and of the schemas compile against a function that uses them', async () => {
  const answer = await platform.admin.get('/functions/types');
  expect(answer.status).toBe(200);
  expect(answer.text).toContain('"Entry": {');
  await writeFile(join(platform.dataDir, 'penstock.d.ts'), answer.text);
  await writeFile(join(platform.dataDir, 'program.ts'), program);
  const tsc = join(projectRoot, 'node_modules/typescript/bin/tsc');
  const options = ['--noEmit', '--strict', '--target', 'es2024', '--types', '', '--ignoreConfig'];
  const run = promisify(execFile)(process.execPath, [tsc, ...options, 'program.ts'], {
    cwd: platform.dataDir,
  });
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  expect(stdout).toBe('');
  const { _id } = await upload(platform.admin, { name: 'typed_program', functionCode: program });
  expect(_id).toBeTruthy();
});

it('the declarations name every part of ctx, and no other', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'parts',
    inputs: { method: 'GET', rights: 'system' },
    functionCode: `const keys = (value) => Object.keys(value).sort();
      const acting = ['db', 'database', 'auth', 'files', 'messages', 'search', 'realtime'];
      return { ctx: keys(ctx), system: keys(ctx.system), ...Object.fromEntries(acting.map((one) => [one, keys(ctx[one])])) };`,
  });
  const { result } = await invoke(platform.admin, _id, {});
  const text = (await platform.admin.get('/functions/types')).text;
  const membersOf = (start: string): string[] => {
    const from = text.indexOf(start);
    const indent = /^ */.exec(text.slice(text.lastIndexOf('\n', from) + 1))?.[0] ?? '';
    const body = text.slice(text.indexOf('{', from) + 1, text.indexOf(`\n${indent}}`, from));
    const member = new RegExp(`^${indent}  (?:readonly )?(\\w+)[?]?[:(<]`, 'gm');
    return [...new Set([...body.matchAll(member)].map(([, name]) => String(name)))].sort();
  };
  const found = result as Readonly<Record<string, string[]>>;
  const acting = membersOf('interface Acting');
  expect(found.system?.toSorted()).toEqual([...acting].sort());
  expect(found.ctx).toEqual([...new Set([...acting, ...membersOf('interface Context')])].sort());
  expect(found.db).toEqual([...membersOf('interface Database'), 'transaction'].sort());
  expect(found.database).toEqual(membersOf('interface OlderDatabase'));
  for (const one of ['auth', 'files', 'messages', 'realtime'])
    expect(found[one]).toEqual(membersOf(`readonly ${one}: {`));
});

it('a function with declared input is a tool of agents by its own name, with its types', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'area',
    inputs: {
      method: 'GET',
      urlParams: { shape: { type: 'String', required: true, enum: ['square', 'circle'] } },
      queryParams: { size: { type: 'Number', required: true } },
    },
    returns: { area: 'Number' },
    functionCode:
      "return { area: req.urlParams.shape === 'square' ? req.queryParams.size ** 2 : 3 * req.params.size ** 2 };",
  });
  const mcp = (method: string, params: object) =>
    platform.admin.post(
      '/mcp?modules=functions',
      { jsonrpc: '2.0', id: 1, method, params },
      { headers: { accept: 'application/json, text/event-stream' } },
    );
  const listed = (await mcp('tools/list', {})).text;
  expect(listed).toContain('post_functions_call_area');
  const input = { name: 'post_functions_call_area', arguments: { shape: 'square', size: 3 } };
  expect((await mcp('tools/call', input)).text).toMatch(/\\"area\\":\s*9|"area":9/);
  const call = (body: object) => platform.admin.post('/functions/call/area', body);
  expect((await call({ shape: 'circle', size: 2 })).body).toEqual({ area: 12 });
  expect((await call({ shape: 'cube', size: 2 })).body.errors[0].path).toContain('shape');
  expect((await call({ shape: 'circle', size: 'x' })).status).toBe(400);
  expect((await platform.client.post('/functions/call/area', {})).status).toBe(404);
  await platform.admin.delete(`/functions/${_id}`);
  expect((await mcp('tools/list', {})).text).not.toContain('post_functions_call_area');
  expect((await call({ shape: 'circle', size: 2 })).status).toBe(404);
});

it('the answer to an upload says when a schedule runs next', async () => {
  const made = await upload(platform.admin, {
    ...{ name: 'yearly', functionType: 'cron', functionCode: 'return 1;' },
    inputs: { cronPattern: '30 9 1 1 *', timezone: 'Europe/Athens' },
  });
  const { nextRuns } = made as unknown as { readonly nextRuns: readonly string[] };
  expect(nextRuns).toHaveLength(5);
  expect(nextRuns.every((at) => at.endsWith('-01-01T07:30:00.000Z'))).toBe(true);
  const { body } = await platform.admin.get(`/functions/${made._id}/schedule`);
  expect(body.next).toEqual(nextRuns);
  const off = await platform.admin.post(`/functions/${made._id}/toggle`, { enabled: false });
  expect(off.body).not.toHaveProperty('nextRuns');
});

it('a webhook may answer 202 at once, and runs until it succeeds', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'paid_later', functionType: 'webhook' },
    inputs: {
      ...{ method: 'POST', async: true, attempts: 3, backoffMs: 10, rights: 'system' },
      bodyParams: { order: { type: 'String', required: true } },
    },
    functionCode: `if (ctx.attempt === 1) throw new Error('not yet');
      const seen = [req.bodyParams.order, JSON.parse(req.rawBody).order, req.headers.authorization ?? 'none'];
      await ctx.system.db.create('Entry', { text: seen.join(' ') + ' ' + ctx.trigger });`,
  });
  const headers = { authorization: 'Bearer of-the-sender' };
  const answer = await platform.client.post('/hook/paid_later', { order: 'o-17' }, { headers });
  expect(expectStatus(answer, 202, 'accepted').body).toEqual({
    ...{ accepted: true, runId: expect.any(String) },
  });
  await waitFor(async () => (await entries()).includes('o-17 o-17 none webhook'));
  const run = await waitFor(async () => {
    const { body } = await platform.admin.get(`/functions/queue/${answer.body.runId}`);
    return body.state === 'done' ? body : undefined;
  });
  expect(run).toMatchObject({ function: _id, trigger: 'webhook' });
  expect(run.tries).toHaveLength(2);
  expect((await platform.client.post('/hook/paid_later', {})).status).toBe(400);
  const wrong = await platform.admin.post('/functions/upload', {
    ...{ name: 'wrong', functionType: 'request', functionCode: 'return 1;' },
    inputs: { method: 'GET', async: true },
  });
  expect(wrong).toMatchObject({ status: 400, body: { errors: [{ path: 'inputs.async' }] } });
});
