/**
 * The programs of the guides that people search for, run as they stand there: clients in the browser, permissions by
 * example, and the ways here from other backends. Of those, what the other backend answers is played.
 */
import { deepEqual, equal, match, rejects } from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createMailbox } from '../../test/support/mailbox.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { blocksOf, createGuideRunner, type Fetch, type GuideRunner, pageClient } from './code.ts';
import { createdAt, firebase, picture, pocketBase, supabase } from './other-backends.ts';

let platform: TestPlatform;
let guides: GuideRunner;
beforeAll(async () => {
  platform = await createTestPlatform();
  guides = createGuideRunner(platform);
  await liftLimits(platform.admin);
  const offered = { enabled: true, authenticated: true };
  const crudOperations = { create: offered, read: offered, update: offered, delete: offered };
  await platform.createSchema({
    name: 'Task',
    fields: { title: { type: 'String', required: true } },
    conduitOptions: { cms: { enabled: true, crudOperations } },
  });
});
afterAll(() => platform?.close());

const password = 'a long enough passphrase 7';
const titles = (records: readonly Json[]): string[] => records.map(({ title }) => title).sort();

describe('clients in the browser', () => {
  const email = 'page@example.com';
  const ended = new Set<string>();
  const sent: string[] = [];
  let last = '';
  let loses = 0;
  /** Refuses the tokens in `ended` as the platform would later, and loses answers that it is told to lose. */
  const shakyFetch: Fetch = async (url, init) => {
    const { pathname } = new URL(url);
    sent.push(`${init.method} ${pathname}`);
    const { authorization = '' } = init.headers;
    if (pathname !== '/authentication/renew') last = authorization;
    const headers = ended.has(authorization)
      ? { ...init.headers, authorization: 'Bearer ended' }
      : init.headers;
    const response = await fetch(url, { ...init, headers });
    if (loses === 0) return response;
    loses -= 1;
    throw new TypeError('fetch failed');
  };
  const count = (request: string): number => sent.filter((one) => one === request).length;
  let page: Json;

  it('sign up and in, send a write once however often it is repeated, and show errors', async () => {
    page = await pageClient(guides, { fetch: shakyFetch });
    await page.signUp(email, password);
    expect(await page.signIn(email, password)).toMatch(/^[0-9a-f-]{36}$/);
    loses = 2;
    await page.request('POST', '/database/Task', { title: 'once' });
    expect(count('POST /database/Task')).toBe(3);
    expect(titles((await page.request('GET', '/database/Task')).documents)).toEqual(['once']);

    const error = await page.request('POST', '/database/Task', {}).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(page.ApiError);
    expect(error).toMatchObject({ status: 400, code: 'INVALID_ARGUMENTS' });
    const { body } = await platform.admin.post('/database/schemas', {});
    const shape = JSON.parse((await blocksOf('browser-clients')).get('json') ?? '');
    expect(Object.keys(body).sort()).toEqual(Object.keys(shape).sort());
    expect(Object.keys(error.errors[0]).sort()).toEqual(Object.keys(shape.errors[0]).sort());
  });

  it('renew once for all requests that find the token ended', async () => {
    ended.add(last);
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => page.request('GET', '/database/Task')),
    );
    expect(answers.map(({ count: all }) => all)).toEqual([1, 1, 1, 1, 1]);
    expect(count('POST /authentication/renew')).toBe(1);
  });

  it('keep lists current beyond the end of a token, until the session ends', async () => {
    let shown: Json[] = [];
    const config = (expiryPeriod: number) =>
      platform.admin.patch('/config/authentication', {
        config: { accessTokens: { expiryPeriod } },
      });
    expectStatus(await config(5_000), 200, 'short tokens');
    const userId = await page.signIn(email, password);
    const before = count('POST /authentication/renew');
    const stop = page.live({ schema: 'Task' }, (records: Json[]) => {
      shown = records;
    });
    await waitFor(() => titles(shown).join() === 'once', { timeoutMs: 30_000 });
    expectStatus(await config(3_600_000), 200, 'long tokens');
    await waitFor(() => count('POST /authentication/renew') > before, { timeoutMs: 60_000 });
    await page.request('POST', '/database/Task', { title: 'renewed' });
    await waitFor(() => titles(shown).join() === 'once,renewed');
    const over = new Promise((resolve) => page.session.addEventListener('ended', resolve));
    await platform.admin.delete(`/authentication/users/${userId}/sessions`);
    await over;
    stop();
    await expect(page.request('GET', '/database/Task')).rejects.toMatchObject({ status: 401 });
  }, 90_000);

  it('work with cookies from a page on the same site', async () => {
    const guide = await blocksOf('browser-clients');
    await guides.runCommands(guide.get('bash'));
    const jar = new Map<string, string>();
    const localStorage: Record<string, string> = {};
    const given = { localStorage, fetch: pageFetch('https://app.example.com', jar) };
    const { signIn, request } = await guides.run(guide.get('js cookies'), given, 'signIn, request');
    expect(await signIn(email, password)).not.toHaveProperty('accessToken');
    await request('POST', '/database/Task', { title: 'by cookie' });
    jar.delete('__Host-accessToken');
    expect((await request('GET', '/database/Task')).count).toBe(3);
    expect(jar.has('__Host-accessToken')).toBe(true);
    localStorage.csrfToken = '';
    await expect(request('POST', '/database/Task', { title: 'forged' })).rejects.toMatchObject({
      code: 'CSRF_REFUSED',
    });
    const off = { setCookie: false };
    const config = { accessTokens: off, refreshTokens: off };
    expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'tokens');
  });
});

/** `fetch` as a browser does it for a page of another origin: it asks before, and keeps cookies. */
function pageFetch(origin: string, jar: Map<string, string>): Fetch {
  return async (url, { credentials: _credentials, ...init }) => {
    const from = { origin, 'sec-fetch-site': 'same-site' };
    const asked = Object.keys(init.headers).filter((name) => init.headers[name]);
    const preflight = await fetch(url, {
      method: 'OPTIONS',
      headers: {
        ...from,
        'access-control-request-method': init.method,
        'access-control-request-headers': asked.join(),
      },
    });
    const allowed = preflight.headers;
    expect(allowed.get('access-control-allow-origin')).toBe(origin);
    expect(allowed.get('access-control-allow-credentials')).toBe('true');
    const names = (allowed.get('access-control-allow-headers') ?? '').toLowerCase().split(',');
    expect(names.map((name) => name.trim())).toEqual(expect.arrayContaining(asked));
    const cookie = [...jar].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(url, { ...init, headers: { ...init.headers, ...from, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  };
}

it('permissions by example hold what they say', async () => {
  const blocks = await blocksOf('permissions-by-example');
  expect([...blocks.keys()]).toEqual(['js']);
  await guides.run(blocks.get('js'), { deepEqual, equal, match, rejects });
});

describe('coming from', () => {
  it.each([
    ['pocketbase', 'PocketNote', pocketBase],
    ['supabase', 'BaseNote', supabase],
    ['firebase', 'FireNote', firebase],
  ])('%s: the app, and the move', async (from, schema, backend) => {
    const email = `old@${from}.example.com`;
    const blocks = await blocksOf(`coming-from-${from}`);
    expect([...blocks.keys()]).toEqual(['bash', 'js app', 'js move']);
    const code = (kind: string): string =>
      (blocks.get(kind) ?? '')
        .replaceAll(/\bNote\b/g, schema)
        .replaceAll('ada@example.com', `ada@${from}.example.com`);
    await guides.runCommands(code('bash'));
    await runApp(code('js app'));

    const helpers = (await blocksOf('import-export')).get('js move');
    const answers = 'admin, userFor, idFor, fileFor, importRecords';
    const move = await guides.run(helpers, { createHash, randomUUID }, answers);
    const given = { ...move, ...backend(platform, email) };
    for (let runs = 0; runs < 2; runs += 1) await guides.run(code('js move'), given);
    await expectMoved(schema, await move.userFor(email), email);
  });

  async function runApp(code: string): Promise<void> {
    let shown: Json[] = [];
    const client = await pageClient(guides);
    const app = await guides.run(
      code,
      {
        ...client,
        photo: new Blob([picture], { type: 'image/jpeg' }),
        showNotes: (notes: Json[]) => {
          shown = notes;
        },
      },
      'userId, note, documents, stop, id, photoUrl',
    );
    expect(app.documents).toEqual([app.note]);
    expect(app.note).toMatchObject({ author: app.userId, isPublic: false });
    await waitFor(() => shown[0]?.photo === app.id);
    expect(await (await fetch(new URL(app.photoUrl, platform.addresses.client))).text()).toBe(
      picture,
    );
    app.stop();
    await client.signOut();
  }

  async function expectMoved(schema: string, userId: string, email: string): Promise<void> {
    const path = `/database/${schema}`;
    const { documents } = expectStatus(await platform.client.get(path), 200, 'public').body;
    expect(documents).toMatchObject([{ title: 'Public', author: userId, createdAt }]);
    const user = `/authentication/users/${userId}`;
    const { accessToken } = expectStatus(
      await platform.admin.post(`${user}/impersonate`, { reason: 'a test of the move' }),
      200,
      'impersonate',
    ).body;
    const own = await platform.client.get(path, { token: accessToken });
    expect(titles(own.body.documents)).toEqual(['Private', 'Public']);
    const download = `/storage/download/${documents[0].photo}`;
    expect((await platform.client.get(download, { token: accessToken })).text).toBe(picture);
    expectStatus(await platform.admin.post(`${user}/reset-password`), 200, 'new password');
    expect((await createMailbox(platform.admin).mail(email, 'PasswordRequired')).text).not.toBe('');
  }
});
