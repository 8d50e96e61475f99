/** A push message as a user of a browser sees it: a service worker in Chromium shows what the push service was given, once it is decrypted. */
import { createECDH, generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  describeWithChromium,
  startChromium,
  type TestBrowser,
} from '../../test/support/chromium.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const ece = createRequire(import.meta.url)('http_ece') as {
  decrypt(body: Buffer, parameters: object): Buffer;
};

/** What an app would have as its service worker. */
const worker = `
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('push', (event) => {
  const { title, body, data, messageId } = event.data.json();
  event.waitUntil(self.registration.showNotification(title, { body, data, tag: messageId }));
});
`;
const page = '<!doctype html><title>app</title><p>app</p>';

await describeWithChromium('web push', () => {
  let platform: TestPlatform;
  let pushService: FakeService;
  let app: Server;
  let browser: TestBrowser;
  beforeAll(async () => {
    platform = await createTestPlatform();
    pushService = await startFakeService(() => ({ status: 201 }));
    app = createServer((request, response) => {
      const script = request.url === '/worker.js';
      response.writeHead(200, { 'content-type': script ? 'text/javascript' : 'text/html' });
      response.end(script ? worker : page);
    });
    await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
    browser = await startChromium();
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await platform.close();
    await pushService.close();
    await new Promise((resolve) => app.close(resolve));
  });

  test('a message reaches the service worker as it was written, and is shown', {
    timeout: 120_000,
  }, async () => {
    const vapid = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
      format: 'jwk',
    });
    const publicKey = Buffer.concat([
      Buffer.from([4]),
      Buffer.from(vapid.x ?? '', 'base64url'),
      Buffer.from(vapid.y ?? '', 'base64url'),
    ]).toString('base64url');
    const webpush = {
      publicKey,
      privateKey: vapid.d,
      subject: 'mailto:ops@example.com',
      allowInternal: true,
    };
    const config = { pushNotifications: { webpush } };
    expect((await platform.admin.patch('/config/communications', { config })).status).toBe(200);

    // The subscription of the browser: its keys, and where its push service is.
    const keys = createECDH('prime256v1');
    keys.generateKeys();
    const auth = randomBytes(16);
    const user = await platform.registerUser();
    const registered = await user.api.post('/token', {
      platform: 'web',
      subscription: {
        endpoint: `${pushService.url}/subscription`,
        keys: {
          p256dh: keys.getPublicKey().toString('base64url'),
          auth: auth.toString('base64url'),
        },
      },
    });
    expect(registered.status).toBe(200);
    const { _id: userId } = (await user.api.get('/authentication/user')).body;
    const sent = await platform.admin.post('/push/send', {
      userId,
      title: 'Grüße <b>',
      body: 'Your order is on its way',
      data: { url: '/orders/7' },
    });
    const [request] = await waitFor(async () =>
      pushService.requests.length > 0 ? pushService.requests : undefined,
    );
    const payload = ece
      .decrypt(request!.bytes, {
        version: 'aes128gcm',
        privateKey: keys,
        authSecret: auth.toString('base64url'),
      })
      .toString();

    const origin = `http://127.0.0.1:${(app.address() as AddressInfo).port}`;
    const { page: tab, devices } = await browser.open(`${origin}/`);
    await tab.context().grantPermissions(['notifications'], { origin });
    const registrations: string[] = [];
    devices.on('ServiceWorker.workerRegistrationUpdated', (event) => {
      for (const { registrationId, scopeURL } of event.registrations)
        if (scopeURL.startsWith(origin)) registrations.push(registrationId);
    });
    await devices.send('ServiceWorker.enable');
    await tab.evaluate(
      `navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => true)`,
    );
    const registrationId = await waitFor(async () => registrations.at(-1), { what: 'the worker' });
    // What a push service does after the browser has decrypted.
    await devices.send('ServiceWorker.deliverPushMessage', {
      origin,
      registrationId,
      data: payload,
    });
    const notifications = await waitFor(
      async () => {
        const notes = (await tab.evaluate(
          `navigator.serviceWorker.ready.then((r) => r.getNotifications()).then((all) => all.map(({ title, body, data, tag }) => ({ title, body, data, tag })))`,
        )) as readonly object[];
        return notes.length > 0 ? notes : undefined;
      },
      { timeoutMs: 30_000, what: 'the notification' },
    );
    expect(notifications).toEqual([
      {
        title: 'Grüße <b>',
        body: 'Your order is on its way',
        data: { url: '/orders/7' },
        tag: sent.body.messageId,
      },
    ]);
  });
});
