/** Functions in the files of whoever writes them, and their logs as they run. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { functions } from '../../src/cli/functions.ts';
import { testMasterKey } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { follow, invoke, upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(() => platform.close());

/** `penstock functions`, with what it printed. */
async function run(args: readonly string[], signal?: AbortSignal, printed: string[] = []) {
  const code = await functions(
    args,
    {
      environment: { PENSTOCK_URL: platform.addresses.admin, MASTER_KEY: testMasterKey },
      isSeen: false,
      print: (text) => void printed.push(text),
    },
    signal,
  );
  return { code, printed: printed.join('\n') };
}

it('says how much memory the first run of a function has taken', async () => {
  const { _id } = await upload(platform.admin, { name: 'first_run', functionCode: 'return 1;' });
  const first = await invoke(platform.admin, _id, {});
  expect(first.memoryPeak).toBeGreaterThan(100_000);
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.functionExecutions[0].memoryPeak).toBe(first.memoryPeak);
});

it('gives functions and types out together, without secrets', async () => {
  const code = 'export default (ctx: { log: unknown }) => 1;';
  const { _id, version } = await upload(platform.admin, { name: 'typed', functionCode: code });
  await platform.admin.put(`/functions/${_id}/secrets/KEY`, { value: 'never-to-be-seen' });
  const whole = await platform.admin.get('/functions/bundle');
  expect(whole.body.functions.map(({ name }: { name: string }) => name)).toEqual([
    ...['first_run', 'typed'],
  ]);
  expect(whole.text).not.toContain('never-to-be-seen');
  expect(whole.body.types).toBe((await platform.admin.get('/functions/types')).text);
  const { body } = await platform.admin.get('/functions/bundle?name=typed');
  expect(body.functions).toEqual([
    expect.objectContaining({ _id, file: 'typed.ts', functionCode: code, version }),
  ]);
  await platform.admin.patch(`/functions/${_id}`, { functionCode: `${code} ` });
  const later = await platform.admin.get('/functions/bundle?name=typed');
  expect(later.body.checksum).not.toBe(body.checksum);
  expect((await platform.client.get('/functions/bundle')).status).toBe(404);
});

it('pulls functions into a folder, stores what is changed there, and nothing over others', async () => {
  const folder = join(platform.dataDir, 'pulled');
  expect(await run(['pull', folder])).toMatchObject({ code: 0 });
  const files = ['.penstock-functions.json', 'first_run.js', 'first_run.json', 'penstock.d.ts'];
  expect(await readdir(folder)).toEqual([...files, 'typed.json', 'typed.ts']);
  expect(await run(['push', folder])).toEqual({ code: 0, printed: 'Nothing has changed.' });

  await writeFile(join(folder, 'first_run.js'), "return { hello: 'file' };");
  await writeFile(join(folder, 'made.ts'), 'export default (): number => 7;');
  await writeFile(join(folder, 'broken.js'), 'return 1;\nreturn );');
  await expect(run(['push', folder])).rejects.toThrow(/broken\.json is missing: it says what/);
  await writeFile(join(folder, 'broken.json'), '[]');
  await expect(run(['push', folder])).rejects.toThrow(/broken\.json must be a JSON object/);
  const request = { functionType: 'request', inputs: { method: 'GET' } };
  for (const name of ['made', 'broken'])
    await writeFile(join(folder, `${name}.json`), JSON.stringify(request));
  const pushed = await run(['push', folder]);
  expect(pushed.code).toBe(1);
  expect(pushed.printed).toContain('first_run.js: stored\nmade.ts: stored');
  expect(pushed.printed).toMatch(/broken\.js: Refused \(400\):\n {2}functionCode: line 2, column/);
  expect((await platform.client.get('/functions/made')).body).toEqual({ result: 7 });
  expect((await platform.client.get('/functions/first_run')).body.result).toEqual({
    hello: 'file',
  });

  await rm(join(folder, 'broken.js'));
  const { _id } = (await platform.admin.get('/functions/bundle?name=made')).body.functions[0];
  await platform.admin.patch(`/functions/${_id}`, { functionCode: 'return 8;' });
  await writeFile(join(folder, 'made.ts'), 'export default (): number => 9;');
  const refused = await run(['push', folder]);
  expect(refused).toMatchObject({ code: 1, printed: expect.stringContaining('say --force') });
  expect((await platform.client.get('/functions/made')).body).toEqual({ result: 8 });
  expect(await run(['push', folder, '--force'])).toMatchObject({ code: 0 });
  await rm(join(folder, 'made.ts'));
  expect(await run(['push', folder, '--prune'])).toMatchObject({
    code: 0,
    printed: 'made: deleted',
  });
  expect((await platform.client.get('/functions/made')).status).toBe(404);
});

it('writes over no work of others, neither here nor there, unless it is told to', async () => {
  const folder = join(platform.dataDir, 'both-sides');
  const made = { functionCode: 'return 1;', inputs: { method: 'GET' } };
  const ids = new Map<string, string>();
  for (const name of ['edited', 'old', 'moved'])
    ids.set(name, (await upload(platform.admin, { ...made, name }))._id);
  await run(['pull', folder]);
  const edited = join(folder, 'edited.js');
  await writeFile(edited, 'return 2;');
  const change = { functionCode: 'export default (): number => 3;' };
  for (const name of ['edited', 'moved'])
    await platform.admin.patch(`/functions/${ids.get(name)}`, change);
  await platform.admin.delete(`/functions/${ids.get('old')}`);
  const pulled = await run(['pull', folder]);
  expect(pulled).toMatchObject({ code: 1, printed: expect.stringContaining('edited.js: left as') });
  expect(await readFile(edited, 'utf8')).toBe('return 2;');
  // What nobody has changed here has its other language now.
  const files = await readdir(folder);
  expect(files).toContain('moved.ts');
  expect(files).not.toContain('moved.js');
  const pushed = await run(['push', folder]);
  expect(pushed.printed).toContain('old.js: somebody has deleted it');
  expect((await platform.client.get('/functions/old')).status).toBe(404);
  await rm(join(folder, 'old.js'));
  await rm(edited);
  await upload(platform.admin, { ...made, name: 'new_there' });
  const pruned = await run(['push', folder, '--prune']);
  expect(pruned).toMatchObject({ code: 1 });
  for (const name of ['edited', 'new_there'])
    expect(pruned.printed).toContain(`${name}: not deleted, somebody has made or changed it`);
  expect((await platform.client.get('/functions/new_there')).status).toBe(200);
  expect(await run(['pull', folder, '--force'])).toMatchObject({ code: 0 });
  expect(await run(['push', folder, '--prune'])).toEqual({
    code: 0,
    printed: 'Nothing has changed.',
  });
});

it('stores each change of a file while it watches, and prints what runs log', async () => {
  const folder = join(platform.dataDir, 'watched');
  await mkdir(folder);
  await writeFile(join(folder, 'hot.json'), '{"functionType":"request","inputs":{"method":"GET"}}');
  // What a visitor sent, and the function logged: no other line, no control of the terminal.
  const sent = "'\\u001b[2Jone\\nhot log: forged \\u202e'";
  const write = (text: string): Promise<void> => writeFile(join(folder, 'hot.js'), text);
  await write(`console.log(${sent}); return 1;`);
  const end = new AbortController();
  const printed: string[] = [];
  const watching = run(['push', folder, '--watch'], end.signal, printed);
  const call = () => platform.client.get('/functions/hot');
  await waitFor(async () => (await call()).body.result === 1);
  await waitFor(async () => {
    await write("console.log('two'); throw new Error('of two');");
    return (await call()).status === 500;
  });
  await waitFor(async () => {
    await call();
    return [
      'hot log: ?[2Jone\n    hot log: forged ?',
      'hot log: two',
      'hot error: of two (line 1, column 27)',
    ].every((line) => printed.includes(line));
  });
  end.abort();
  expect(await watching).toMatchObject({ code: 0 });
});

it('tells of runs and what they log while they go on, with secrets masked', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'talks', timeout: 60_000 },
    functionCode: `const key = await ctx.secrets.get('KEY');
      console.log('has ' + key);
      await new Promise((resolve) => setTimeout(resolve, req.params.ms ?? 30_000));
      console.warn('late');`,
  });
  await upload(platform.admin, { name: 'silent', functionCode: 'console.log("other")' });
  await platform.admin.put(`/functions/${_id}/secrets/KEY`, { value: 'sk_live_123' });
  const one = await follow(platform, '?function=talks');
  const all = await follow(platform);
  const long = platform.admin.post(`/functions/${_id}/invoke`, { params: { ms: 2_000 } });
  const { executionId } = await one.heard('begin');
  expect(await one.heard('log')).toMatchObject({
    ...{ executionId, functionName: 'talks', level: 'log', text: 'has ********' },
  });
  expect(one.lines.some(({ kind }) => kind === 'end')).toBe(false);
  await platform.client.get('/functions/silent');
  expect(await all.heard('log', 'silent')).toMatchObject({ text: 'other' });
  expect((await long).body.executionId).toBe(executionId);
  expect(await one.heard('end')).toMatchObject({ executionId, outcome: 'ok', error: null });
  expect(one.lines.map(({ kind, text }) => [kind, text])).toEqual([
    ...[['open'], ['begin'], ['log', 'has ********'], ['log', 'late'], ['end']].map(
      ([kind, text]) => [kind, text],
    ),
  ]);
  one.close();
  all.close();
  expect((await platform.admin.get('/functions/logs/stream?function=nothing')).status).toBe(404);
  expect((await platform.client.get('/functions/logs/stream')).status).toBe(404);
});

it('tells nothing any more of runs to whose token has been revoked', async () => {
  const { body } = await platform.admin.post('/api-tokens', { name: 'follower' });
  await upload(platform.admin, { name: 'later', functionCode: 'console.log("later")' });
  const all = await follow(platform);
  const one = await follow(platform, '', { credential: body.token });
  await platform.admin.delete(`/api-tokens/${body.id}`);
  await platform.client.get('/functions/later');
  await all.heard('end', 'later');
  await one.ended;
  expect(one.lines.map(({ kind }) => kind)).toEqual(['open']);
  all.close();
});
