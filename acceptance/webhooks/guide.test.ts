/** The receiver of docs/guides/webhooks.md, run as it stands there. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createEndpoint, deliveriesIn } from './receiver.ts';

let platform: TestPlatform;
let folder: string;
let receiver: ChildProcess | undefined;
beforeAll(async () => {
  platform = await createTestPlatform();
  folder = await temporaryFolder('receiver');
});
afterAll(async () => {
  receiver?.kill();
  await platform.close();
  await removeFolder(folder);
});

it('takes what is signed, once, and refuses the rest', async () => {
  const guide = await readFile(join(projectRoot, 'docs/guides/webhooks.md'), 'utf8');
  const [, code = ''] = /```js receiver\n(.*?)```/s.exec(guide) ?? [];
  const file = join(folder, 'receiver.mjs');
  await writeFile(file, code);
  const config = { allowInternal: true, delivery: { pausesMs: [] } };
  expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'config');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/hooks`;
  const endpoint = await createEndpoint(platform.admin, { url });
  const output: string[] = [];
  const environment = { PORT: String(port), WEBHOOK_SECRET: endpoint.secret };
  receiver = spawn(process.execPath, [file], { env: environment });
  receiver.stdout?.on('data', (chunk: Buffer) => output.push(chunk.toString('utf8')));
  await waitFor(() => output.join('').includes('listening'));

  await platform.admin.post(`/webhooks/endpoints/${endpoint._id}/test`);
  const [done] = await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
  await platform.admin.post(`/webhooks/deliveries/${done?._id}/replay`);
  await waitFor(
    async () =>
      (await platform.admin.get(`/webhooks/deliveries/${done?._id}`)).body.tries.length === 2,
  );
  expect(output.join('').match(/event webhooks\.test/g)).toHaveLength(1);

  const forged = await fetch(url, {
    method: 'POST',
    headers: {
      'webhook-id': 'x',
      'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      'webhook-signature': 'v1,AAAA',
    },
    body: '{"type":"forged"}',
  });
  expect(forged.status).toBe(401);
  const other = await createEndpoint(platform.admin, { url });
  await platform.admin.post(`/webhooks/endpoints/${other._id}/test`);
  const [dead] = await deliveriesIn(platform.admin, other._id, { state: 'dead' });
  expect(dead?.tries[0]).toMatchObject({ status: 401, answer: 'wrong signature' });
});
