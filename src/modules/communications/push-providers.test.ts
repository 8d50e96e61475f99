/** Push messages through providers, each against a server that speaks its wire form. */
import { createECDH, generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer, type Http2Server } from 'node:http2';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { importJWK, jwtVerify } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../../test/support/servers/fake-service.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

/** The reference implementation of encrypted content encoding, by an author of the RFC. */
const ece = createRequire(import.meta.url)('http_ece') as {
  decrypt(body: Buffer, parameters: object): Buffer;
};

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
});
afterEach(() => {
  fake.requests.length = 0;
  fake.answer = () => ({});
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const configure = async (pushNotifications: object): Promise<void> => {
  const answer = await platform.admin.patch('/config/communications', {
    config: { pushNotifications, providers: { allowInternal: true } },
  });
  expect(answer.status, answer.text).toBe(200);
};

/** A user with these devices. */
async function userWith(...devices: readonly object[]): Promise<string> {
  const { api, userId } = await platform.registerUser();
  for (const device of devices) expect((await api.post('/token', device)).status).toBe(200);
  return userId;
}

const android = (name: string) => ({
  token: `${name}-${randomBytes(4).toString('hex')}`,
  platform: 'ANDROID',
});

async function notify(userId: string, more: object = {}): Promise<string> {
  const answer = await platform.admin.post('/push/send', {
    userId,
    title: 'Hi',
    body: 'Ada',
    ...more,
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.messageId;
}
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;
const until = (id: string, status: string) =>
  waitFor(async () => ((await message(id)).status === status ? message(id) : undefined), {
    what: `status ${status}`,
  });
const kindsOf = ({ timeline }: { timeline: readonly { kind: string }[] }) =>
  timeline.map(({ kind }) => kind);
const tokensOf = async (userId: string): Promise<readonly string[]> =>
  (await platform.admin.get(`/push/tokens/user/${userId}`)).body.tokenDocuments.map(
    ({ token }: { token: string }) => token,
  );

describe('Firebase', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const use = () =>
    configure({
      providerName: 'firebase',
      firebase: {
        projectId: 'my-project',
        clientEmail: 'push@my-project.example',
        // As the console writes it into JSON.
        privateKey: privateKey
          .export({ format: 'pem', type: 'pkcs8' })
          .toString()
          .replaceAll('\n', '\\n'),
        endpoint: fake.url,
        tokenEndpoint: `${fake.url}/token`,
      },
    });
  const answering = (send: FakeService['answer']): void => {
    fake.answer = (request) =>
      request.path === '/token'
        ? { body: { access_token: 'access', expires_in: 3600 } }
        : send(request);
  };

  test('signs in with the service account once, and sends each device its message', async () => {
    await use();
    answering(() => ({ body: { name: 'projects/my-project/messages/1' } }));
    const devices = [android('a'), android('b')];
    const userId = await userWith(...devices);
    const sent = await until(
      await notify(userId, { data: { n: 7, ok: true }, badge: 3, collapseKey: 'chat', ttl: 60 }),
      'sent',
    );
    expect(sent).toMatchObject({ provider: 'firebase', attempts: 1 });
    expect(kindsOf(sent)).toEqual(['queued', 'accepted']);
    const [signIn, ...sends] = fake.requests;
    const { assertion = '', grant_type } = signIn?.form() ?? {};
    expect(grant_type).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const { payload } = await jwtVerify(assertion, publicKey, { audience: `${fake.url}/token` });
    expect(payload).toMatchObject({
      iss: 'push@my-project.example',
      scope: 'https://www.googleapis.com/auth/firebase.messaging',
    });
    expect(sends.map(({ path, headers }) => [path, headers.authorization])).toEqual(
      devices.map(() => ['/v1/projects/my-project/messages:send', 'Bearer access']),
    );
    expect(sends.map((one) => one.json().message.token).sort()).toEqual(
      devices.map(({ token }) => token).sort(),
    );
    expect(sends[0]?.json().message).toMatchObject({
      notification: { title: 'Hi', body: 'Ada' },
      data: { n: '7', ok: 'true' },
      android: { collapse_key: 'chat', ttl: '60s' },
      apns: { headers: { 'apns-collapse-id': 'chat' }, payload: { aps: { badge: 3 } } },
    });
    await until(await notify(userId), 'sent');
    expect(fake.requests.filter(({ path }) => path === '/token')).toHaveLength(1);
  });

  test('an access token that was revoked is renewed; a key that is refused is not tried again', async () => {
    await use();
    answering(() => ({ body: { name: 'x' } }));
    const userId = await userWith(android('a'));
    await until(await notify(userId), 'sent');
    fake.answer = ({ path, headers }) => {
      if (path === '/token') return { body: { access_token: 'renewed', expires_in: 3600 } };
      return headers.authorization === 'Bearer renewed'
        ? { body: { name: 'x' } }
        : { status: 401, body: { error: { status: 'UNAUTHENTICATED' } } };
    };
    expect(await until(await notify(userId), 'sent')).toMatchObject({ attempts: 2 });
    await configure({ firebase: { projectId: 'another-project' } });
    fake.requests.length = 0;
    fake.answer = () => ({ status: 400, body: { error: 'invalid_grant' } });
    const failed = await until(await notify(userId), 'failed');
    expect(failed).toMatchObject({ attempts: 1, provider: 'firebase' });
    expect(failed.timeline.at(-1).detail).toContain('invalid_grant');
    expect(fake.requests).toHaveLength(1);
  });

  test('a silent message shows nothing', async () => {
    await use();
    answering(() => ({ body: { name: 'x' } }));
    const userId = await userWith(android('silent'));
    await until(
      await notify(userId, {
        isSilent: true,
        title: undefined,
        body: undefined,
        data: { sync: '1' },
      }),
      'sent',
    );
    const { message: sent } = fake.requests.at(-1)?.json() ?? {};
    expect(sent).not.toHaveProperty('notification');
    expect(sent).toMatchObject({
      data: { sync: '1' },
      apns: { payload: { aps: { 'content-available': 1 } } },
    });
  });

  const refusal = (status: number, errorCode: string, more: object[] = []) => ({
    status,
    body: {
      error: { code: status, message: `said ${errorCode}`, details: [{ errorCode }, ...more] },
    },
  });

  test.each([
    ['UNREGISTERED', 404, []],
    ['SENDER_ID_MISMATCH', 403, []],
    ['INVALID_ARGUMENT', 400, [{ fieldViolations: [{ field: 'message.token' }] }]],
  ])('%s: the device is forgotten, the others get the message', async (code, status, more) => {
    await use();
    const [dead, alive] = [android('dead'), android('alive')];
    answering((request) =>
      request.json().message.token === dead.token
        ? refusal(status, code, more)
        : { body: { name: 'x' } },
    );
    const userId = await userWith(dead, alive);
    await until(await notify(userId), 'sent');
    expect(await tokensOf(userId)).toEqual([alive.token]);
  });

  test('an argument that is not the token leaves the device alone', async () => {
    await use();
    answering(() => refusal(400, 'INVALID_ARGUMENT'));
    const device = android('kept');
    const userId = await userWith(device);
    const failed = await until(await notify(userId), 'failed');
    expect(failed.error).toContain('said INVALID_ARGUMENT');
    expect(await tokensOf(userId)).toEqual([device.token]);
  });

  test('what is busy is asked again, and only for the devices that wait', async () => {
    await use();
    const [ready, busy] = [android('ready'), android('busy')];
    let attempts = 0;
    answering((request) => {
      if (request.json().message.token === ready.token) return { body: { name: 'x' } };
      attempts += 1;
      return attempts > 1
        ? { body: { name: 'y' } }
        : { ...refusal(503, 'UNAVAILABLE'), headers: { 'retry-after': '1' } };
    });
    const userId = await userWith(ready, busy);
    const sent = await until(await notify(userId), 'sent');
    expect(kindsOf(sent)).toEqual(['queued', 'tried', 'accepted']);
    expect(sent.timeline[1].detail).toContain('UNAVAILABLE');
    const tokens = fake.requests
      .filter(({ path }) => path.startsWith('/v1'))
      .map((one) => one.json().message.token);
    expect(tokens.filter((token) => token === ready.token)).toHaveLength(1);
    expect(attempts).toBe(2);
  });

  test('a broken answer and a cut connection are no success', async () => {
    await use();
    await platform.admin.patch('/config/communications', {
      config: { orchestration: { retryAttempts: 0 } },
    });
    try {
      answering(() => ({ status: 500, body: '<html>oops' }));
      const userId = await userWith(android('x'));
      expect((await until(await notify(userId), 'failed')).error).toContain('500');
      answering(() => ({ cut: true }));
      expect((await until(await notify(userId), 'failed')).error).toContain('no connection');
    } finally {
      await platform.admin.patch('/config/communications', {
        config: { orchestration: { retryAttempts: 15 } },
      });
    }
  });
});

describe('APNs', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  let server: Http2Server;
  const streams: { readonly headers: Record<string, unknown>; readonly body: string }[] = [];
  let answer: (path: string) => { readonly status: number; readonly body?: object } = () => ({
    status: 200,
  });
  beforeAll(async () => {
    server = createServer();
    server.on('stream', (stream, headers) => {
      let body = '';
      stream.setEncoding('utf8');
      stream.on('data', (chunk: string) => {
        body += chunk;
      });
      stream.on('end', () => {
        streams.push({ headers, body });
        const { status, body: answered } = answer(String(headers[':path']));
        stream.respond({ ':status': status });
        stream.end(answered === undefined ? '' : JSON.stringify(answered));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    await configure({ apns: { keyId: '' } });
    server.close();
  });
  const use = () =>
    configure({
      providerName: 'basic',
      apns: {
        keyId: 'KEY1',
        teamId: 'TEAM1',
        bundleId: 'org.example.app',
        privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }),
        endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      },
    });
  const phone = (name: string) => ({
    token: `${name}${randomBytes(8).toString('hex')}`,
    platform: 'IOS',
  });

  test('a message has the headers and the payload that Apple wants', async () => {
    await use();
    const device = phone('a');
    const id = await notify(await userWith(device), {
      data: { room: '7' },
      badge: 2,
      collapseKey: 'room-7',
    });
    await until(id, 'sent');
    const { headers, body } = streams.at(-1)!;
    expect(headers).toMatchObject({
      ':path': `/3/device/${device.token}`,
      'apns-topic': 'org.example.app',
      'apns-push-type': 'alert',
      'apns-priority': '10',
      'apns-collapse-id': 'room-7',
      'apns-id': id,
    });
    const token = String(headers.authorization).replace('bearer ', '');
    const { payload, protectedHeader } = await jwtVerify(token, publicKey);
    expect([payload.iss, protectedHeader]).toEqual(['TEAM1', { alg: 'ES256', kid: 'KEY1' }]);
    expect(JSON.parse(body)).toEqual({
      room: '7',
      aps: { alert: { title: 'Hi', body: 'Ada' }, sound: 'default', badge: 2 },
    });
  });

  test.each([
    [400, { reason: 'BadDeviceToken' }, true],
    [410, { reason: 'Unregistered', timestamp: Date.now() + 60_000 }, true],
    // The app was installed again since then.
    [410, { reason: 'Unregistered', timestamp: 1 }, false],
    [413, { reason: 'PayloadTooLarge' }, false],
  ])('%i %j: forgotten: %s', async (status, body, forgotten) => {
    await use();
    answer = () => ({ status, body });
    const device = phone('b');
    const userId = await userWith(device);
    expect((await until(await notify(userId), 'failed')).error).toContain(body.reason);
    expect(await tokensOf(userId)).toEqual(forgotten ? [] : [device.token]);
    answer = () => ({ status: 200 });
  });

  test('an expired token of ours is signed anew once', async () => {
    await use();
    let asked = 0;
    answer = () => {
      asked += 1;
      return asked === 1
        ? { status: 403, body: { reason: 'ExpiredProviderToken' } }
        : { status: 200 };
    };
    const sent = await until(await notify(await userWith(phone('c'))), 'sent');
    expect([sent.attempts, asked]).toEqual([1, 2]);
    answer = () => ({ status: 200 });
  });
});

describe('Web Push', () => {
  const vapid = createECDH('prime256v1');
  const publicKey = vapid.generateKeys('base64url');
  const use = () =>
    configure({
      providerName: 'basic',
      webpush: {
        publicKey,
        privateKey: vapid.getPrivateKey('base64url'),
        subject: 'mailto:ops@example.com',
        allowInternal: true,
      },
    });
  afterAll(() => configure({ webpush: { publicKey: '', privateKey: '' } }));

  function browser() {
    const keys = createECDH('prime256v1');
    const p256dh = keys.generateKeys('base64url');
    const auth = randomBytes(16);
    const endpoint = `${fake.url}/push/${randomBytes(8).toString('hex')}`;
    return {
      keys,
      auth,
      endpoint,
      device: {
        platform: 'WEB',
        subscription: { endpoint, keys: { p256dh, auth: auth.toString('base64url') } },
      },
    };
  }

  test('what the push service gets, another implementation decrypts; VAPID says who we are', async () => {
    await use();
    fake.answer = () => ({ status: 201 });
    const { keys, auth, endpoint, device } = browser();
    const id = await notify(await userWith(device), {
      data: { url: '/x' },
      collapseKey: 'k',
      ttl: 30,
    });
    await until(id, 'sent');
    const [request] = fake.requests;
    expect(request).toMatchObject({
      method: 'POST',
      path: new URL(endpoint).pathname,
      headers: { ttl: '30', urgency: 'normal', 'content-encoding': 'aes128gcm', topic: 'aw' },
    });
    const plain = ece.decrypt(request!.bytes, {
      version: 'aes128gcm',
      privateKey: keys,
      authSecret: auth.toString('base64url'),
    });
    expect(JSON.parse(plain.toString())).toMatchObject({
      title: 'Hi',
      body: 'Ada',
      data: { url: '/x' },
      messageId: id,
    });
    const [, token = '', key = ''] =
      /^vapid t=(\S+), k=(\S+)$/.exec(request?.headers.authorization ?? '') ?? [];
    const point = Buffer.from(key, 'base64url');
    const verifier = await importJWK({
      alg: 'ES256',
      kty: 'EC',
      crv: 'P-256',
      x: point.subarray(1, 33).toString('base64url'),
      y: point.subarray(33).toString('base64url'),
    });
    const { payload } = await jwtVerify(token, verifier, {
      audience: fake.url,
      algorithms: ['ES256'],
    });
    expect(payload.sub).toBe('mailto:ops@example.com');
    expect(Number(payload.exp) - Date.now() / 1000).toBeLessThan(24 * 60 * 60);
    expect(key).toBe(publicKey);
  });

  test('two messages never share a key or a salt', async () => {
    await use();
    fake.answer = () => ({ status: 201 });
    const userId = await userWith(browser().device);
    await until(await notify(userId), 'sent');
    await until(await notify(userId), 'sent');
    const [one, two] = fake.requests.map(({ bytes }) => bytes.subarray(0, 86).toString('hex'));
    expect(one).not.toBe(two);
  });

  test.each([404, 410])('%i: the subscription is gone', async (status) => {
    await use();
    fake.answer = () => ({ status });
    const userId = await userWith(browser().device);
    await until(await notify(userId), 'failed');
    expect(await tokensOf(userId)).toEqual([]);
  });

  test('a subscription as JSON text in `token` works too', async () => {
    await use();
    fake.answer = () => ({ status: 201 });
    const { subscription, platform: name } = browser().device;
    await until(
      await notify(await userWith({ platform: name, token: JSON.stringify(subscription) })),
      'sent',
    );
    expect(fake.requests).toHaveLength(1);
  });

  test('subscriptions never lead into our own network (CWE-918, https://cwe.mitre.org/data/definitions/918.html)', async () => {
    await use();
    await configure({ webpush: { allowInternal: false } });
    await platform.admin.patch('/config/communications', {
      config: { orchestration: { retryAttempts: 0 } },
    });
    const failed = await until(await notify(await userWith(browser().device)), 'failed');
    expect(failed.error).toMatch(/may (?:not )?be called/);
    expect(fake.requests).toEqual([]);
    await platform.admin.patch('/config/communications', {
      config: { orchestration: { retryAttempts: 15 } },
    });
  });
});

describe('OneSignal', () => {
  const use = () =>
    configure({
      providerName: 'onesignal',
      onesignal: { appId: 'app', apiKey: 'key', endpoint: fake.url },
    });

  test('all devices in one request, under a key against doubles', async () => {
    await use();
    fake.answer = () => ({ body: { id: 'one-signal-id', errors: {} } });
    const devices = [android('a'), android('b')];
    const id = await notify(await userWith(...devices));
    await until(id, 'sent');
    expect(fake.requests).toHaveLength(1);
    expect(fake.requests[0]).toMatchObject({
      path: '/notifications?c=push',
      headers: { authorization: 'Key key' },
    });
    const body = fake.requests[0]?.json();
    expect(body).toMatchObject({
      app_id: 'app',
      headings: { en: 'Hi' },
      contents: { en: 'Ada' },
      idempotency_key: id,
    });
    expect(body.include_subscription_ids.sort()).toEqual(devices.map(({ token }) => token).sort());
  });

  test('an empty id is no success although the status is 200; dead devices are forgotten', async () => {
    await use();
    const [dead, alive] = [android('dead'), android('alive')];
    const userId = await userWith(dead, alive);
    fake.answer = () => ({ body: { id: '', errors: ['All included players are not subscribed'] } });
    expect((await until(await notify(userId), 'failed')).error).toContain('not subscribed');
    fake.answer = () => ({ body: { id: 'x', errors: { invalid_player_ids: [dead.token] } } });
    const { body } = await platform.admin.post('/push/send', { userId, title: 'Hi' });
    expect(body).toMatchObject({ result: 'Ok', devices: 2, delivered: 1 });
    await until(body.messageId, 'sent');
    expect(await tokensOf(userId)).toEqual([alive.token]);
  });
});

describe('Amazon SNS', () => {
  const use = () =>
    configure({
      providerName: 'sns',
      sns: {
        region: 'eu-central-1',
        accessKeyId: 'AKID',
        secretAccessKey: 'secret',
        gcmApplicationArn: 'arn:aws:sns:eu-central-1:1:app/GCM/x',
        endpoint: fake.url,
      },
    });
  const arn = 'arn:aws:sns:eu-central-1:1:endpoint/GCM/x/1';
  const failure = (code: string, text: string) => ({
    status: 400,
    body: `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${text}</Message></Error></ErrorResponse>`,
  });

  test('an endpoint is made once, and messages are published to it', async () => {
    await use();
    fake.answer = (request) => ({
      body:
        request.form().Action === 'Publish'
          ? '<PublishResponse><PublishResult><MessageId>m-1</MessageId></PublishResult></PublishResponse>'
          : `<R><EndpointArn>${arn}</EndpointArn></R>`,
    });
    const userId = await userWith(android('a'));
    await until(await notify(userId), 'sent');
    await until(await notify(userId), 'sent');
    expect(fake.requests.map((one) => one.form().Action)).toEqual([
      'CreatePlatformEndpoint',
      'Publish',
      'Publish',
    ]);
    const published = fake.requests[1]?.form() ?? {};
    expect(published).toMatchObject({ TargetArn: arn, MessageStructure: 'json' });
    expect(JSON.parse(JSON.parse(published.Message ?? '').GCM).notification).toEqual({
      title: 'Hi',
      body: 'Ada',
    });
    expect(fake.requests[0]?.headers.authorization).toMatch(
      /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-central-1\/sns\/aws4_request, /,
    );
  });

  test('an endpoint that exists is enabled again; a disabled one is forgotten', async () => {
    await use();
    fake.answer = (request) => {
      const { Action } = request.form();
      if (Action === 'CreatePlatformEndpoint')
        return failure(
          'InvalidParameter',
          `Endpoint ${arn} already exists with the same Token, but different attributes.`,
        );
      return Action === 'Publish'
        ? failure('EndpointDisabled', 'Endpoint is disabled')
        : { body: '<R/>' };
    };
    const userId = await userWith(android('b'));
    await until(await notify(userId), 'failed');
    expect(fake.requests[1]?.form()).toMatchObject({
      Action: 'SetEndpointAttributes',
      EndpointArn: arn,
    });
    expect(await tokensOf(userId)).toEqual([]);
  });
});

test('outside of the wall messages are captured', async () => {
  await configure({
    providerName: 'onesignal',
    onesignal: { appId: 'app', apiKey: 'key', endpoint: fake.url },
  });
  const [inside, outside] = [await userWith(android('in')), await userWith(android('out'))];
  fake.answer = () => ({ body: { id: 'x' } });
  await platform.admin.patch('/config/communications', {
    config: { messages: { allowOnly: [inside] } },
  });
  await until(await notify(outside), 'captured');
  await until(await notify(inside), 'sent');
  expect(fake.requests).toHaveLength(1);
});
