/** Deliveries lead nowhere that operators did not open (OWASP API7, server-side request forgery), and say no secret. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createEndpoint, deliveriesIn, type Receiver, startReceiver } from './receiver.ts';

let platform: TestPlatform;
let receiver: Receiver;
beforeAll(async () => {
  platform = await createTestPlatform();
  receiver = await startReceiver();
  await liftLimits(platform.admin);
  await configure({ delivery: { pausesMs: [] } });
});
afterAll(async () => {
  await platform.close();
  await receiver.close();
});

const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'config');
const deadAfterTest = async (endpoint: { _id: string }) => {
  await platform.admin.post(`/webhooks/endpoints/${endpoint._id}/test`);
  const [dead] = await deliveriesIn(platform.admin, endpoint._id, { state: 'dead' });
  return dead?.tries[0];
};

it.each([
  'https://127.0.0.1/',
  'https://127.1/',
  'https://0x7f000001/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::]/',
  'https://169.254.169.254/latest/meta-data',
  'https://10.0.0.1/',
  'https://localhost/',
])('does not call %s', async (url) => {
  const attempt = await deadAfterTest(await createEndpoint(platform.admin, { url }));
  expect(attempt).toMatchObject({ outcome: 'failed' });
  expect(attempt.error).toContain('this address may not be called');
});

it('is open to private networks by configuration alone, and then not to metadata services', async () => {
  const plain = { name: 'plain', url: receiver.url, events: ['record.*'] };
  const refused = await platform.admin.post('/webhooks/endpoints', plain);
  expect(refused.body.code).toBe('WEBHOOK_INVALID');
  await configure({ allowInternal: true });
  const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
  await platform.admin.post(`/webhooks/endpoints/${endpoint._id}/test`);
  await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
  const metadata = await createEndpoint(platform.admin, { url: 'http://169.254.169.254/' });
  expect((await deadAfterTest(metadata)).error).toContain('this address may not be called');
  // What is stored from then is judged again when it is sent.
  await configure({ allowInternal: false });
  expect((await deadAfterTest(endpoint)).error).toContain('only https addresses');
});

it('follows no redirect, and reads no endless answer', async () => {
  await configure({ allowInternal: true });
  const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
  receiver.answer(() => ({ status: 302, headers: { location: receiver.url } }));
  const before = receiver.arrivals.length;
  expect(await deadAfterTest(endpoint)).toMatchObject({ status: 302, outcome: 'failed' });
  expect(receiver.arrivals).toHaveLength(before + 1);
  const large = await createEndpoint(platform.admin, { url: receiver.url });
  receiver.answer(() => ({ status: 200, body: 'x'.repeat(1_000_000) }));
  expect((await deadAfterTest(large)).error).toContain('the answer is too large');
  const long = await createEndpoint(platform.admin, { url: receiver.url });
  receiver.answer(() => ({ status: 500, body: `\0${'y'.repeat(50_000)}` }));
  expect((await deadAfterTest(long)).answer).toHaveLength(2_000);
});

it('addresses stand in audit rows and their exports without what is in their queries', async () => {
  await configure({ allowInternal: true });
  const url = `${receiver.url}?token=T0pSecretOfTheReceiver&team=5`;
  const endpoint = await createEndpoint(platform.admin, { url });
  const path = `/webhooks/endpoints/${endpoint._id}`;
  expectStatus(await platform.admin.patch(path, { url: `${url}&more=1` }), 200, 'changed');
  const refused = { name: 'refused', url: `ftp://a/?token=T0pSecretOfTheReceiver`, events: ['x'] };
  expect((await platform.admin.post('/webhooks/endpoints', refused)).status).toBe(400);
  const about = { query: { action: 'webhooks.', limit: 20 } };
  const { body } = expectStatus(await platform.admin.get('/audit-logs', about), 200, 'list');
  const exported = await platform.admin.get('/audit-logs/export', {
    query: { action: 'webhooks.' },
  });
  for (const text of [JSON.stringify(body), exported.text]) {
    expect(text).toContain('?token=[redacted]&team=[redacted]');
    expect(text).not.toContain('T0pSecret');
  }
  // Whoever manages them sees where they lead.
  expect((await platform.admin.get(path)).body.url).toBe(`${url}&more=1`);
});
