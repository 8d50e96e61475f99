/** The functions of docs/guides/function-triggers.md, uploaded as they stand there. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
const open = { enabled: true, authenticated: false };
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const conduitOptions = {
    cms: { enabled: true, crudOperations: { create: open, read: open, update: open } },
  };
  const fields = { total: 'Number', note: 'String', text: 'String' } as const;
  for (const name of ['Order', 'Note'])
    await platform.createSchema({ name, fields, conduitOptions });
});
afterAll(() => platform.close());

const notes = async (): Promise<string[]> => {
  const { body } = await platform.client.get('/database/Note', { query: { limit: 200 } });
  return body.documents.map(({ text }: { text: string }) => text);
};
const note = (isIt: (text: string) => boolean) =>
  waitFor(async () => (await notes()).some(isIt), { what: 'the note' });

it('run as the guide says', async () => {
  const guide = await readFile(join(projectRoot, 'docs/guides/function-triggers.md'), 'utf8');
  const ids = new Map<string, string>();
  for (const [, kind = '', text = ''] of guide.matchAll(/```json (\w+)\n(.*?)```/gs)) {
    const answer = await platform.admin.post('/functions/upload', JSON.parse(text));
    ids.set(kind, expectStatus(answer, 200, kind).body._id);
  }
  expect([...ids.keys()]).toEqual(['event', 'cron', 'hook', 'account', 'workflow']);
  const stranger = { email: 'someone@elsewhere.example', password: 'a long enough passphrase 7' };
  expect(await platform.client.post('/authentication/local/new', stranger)).toMatchObject({
    status: 403,
    body: { message: 'Ask us for an account' },
  });
  const { body: order } = await platform.client.post('/database/Order', { total: 12 });
  expect(order.note).toBe('checked');
  expect((await platform.client.post('/database/Order', { total: -1 })).body.message).toBe(
    'A total is not negative',
  );
  await note((text) => text === 'order of 12');
  await note((text) => text.startsWith('tick '));
  const { body: times } = await platform.admin.get(`/functions/${ids.get('cron')}/schedule`);
  expect(times.next).toHaveLength(5);
  const start = { input: { name: 'Ada', order: order._id }, key: 'ada' };
  const { body } = await platform.admin.post(`/functions/${ids.get('workflow')}/start`, start);
  await note((text) => text === 'hello Ada');
  const path = `/functions/queue/${body.run._id}`;
  const done = await waitFor(
    async () => {
      await platform.client.patch(`/database/Order/${order._id}`, { total: 13 });
      const run = (await platform.admin.get(path)).body;
      return run.state === 'done' ? run : undefined;
    },
    // Each change is an event of its own, and a busy machine works through them one after the other.
    { timeoutMs: 40_000, everyMs: 500, what: 'the end of the workflow' },
  );
  expect(done.tries[0].result).toBe(true);
  await note((text) => text === 'paid by Ada');
});
