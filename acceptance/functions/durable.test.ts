/** What must not be lost or done twice, and what must not go on for ever (issue: durable; loops between hooks). */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestConnection } from '../../test/support/connection.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(() => platform.close());

/** Signed as Standard Webhooks does, with the key `key`. */
function send(path: string, id: string, body: string): Promise<Response> {
  const time = String(Math.floor(Date.now() / 1_000));
  const digest = createHmac('sha256', 'key').update(`${id}.${time}.${body}`).digest('base64');
  const signed = { 'webhook-id': id, 'webhook-timestamp': time };
  return fetch(new URL(path, platform.addresses.client), {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      ...signed,
      'webhook-signature': `v1,${digest}`,
    },
  });
}

it('notes that a message was taken with the run that it causes, both or neither', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'stored', functionType: 'webhook', functionCode: 'return null' },
    inputs: {
      ...{ method: 'POST', async: true },
      signature: { scheme: 'standard-webhooks', secret: 'SIGNING' },
    },
  });
  await platform.admin.put(`/functions/${_id}/secrets/SIGNING`, { value: 'key' });
  const database = await openTestConnection(platform.databaseUrl ?? '');
  try {
    await database.query(`create table public.written (what text, by xid8)`);
    await database.query(
      `create function public.note_written() returns trigger language plpgsql as
        $$ begin insert into public.written values (tg_table_name, pg_current_xact_id()); return null; end $$`,
    );
    for (const table of ['function_receipts', 'queue_items'])
      await database.query(
        `create trigger note_written after insert on penstock.${table} for each row execute function public.note_written()`,
      );
    expect((await send('/hook/stored', 'm1', '{}')).status).toBe(202);
    expect((await send('/hook/stored', 'm1', '{}')).status).toBe(409);
    const rows = await database.query(
      `select array_agg(what order by what) as what from public.written group by by`,
    );
    expect(rows).toEqual([{ what: ['function_receipts', 'queue_items'] }]);
  } finally {
    await database.close();
  }
  const all = await Promise.all(
    Array.from({ length: 50 }, async () => (await send('/hook/stored', 'm2', '{}')).status),
  );
  expect(all.toSorted((one, other) => one - other)).toEqual([202, ...Array(49).fill(409)]);
});

const after = (name: string, event: string, code: string) =>
  upload(platform.admin, {
    ...{ name, functionType: 'event', inputs: { event, rights: 'system', attempts: 1 } },
    functionCode: code,
  });

const deadOf = (id: string) =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get(`/functions/${id}/queue?state=dead`);
      return body.runs[0];
    },
    { what: 'the end of what causes itself' },
  );

const messagesTo = async (recipient: string): Promise<number> =>
  (await platform.admin.get('/communications/messages', { query: { recipient, limit: 200 } })).body
    .count;

it('a function that is told of a message and sends the next one ends, with the names in its place', async () => {
  const again = await after(
    'again',
    'communications:captured:email',
    `await ctx.system.messages.email({ email: 'loop@example.com', subject: 'again', body: 'again' });`,
  );
  const first = { email: 'loop@example.com', subject: 'first', body: 'first' };
  expect(await platform.admin.post('/email/send', first)).toMatchObject({ status: 200 });
  const { tries } = await deadOf(again._id);
  expect(tries.at(-1).error).toContain('again > again > again');
  expect(await messagesTo('loop@example.com')).toBe(6);
  await platform.admin.delete(`/functions/${again._id}`);
});

it('a hook before messages that sends one itself is refused in the end', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'echo', functionType: 'hook' },
    inputs: { rights: 'system', trigger: { op: 'send', when: 'before' } },
    functionCode: `await ctx.system.messages.email({ email: 'echo@example.com', subject: 'echo', body: 'echo' });`,
  });
  const first = { email: 'echo@example.com', subject: 'first', body: 'first' };
  expect(await platform.admin.post('/email/send', first)).toMatchObject({ status: 200 });
  const refused = await waitFor(async () => {
    const query = { recipient: 'echo@example.com', status: 'failed' };
    const { body } = await platform.admin.get('/communications/messages', { query });
    return body.messages[0];
  });
  expect(refused.error).toContain('echo > echo > echo');
  expect(await messagesTo('echo@example.com')).toBe(6);
  await platform.admin.delete(`/functions/${_id}`);
});
