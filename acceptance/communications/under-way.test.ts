/** What is under way while something changes: messages to many, chains and digests that are stopped, kept, or grow too long. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { openBench, type WeakSpotBench } from '../weak-spots/bench.ts';

let bench: WeakSpotBench;
let provider: Server;
/** Requests that the provider of text messages has not answered. */
const held: ServerResponse[] = [];
/** What they say. */
const texts: string[] = [];

beforeAll(async () => {
  bench = await openBench();
  provider = createServer(async (request, response) => {
    texts.push(new URLSearchParams(await text(request)).get('Body') ?? '');
    held.push(response);
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  const { port } = provider.address() as AddressInfo;
  const twilio = { phoneNumber: '+15550100000', accountSID: 'AC1', authToken: 'token' };
  await configure({
    sms: {
      active: true,
      providerName: 'twilio',
      twilio: { ...twilio, endpoint: `http://127.0.0.1:${port}` },
      maxPerRecipient: 1000,
    },
    providers: { allowInternal: true },
  });
});
beforeEach(() => void held.splice(0));
afterAll(async () => {
  provider.closeAllConnections();
  await new Promise((resolve) => provider.close(resolve));
  await bench.close();
});

const post = (path: string, body: object = {}) => bench.platform.admin.post(path, body);
const get = (path: string) => bench.platform.admin.get(path);
const configure = async (config: object) => {
  const answer = await bench.platform.admin.patch('/config/communications', { config });
  expect(answer.status, answer.text).toBe(200);
};
const asked = (count: number) =>
  waitFor(async () => held.length >= count || undefined, { what: 'the provider to be asked' });
const answerAll = (status: number, body: object) => {
  for (const response of held.splice(0))
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
const messagesOf = (broadcastId: string) =>
  bench.rows('select id, status, recipient from penstock.messages where broadcast_id = $1', [
    broadcastId,
  ]);
const statusOf = async (id: string) =>
  (await get(`/communications/messages/${id}`)).body.status as string;
const sms = async (more: object) => {
  const answer = await post('/communications/broadcasts', { channel: 'sms', body: 'b', ...more });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.broadcastId as string;
};

test('what is at the provider while its broadcast is stopped is not tried again', async () => {
  const id = await sms({ to: { addresses: ['+306900000001', '+306900000002'] } });
  await asked(2);
  expect((await post(`/communications/broadcasts/${id}/stop`)).status).toBe(200);
  answerAll(503, { message: 'away' });
  await waitFor(
    async () => (await messagesOf(id)).every(({ status }) => status === 'cancelled') || undefined,
  );
  expect((await get(`/communications/broadcasts/${id}`)).body).toMatchObject({
    status: 'stopped',
    queued: 2,
    cancelled: 2,
  });
  expect(held).toEqual([]);
});

test('what failed before its broadcast was stopped goes out when an operator sends it again', async () => {
  const id = await sms({ to: { addresses: ['+306900000003'] } });
  await asked(1);
  answerAll(400, { code: 21617, message: 'too long' });
  const [message] = await messagesOf(id);
  await waitFor(async () => (await statusOf(message?.id)) === 'failed' || undefined);
  await post(`/communications/broadcasts/${id}/stop`);
  expect((await post(`/communications/messages/${message?.id}/retry`)).status).toBe(200);
  await asked(1);
  answerAll(201, { sid: 'SM1', status: 'queued' });
  await waitFor(async () => (await statusOf(message?.id)) === 'sent' || undefined);
});

test('what is at the provider while its chain is cancelled is not tried again', async () => {
  const begun = await post('/send/fallback', {
    recipient: '+306900000004',
    body: 'b',
    fallbackChain: [{ channel: 'sms', until: 'delivered', timeout: 600_000 }],
  });
  expect(begun.status, begun.text).toBe(200);
  await asked(1);
  const { chainId } = begun.body;
  expect((await post(`/communications/chains/${chainId}/cancel`)).status).toBe(200);
  answerAll(503, { message: 'away' });
  const [{ id }] = await bench.rows('select id from penstock.messages where chain_id = $1', [
    chainId,
  ]);
  await waitFor(async () => (await statusOf(id)) === 'cancelled' || undefined);
  expect(held).toEqual([]);
});

const add = (more: object) =>
  post('/communications/send', {
    ...{ channel: 'sms', recipient: '+306900000005', body: 'b' },
    ...more,
  });

test('what cannot be written is refused when it is added to a digest, and not lost with it', async () => {
  const digest = { key: 'refused', windowSeconds: 3600 };
  const refused = (path: string) => ({ status: 400, body: { errors: [{ path }] } });
  expect(await add({ digest, templateName: 'None' })).toMatchObject({ status: 404 });
  expect(await add({ digest, recipient: 'ada@example.org' })).toMatchObject(
    refused('recipient.phone'),
  );
  expect(await add({ digest, body: undefined })).toMatchObject(refused('body'));
  expect(await add({ digest, body: 'x'.repeat(1601) })).toMatchObject(refused('body'));
  expect(await bench.rows('select from penstock.message_digests')).toEqual([]);
});

test('a digest of more than one message can say says what fits, and how many there were', async () => {
  const recipient = '+306900000006';
  const body = '{{count}} new: {{#each items}}{{text}};{{/each}}';
  const digest = { key: 'long', windowSeconds: 3600 };
  const added = await Promise.all(
    Array.from({ length: 25 }, () =>
      add({ recipient, body, digest, variables: { text: 'x'.repeat(91) } }),
    ),
  );
  expect(added.map(({ status }) => status)).toEqual(added.map(() => 200));
  await bench.rows(
    `update penstock_jobs.job set start_after = now() where name = 'communications.digest' and state = 'created'`,
  );
  await asked(1);
  const said = texts.at(-1) ?? '';
  expect(said).toMatch(/^25 new: x/);
  expect(said.length).toBeLessThanOrEqual(1600);
  // Half of them, and more than a quarter.
  expect(said.split(';').length).toBeGreaterThan(6);
  answerAll(201, { sid: 'SM1', status: 'queued' });
});

test('who is deleted while they are written to is written to before, and all of it goes, or not at all', async () => {
  const [first, second] = [
    await bench.platform.registerUser(),
    await bench.platform.registerUser(),
  ];
  const waits = (text: string) =>
    waitFor(
      async () => {
        await bench.rows('select pg_stat_clear_snapshot()');
        const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like $1`;
        return (await bench.rows(waiting, [text])).length > 0 || undefined;
      },
      { what: `a statement like ${text} to wait` },
    );
  // Somebody writes, and the account goes meanwhile.
  await bench.rows('begin');
  await bench.rows('select from "app"."User" where "_id" = $1 for key share', [first.userId]);
  await bench.rows(
    `insert into penstock.messages (id, channel, recipient, user_id, status) values (gen_random_uuid(), 'push', 'x', $1, 'captured')`,
    [first.userId],
  );
  const gone = bench.platform.admin.delete(`/authentication/users/${first.userId}`);
  await waits('%"app"."User"%for update%');
  await bench.rows('commit');
  expect((await gone).status).toBe(200);
  expect(
    await bench.rows('select from penstock.messages where user_id = $1', [first.userId]),
  ).toEqual([]);
  // The account goes, and somebody wants to write meanwhile.
  await bench.rows('begin');
  await bench.rows('delete from "app"."User" where "_id" = $1', [second.userId]);
  const { body } = await post('/communications/broadcasts', {
    ...{ channel: 'push', subject: 's', body: 'b', to: { userIds: [second.userId] } },
  });
  await waits('%"app"."User"%for key share%');
  await bench.rows('commit');
  const state = async () => (await get(`/communications/broadcasts/${body.broadcastId}`)).body;
  await waitFor(async () => (await state()).status === 'done' || undefined);
  expect(await state()).toMatchObject({ recipients: 1, queued: 0, skipped: 1 });
  expect(
    await bench.rows('select from penstock.notifications where user_id = $1', [second.userId]),
  ).toEqual([]);
});

test('a broadcast to devices comes into the inbox at its time, and not at all when it is stopped before', async () => {
  const { userId, api } = await bench.platform.registerUser();
  const begin = async (subject: string, seconds: number) => {
    const sendAt = new Date(Date.now() + seconds * 1000).toISOString();
    const answer = await post('/communications/broadcasts', {
      ...{ channel: 'push', subject, body: 'b', sendAt, to: { userIds: [userId] } },
    });
    expect(answer.status, answer.text).toBe(200);
    return answer.body.broadcastId as string;
  };
  const [soon, later] = [await begin('soon', 1), await begin('later', 3600)];
  const [job] = await bench.rows(
    `select start_after > now() + interval '50 minutes' as waits from penstock_jobs.job
     where name = 'communications.broadcast' and data ->> 'id' = $1`,
    [later],
  );
  expect(job).toEqual({ waits: true });
  const state = async (id: string) => (await get(`/communications/broadcasts/${id}`)).body;
  await waitFor(async () => (await state(soon)).status === 'done' || undefined);
  expect(await state(later)).toMatchObject({ status: 'running', recipients: 1, queued: 0 });
  await post(`/communications/broadcasts/${later}/stop`);
  expect(await state(later)).toMatchObject({ status: 'stopped' });
  expect((await api.get('/notifications')).body).toMatchObject({
    count: 1,
    notifications: [{ title: 'soon' }],
  });
});
