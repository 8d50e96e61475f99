/**
 * Sockets outlive requests, so each check of a request must hold for them again and again:
 * https://owasp.org/API-Security/editions/2023/en/0xa1-broken-object-level-authorization/
 * https://cheatsheetseries.owasp.org/cheatsheets/WebSocket_Security_Cheat_Sheet.html
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { document, openRealtime, refusedWith, user } from '../../../test/support/realtime.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { UserCaller } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { ClientIdentity } from '../../kernel/identity.ts';
import { defaultSurfaceOptions, fixedSurfaceOptions } from '../http/options.ts';
import { startRealtimeSurface } from './realtime-surface.ts';

describe('realtime surface', () => {
  let fixture: Awaited<ReturnType<typeof openRealtime>>;
  beforeEach(async () => {
    fixture = await openRealtime();
  });
  afterEach(() => fixture.close());

  it.each([
    ['no token', {}, 401],
    ['a wrong token', { auth: { token: 'bad' } }, 401],
    ['a token that is no text', { auth: { token: { a: 1 } } }, 401],
    ['a malformed header', { extraHeaders: { authorization: 'Basic good' } }, 401],
    ['a cookie', { extraHeaders: { cookie: 'accessToken=good' } }, 401],
  ])('refuses %s', async (_name, options, status) => {
    const failure = await refusedWith(fixture.connect(options));
    expect(failure.data).toMatchObject({ status, name: 'UNAUTHORIZED' });
  });

  it('refuses a user who still needs a second factor, and answers 503 while nobody can check', async () => {
    fixture.tokens.set('half', user);
    expect((await refusedWith(fixture.connect({ auth: { token: 'half' } }))).data).toMatchObject({
      code: 'SECOND_FACTOR_REQUIRED',
    });
    fixture.identity.client = undefined;
    expect((await refusedWith(fixture.connect())).data).toMatchObject({ status: 503 });
  });

  it('tells nothing to whose session has ended while they came in', async () => {
    const seen: string[] = [];
    fixture.kernel.sockets.register({
      ...{ name: '/room', summary: '', errorEvent: 'room_error', events: [], sends: [] },
      admit: async (connection) => ({
        connected: () => connection.join('all'),
        closed: () => void seen.push('closed'),
      }),
    });
    const known = fixture.identity.client as ClientIdentity;
    const asked: PromiseWithResolvers<UserCaller>[] = [];
    fixture.identity.client = {
      authenticate(given) {
        const second = Promise.withResolvers<UserCaller>();
        if (asked.push(second) === 1) return known.authenticate(given);
        return second.promise;
      },
    };
    const socket = fixture.connect(undefined, '/room/');
    socket.onAny((event: string) => seen.push(event));
    await waitFor(() => socket.connected && asked.length === 2);
    fixture.kernel.sockets.broadcast('/room', 'all', 'word', 1);
    asked[1]?.reject(errors.UNAUTHORIZED());
    await waitFor(() => !socket.connected);
    expect(seen).not.toContain('word');
    expect(seen).toContain('closed');
  });

  it('serves no other namespace', async () => {
    expect(
      (await refusedWith(fixture.connect({ auth: { token: 'good' } }, '/'))).data,
    ).toMatchObject({ status: 404 });
    expect(
      (await refusedWith(fixture.connect({ auth: { token: 'good' } }, '/secret/'))).message,
    ).toBe('Invalid namespace');
  });

  it.each([
    [{ schema: 'Absent' }, 404],
    [{ schema: 'Hidden' }, 404],
    [{ schema: 'WriteOnly' }, 404],
    [{ schema: '__proto__' }, 404],
    [{ schema: 'Private', documentId: document(1) }, 403],
    [{ schema: 'Owned', documentId: document(1) }, 403],
    [{ schema: 'Post', documentId: 'x' }, 400],
    [{ schema: 'Post', since: -1 }, 400],
    [{ schema: 1 }, 400],
    ['Post', 400],
    [null, 400],
    [undefined, 400],
    [Buffer.from('Post'), 400],
  ])('refuses to subscribe with %j', async (input, status) => {
    const { ask } = await fixture.connected();
    expect(await ask('subscribe', input)).toMatchObject({ ok: false, error: { status } });
  });

  it('checks permission for each record and each change', async () => {
    const { changes, failures, ask } = await fixture.connected();
    fixture.readable.add(`Private:${document(1)}`);
    expect(await ask('subscribe', { schema: 'Private', documentId: document(1) })).toMatchObject({
      ok: true,
    });
    await fixture.change('Private', document(1));
    await waitFor(() => changes.length === 1);
    fixture.readable.clear();
    await fixture.change('Private', document(1));
    await waitFor(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ status: 403, schema: 'Private', documentId: document(1) });
    expect(changes).toHaveLength(1);
  });

  it('tells listeners to a schema of the records that they may read, and of no others', async () => {
    const { changes, failures, ask } = await fixture.connected();
    expect(await ask('subscribe', { schema: 'Private' })).toMatchObject({ ok: true });
    fixture.readable.add(`Private:${document(2)}`);
    await fixture.change('Private', document(1), document(2), document(3));
    await waitFor(() => changes.length === 1);
    fixture.readable.clear();
    await fixture.change('Private', document(2));
    fixture.readableBefore.add(`Private:${document(3)}`);
    await fixture.remove('Private', document(2), document(3));
    await waitFor(() => changes.length === 2);
    expect(changes.map(({ documentId }) => documentId)).toEqual([document(2), document(3)]);
    expect(failures).toEqual([]);
  });

  it('tells the owner alone of records that only their owner reads', async () => {
    const { changes, failures, ask } = await fixture.connected();
    fixture.readable.add(`Owned:${document(1)}`);
    expect(await ask('subscribe', { schema: 'Owned', documentId: document(1) })).toMatchObject({
      ok: true,
    });
    await fixture.change('Owned', document(1));
    await waitFor(() => changes.length === 1);
    fixture.readable.clear();
    await fixture.change('Owned', document(1));
    await waitFor(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ status: 403, schema: 'Owned', documentId: document(1) });
    expect(changes).toHaveLength(1);
  });

  it('tells those that a record is gone who could read it until then, and nobody else', async () => {
    const { changes, failures, ask } = await fixture.connected();
    for (const n of [1, 2]) {
      fixture.readable.add(`Private:${document(n)}`);
      expect(await ask('subscribe', { schema: 'Private', documentId: document(n) })).toMatchObject({
        ok: true,
      });
    }
    fixture.readable.clear();
    fixture.readableBefore.add(`Private:${document(1)}`);
    await fixture.remove('Private', document(1));
    await waitFor(() => changes.length === 1);
    expect(changes[0]).toMatchObject({ operation: 'delete', documentId: document(1) });
    await fixture.remove('Private', document(2));
    await waitFor(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ status: 403, documentId: document(2) });
    expect(changes).toHaveLength(1);
  });

  it('ends subscriptions when a schema no longer offers its changes', async () => {
    const { changes, failures, ask } = await fixture.connected();
    expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({ ok: true });
    fixture.schemas.set('Post', {
      ...fixture.schemas.get('Private'),
      modelOptions: { conduit: { realtime: { enabled: false } } },
    } as never);
    await fixture.tellSchemas('Post');
    await waitFor(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ status: 404, schema: 'Post' });
    expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({
      ok: false,
      error: { status: 404 },
    });
    await fixture.change('Post', document(1));
    expect(changes).toEqual([]);
  });

  it('an id in capitals means the same record', async () => {
    const { changes, ask } = await fixture.connected();
    const id = '00000000-0000-7000-8000-00000000000f';
    fixture.readable.add(`Private:${id}`);
    const target = { schema: 'Private', documentId: id.toUpperCase() };
    expect(await ask('subscribe', target)).toMatchObject({ ok: true });
    await fixture.change('Private', id);
    await waitFor(() => changes.length === 1);
    await ask('unsubscribe', target);
    await fixture.change('Private', id);
    expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({ ok: true });
    expect(changes).toHaveLength(1);
  });

  it('disconnects when the session ends, at the latest before the next delivery', async () => {
    const first = await fixture.connected();
    await first.ask('subscribe', { schema: 'Post' });
    const idle = await fixture.connected();
    fixture.tokens.delete('good');
    await fixture.change('Post', document(1));
    await waitFor(() => !first.socket.connected);
    expect(first.changes).toEqual([]);
    expect(first.failures).toEqual([expect.objectContaining({ status: 401 })]);
    expect(idle.socket.connected).toBe(true);
    await fixture.publish({ topic: 'authentication:logout:user', schema: 'User', ids: [user] });
    await waitFor(() => !idle.socket.connected);
  });

  it('disconnects when the token has ended', async () => {
    const payload = Buffer.from(JSON.stringify({ exp: Date.now() / 1000 + 2.5 })).toString(
      'base64url',
    );
    const token = `header.${payload}.signature`;
    fixture.tokens.set(token, user);
    const { socket } = await fixture.connected({ auth: { token } });
    fixture.tokens.delete(token);
    await waitFor(() => !socket.connected);
  });

  it('goes on with a fresh token of the same user only', async () => {
    const { socket, ask } = await fixture.connected();
    expect(await ask('refreshAuth', { token: 'other' })).toMatchObject({
      ok: false,
      error: { code: 'USER_MISMATCH' },
    });
    expect(await ask('refreshAuth', { token: 'bad' })).toMatchObject({
      ok: false,
      error: { status: 401 },
    });
    expect(await ask('refreshAuth', { token: 'fresh' })).toEqual({ ok: true });
    fixture.tokens.delete('good');
    await fixture.publish({ ids: [user] });
    expect(await ask('subscribe', { schema: 'Post' })).toMatchObject({ ok: true });
    expect(socket.connected).toBe(true);
  });

  it('limits what one socket holds', async () => {
    const { ask } = await fixture.connected();
    /** As fast as one socket may send. */
    const subscribe = async (n: number) => {
      const target = {
        schema: 'Post',
        documentId: `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`,
      };
      let answer = await ask('subscribe', target);
      await waitFor(async () => {
        if (answer.error?.status === 429) answer = await ask('subscribe', target);
        return answer.error?.status !== 429;
      });
      return answer;
    };
    for (let n = 1; n <= 100; n += 1) expect(await subscribe(n)).toMatchObject({ ok: true });
    expect(await subscribe(101)).toMatchObject({
      ok: false,
      error: { status: 409, code: 'SUBSCRIPTION_LIMIT_EXCEEDED' },
    });
    expect(await subscribe(1)).toMatchObject({ ok: true });
  });

  it('limits what one socket sends', async () => {
    const { ask } = await fixture.connected();
    const answers = await Promise.all(
      Array.from({ length: 80 }, () => ask('subscribe', { schema: 'Post' })),
    );
    const refused = answers.filter((answer) => !answer.ok);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0]).toMatchObject({ error: { status: 429, name: 'RATE_LIMIT', retryAfter: 1 } });
  });

  it('limits the transports that one address opens without saying who it is (CWE-770)', async () => {
    const open = async () =>
      (await fetch(`${fixture.surface.address}/realtime/?EIO=4&transport=polling`)).status;
    const statuses = await Promise.all(Array.from({ length: 250 }, open));
    expect(statuses.filter((status) => status === 200)).toHaveLength(200);
    expect(statuses.filter((status) => status === 403)).toHaveLength(50);
  });

  it('drops a socket that sends too much at once, and lives on', async () => {
    const { socket } = await fixture.connected();
    socket.emit('subscribe', 'x'.repeat(1_100_000));
    await waitFor(() => !socket.connected);
    await fixture.connected();
  });

  it('admits pages of listed origins only', async () => {
    const defaults = defaultSurfaceOptions('client');
    const client = fixedSurfaceOptions({
      ...defaults,
      cors: { ...defaults.cors, origins: ['https://app.example'] },
    });
    const strict = await startRealtimeSurface(fixture.kernel, { client });
    const ask = (origin: string) =>
      fetch(`${strict?.address}/realtime/?EIO=4&transport=polling`, { headers: { origin } });
    expect((await ask('https://app.example')).headers.get('access-control-allow-origin')).toBe(
      'https://app.example',
    );
    const foreign = await ask('https://evil.example');
    expect(foreign.status).toBe(403);
    expect(foreign.headers.get('access-control-allow-origin')).toBeNull();
    await strict?.close();
  });
});
