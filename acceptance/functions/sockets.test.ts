/** Socket functions: namespaces, answers, rooms and what is refused (specification functions.md section 5.2). */
import { io, type Socket } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { refusedWith } from '../../test/support/realtime.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { askForCaptchas, closeClients, connect } from '../realtime/clients.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  ann = await platform.registerUser();
});
afterEach(closeClients);
afterAll(() => platform.close());

const nobody = { accessToken: '' };
const at = (namespace: string) => ({ namespace, auth: {} });
const store = (name: string, functionCode: string, given: object = {}) =>
  upload(platform.admin, {
    name,
    functionType: 'socket',
    functionCode,
    inputs: { event: 'ask' },
    ...given,
  });
const refused = async (namespace: string, auth: object = {}): Promise<Json> => {
  const socket: Socket = io(`${platform.addresses.realtime}${namespace}`, {
    path: '/realtime',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    auth,
  });
  const { data } = await refusedWith(socket);
  socket.disconnect();
  return data;
};

it.each(['/functions/echo', '/functions/echo/', '/echo'])(
  'answers visitors in the acknowledgement at %s',
  async (namespace) => {
    if (namespace === '/functions/echo')
      await store(
        'echo',
        'return { params: req.params, event: req.event, id: req.socketId, who: ctx.caller.kind }',
      );
    const { socket } = await connect(platform, nobody, at(namespace));
    expect(await socket.emitWithAck('ask', 1, 'two', { three: [3] })).toEqual({
      ok: true,
      result: { params: [1, 'two', { three: [3] }], event: 'ask', id: socket.id, who: 'anonymous' },
    });
  },
);

it('asks for a user where it says so, and knows who asks', async () => {
  await store('own', 'return { id: req.context.user._id, kind: ctx.caller.kind }', {
    inputs: { event: 'ask', auth: true },
    returns: { id: 'String' },
  });
  expect(await refused('/functions/own')).toMatchObject({ status: 401 });
  expect(await refused('/own', { token: 'wrong' })).toMatchObject({ status: 401 });
  const { socket } = await connect(platform, ann, { namespace: '/own' });
  expect(await socket.emitWithAck('ask')).toEqual({ ok: true, id: ann.userId });
});

it('asks visitors for a captcha where operators say so, and users for none', async () => {
  await store('guarded', 'return { who: ctx.caller.kind }');
  const { asked, end } = await askForCaptchas(platform);
  try {
    expect(await refused('/guarded')).toMatchObject({ code: 'SOCKET_CAPTCHA_REQUIRED' });
    expect(await refused('/guarded', { captchaToken: 'wrong' })).toMatchObject({
      code: 'SOCKET_CAPTCHA_FAILED',
    });
    const visitor = { namespace: '/guarded', auth: { captchaToken: 'solved' } };
    const { socket } = await connect(platform, nobody, visitor);
    expect(await socket.emitWithAck('ask')).toMatchObject({ result: { who: 'anonymous' } });
    const own = await connect(platform, ann, { namespace: '/guarded' });
    expect(await own.socket.emitWithAck('ask')).toMatchObject({ result: { who: 'user' } });
    expect(asked).toEqual(['wrong', 'solved']);
  } finally {
    await end();
  }
});

it('tells what went wrong, typed, and nothing of the inside', async () => {
  const { _id } = await store(
    'strict',
    `if (req.params[0].how === 'no') ctx.reject(409, 'Not now', 'VOTE_CLOSED');
     if (req.params[0].how === 'emit') return { event: 'disconnect', data: 1 };
     throw new Error('secret detail');`,
    { inputs: { event: 'ask', bodyParams: { how: { type: 'String', required: true } } } },
  );
  const { socket } = await connect(platform, nobody, at('/strict'));
  const errorOf = async (event: string, input: unknown): Promise<Json> =>
    ((await socket.emitWithAck(event, input)) as Json).error;
  expect(await errorOf('ask', { how: 'no' })).toMatchObject({
    status: 409,
    code: 'VOTE_CLOSED',
    message: 'Not now',
  });
  const failed = await errorOf('ask', { how: 'x' });
  expect(failed).toMatchObject({ status: 500, code: 'FUNCTION_FAILED' });
  expect(JSON.stringify(failed)).not.toContain('secret detail');
  expect(await errorOf('ask', { how: 'emit' })).toMatchObject({ status: 500 });
  expect((await errorOf('ask', { how: 1 })).errors[0].path).toContain('how');
  expect(await errorOf('other', {})).toMatchObject({ status: 404, code: 'EVENT_UNKNOWN' });
  await waitFor(async () => {
    const { body } = await platform.admin.get(`/functions/executions/${_id}?success=false`);
    const codes = (body as Json).functionExecutions.map(({ error }: Json) => error.code);
    return codes.length === 3 && codes.includes('INVALID_RETURN');
  });
});

it('sends events to the caller, to users and to rooms', async () => {
  await store('relay', 'return req.params[0]', { inputs: { event: 'ask', auth: true } });
  const bob = await platform.registerUser();
  const eve = await platform.registerUser();
  const [a, b, e] = [
    await connect(platform, ann, { namespace: '/relay' }),
    await connect(platform, bob, { namespace: '/functions/relay/' }),
    await connect(platform, eve, { namespace: '/relay' }),
  ];
  expect(await a.ask('ask', { event: 'mine', data: { n: 1 } })).toEqual({ ok: true });
  await b.ask('ask', { event: 'join-room', rooms: ['red'] });
  await a.ask('ask', { event: 'room', data: 2, rooms: ['red'] });
  await a.ask('ask', { event: 'direct', data: 3, receivers: [bob.userId] });
  await b.ask('ask', { event: 'leave-room', rooms: ['red'] });
  await a.ask('ask', { event: 'room', data: 4, rooms: ['red'] });
  await a.ask('ask', { event: 'last', receivers: [bob.userId, eve.userId] });
  await waitFor(() => [b, e].every(({ heard }) => heard.some(({ event }) => event === 'last')));
  const heardBy = ({ heard }: typeof a) => heard.map(({ event, data }) => [event, data]);
  expect(heardBy(a)).toEqual([['mine', { n: 1 }]]);
  expect(heardBy(b)).toEqual([
    ['room', 2],
    ['direct', 3],
    ['last', null],
  ]);
  expect(heardBy(e)).toEqual([['last', null]]);
});

it('lets a socket into as many rooms as operators say', async () => {
  const bound = async (roomsPerSocket: number) =>
    expectStatus(
      await platform.admin.patch('/config/router', { config: { realtime: { roomsPerSocket } } }),
      200,
      'bound',
    );
  await store('rooms', 'return { event: "join-room", rooms: req.params[0] }');
  await bound(2);
  const { ask } = await connect(platform, nobody, at('/rooms'));
  expect(await ask('ask', ['a', 'b', 'c'])).toMatchObject({ ok: false });
  expect(await ask('ask', ['a', 'b'])).toMatchObject({ ok: true });
  expect(await ask('ask', ['c'])).toMatchObject({ ok: false });
  await bound(1_000);
  expect(await ask('ask', ['c'])).toMatchObject({ ok: true });
});

it('takes changes in live, and closes what is deleted or switched off', async () => {
  const { _id } = await store('living', 'return 1');
  const first = await connect(platform, nobody, at('/living'));
  expect(await first.ask('ask', {})).toEqual({ ok: true, result: 1 });
  await platform.admin.patch(`/functions/${_id}`, { functionCode: 'return 2' });
  expect(await first.ask('ask', {})).toEqual({ ok: true, result: 2 });
  await platform.admin.patch(`/functions/${_id}`, { inputs: { event: 'question' } });
  await waitFor(() => first.socket.disconnected);
  const second = await connect(platform, nobody, at('/living'));
  expect(await second.ask('question', {})).toEqual({ ok: true, result: 2 });
  await platform.admin.delete(`/functions/${_id}`);
  await waitFor(() => second.socket.disconnected);
  expect(await refused('/living')).toMatchObject({ status: 404 });
  expect(await refused('/functions/living')).toMatchObject({ status: 404 });
});

it('is described in AsyncAPI, and leaves the namespaces of the platform alone', async () => {
  await store('chat', 'return 1');
  const { socket } = await connect(platform, nobody, at('/functions/chat'));
  expect(await socket.emitWithAck('ask')).toEqual({ ok: true, result: 1 });
  expect(await refused('/chat')).toMatchObject({ status: 401 });
  const { channels } = (await platform.client.get('/asyncapi.json')).body as Json;
  expect(channels['functions.chat']).toMatchObject({ address: '/functions/chat/' });
  expect(channels['functions.chat'].messages.take_ask).toBeDefined();
});

it.each([
  ['inputs.event', {}, null],
  ['inputs.event', { event: 'disconnect' }, null],
  ['inputs.urlParams', { event: 'ask', urlParams: { id: 'String' } }, null],
  ['returns.ok', { event: 'ask' }, { ok: 'Boolean' }],
] as const)('refuses a definition whose %s cannot be served', async (path, inputs, returns) => {
  const answer = await platform.admin.post('/functions/upload', {
    name: 'refused',
    functionType: 'socket',
    functionCode: 'return 1',
    inputs,
    returns,
  });
  expect(answer.status).toBe(400);
  expect((answer.body as Json).errors[0].path).toBe(path);
});
