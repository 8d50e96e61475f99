/** What is measured of sockets, lists, rooms and calls, at the metrics route. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type Api, createApi } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect, create, createSchemas, listen } from './clients.ts';

let platform: TestPlatform;
let user: TestUser;
let metrics: Api;

beforeAll(async () => {
  const metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  metrics = createApi(`http://127.0.0.1:${metricsPort}`);
  await liftLimits(platform.admin);
  await createSchemas(platform);
  user = await platform.registerUser();
});
afterEach(closeClients);
afterAll(() => platform.close());

/** A sample of the metrics route; 0 where there is none yet. */
async function metric(name: string): Promise<number> {
  const { text } = await metrics.get('/metrics');
  const line = text.split('\n').find((one) => one.includes(name) && !one.startsWith('#'));
  return Number(line?.split(' ').at(-1) ?? 0);
}

it('measures connections, lists, rooms, lag, deliveries and slow readers', async () => {
  const list = await listen(platform, user, { schema: 'Post', query: { state: 'measured' } });
  await user.api.post('/chat/rooms', { roomName: 'measured', users: [user.userId] });
  await connect(platform, user, { namespace: '/chat/' });
  const [lags, deliveries] = [
    await metric('realtime_lag_seconds_count'),
    await metric('realtime_deliveries_total'),
  ];
  await create(user, 'Post', { title: 'm', state: 'measured' });
  await waitFor(() => list.told.length === 1);
  await waitFor(async () => (await metric('realtime_lag_seconds_count')) > lags);
  expect(await metric('realtime_deliveries_total')).toBeGreaterThan(deliveries);
  expect(await metric('realtime_sockets')).toBe(2);
  expect(await metric('realtime_live_listeners')).toBe(1);
  expect(await metric('chat_connected_sockets')).toBe(1);
  expect(await metric('chat_open_rooms')).toBe(1);
  expect(await metric('realtime_lag_seconds_sum')).toBeGreaterThan(0);
  expect(await metric('realtime_events_total{')).toBeGreaterThan(0);
});

it('measures what GraphQL asks for, input that does not fit, and what caches answer', async () => {
  const query = (text: string) => user.api.post('/graphql', { query: text });
  expect((await query('{ getDatabasePost { count } }')).status).toBe(200);
  expect((await query('{ getDatabasePostId(id: "none") { _id } }')).body.errors).toHaveLength(1);
  expect((await query('{ getDatabasePost(limit: -1) { count } }')).body.errors).toHaveLength(1);
  const refused = await platform.admin.get('/database/schemas?limit=many');
  expect(refused.status).toBe(400);
  expect(refused.headers.get('server-timing')).toMatch(
    /^total;dur=[0-9.]+, db;desc="\d+ statements"$/,
  );
  expect((await user.api.get('/ready')).headers.get('server-timing')).toBeNull();
  const tool = { name: 'get_database_schemas', arguments: { limit: 'many' } };
  const headers = { accept: 'application/json, text/event-stream' };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: tool };
  expect((await platform.admin.post('/mcp?modules=all', call, { headers })).text).toContain(
    'limit',
  );
  const { text } = await metrics.get('/metrics');
  const samples = text.split('\n').filter((line) => /_total\{|_count\{/.test(line));
  const of = (...parts: readonly string[]) =>
    samples.filter((line) => parts.every((part) => line.includes(part)));
  expect(of('graphql_operation_duration_seconds_count', 'outcome="ok"')).not.toEqual([]);
  expect(of('graphql_operation_duration_seconds_count', 'outcome="error"')).not.toEqual([]);
  expect(of('validation_failures_total', 'transport="admin"')).toHaveLength(1);
  expect(of('validation_failures_total', 'transport="graphql"')).toHaveLength(1);
  expect(of('validation_failures_total', 'transport="mcp"')).toHaveLength(1);
  expect(of('cache_reads_total', 'outcome="hit"')).not.toEqual([]);
  expect(of('cache_reads_total', 'outcome="miss"')).not.toEqual([]);
});
