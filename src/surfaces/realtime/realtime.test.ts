import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { document, openRealtime } from '../../../test/support/realtime.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { startRealtimeSurface } from './realtime-surface.ts';

describe('realtime surface', () => {
  let fixture: Awaited<ReturnType<typeof openRealtime>>;
  beforeEach(async () => {
    fixture = await openRealtime();
  });
  afterEach(() => fixture.close());

  it.each([
    ['the Authorization header', { extraHeaders: { authorization: 'Bearer good' } }],
    ['auth.token', { auth: { token: 'good' } }],
    ['auth.accessToken', { auth: { accessToken: 'good' } }],
    ['auth.authorization', { auth: { authorization: 'Bearer good' } }],
    ['polling', { transports: ['polling'], extraHeaders: { authorization: 'Bearer good' } }],
  ])('lets a user in by %s', async (_name, options) => {
    const { ask } = await fixture.connected(options);
    expect(await ask('subscribe', { schema: 'Post' })).toEqual({ ok: true, sequence: 0 });
  });

  it('delivers changes of what was subscribed to, and stops when asked', async () => {
    const { changes, ask } = await fixture.connected();
    await ask('subscribe', { schema: 'Post' });
    await fixture.change('Post', document(1), document(2));
    await fixture.change('Hidden', document(3));
    await fixture.publish({ schema: 'Post', ids: [document(4)] });
    await waitFor(() => changes.length === 2);
    expect(changes[0]).toEqual({
      version: 1,
      operation: 'insert',
      schema: 'Post',
      documentId: document(1),
      occurredAt: '2026-01-01T00:00:00.000Z',
      sequence: 1,
    });
    expect(await ask('unsubscribe', { schema: 'Post' })).toEqual({ ok: true });
    await fixture.change('Post', document(5));
    await ask('unsubscribe', { schema: 'Post' });
    expect(changes).toHaveLength(2);
  });

  it('delivers only the record that was asked for', async () => {
    const { changes, ask } = await fixture.connected();
    await ask('subscribe', { schema: 'Post', documentId: document(2) });
    await fixture.change('Post', document(1), document(2), document(3));
    await ask('unsubscribe', { schema: 'Post' });
    expect(changes.map((change) => change.documentId)).toEqual([document(2)]);
  });

  it('answers unknown events and events without an acknowledgement', async () => {
    const { socket, failures, ask } = await fixture.connected();
    expect(await ask('constructor', {})).toMatchObject({
      ok: false,
      error: { code: 'EVENT_UNKNOWN', status: 404 },
    });
    socket.emit('subscribe', { schema: 'Absent' });
    await waitFor(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ status: 404 });
  });

  it('resumes without a gap and in order, also while changes go on', async () => {
    for (let i = 0; i < 1_200; i += 1) await fixture.change('Post', document(1));
    const { changes, ask } = await fixture.connected();
    const subscribed = ask('subscribe', { schema: 'Post', since: 100 });
    for (let i = 0; i < 50; i += 1) {
      await fixture.change('Post', document(2));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await subscribed).toMatchObject({ ok: true });
    await waitFor(() => changes.length >= 1_150);
    expect(changes.map((change) => change.sequence)).toEqual(
      Array.from({ length: 1_150 }, (_, i) => 101 + i),
    );
  });

  it('repeats an event of several records when it resumes at it', async () => {
    await fixture.change('Post', document(1), document(2));
    const { changes, ask } = await fixture.connected();
    await ask('subscribe', { schema: 'Post', since: 1 });
    await waitFor(() => changes.length === 2);
  });

  it('has one subscription of what is subscribed to twice at once, and none when it is left', async () => {
    await fixture.change('Post', document(1));
    const { socket, changes, ask } = await fixture.connected();
    const twice = await Promise.all(
      [1, 2].map(() => ask('subscribe', { schema: 'Post', since: 1 })),
    );
    expect(twice).toMatchObject([{ ok: true }, { ok: true }]);
    expect(fixture.surface.counts().subscriptions).toBe(1);
    await fixture.change('Post', document(2));
    await ask('unsubscribe', { schema: 'Post' });
    expect(changes).toHaveLength(1);
    socket.disconnect();
    await waitFor(() => fixture.surface.counts().subscriptions === 0);
  });

  it('keeps no subscription of a past that could not be read', async () => {
    const { ask } = await fixture.connected();
    const { since } = fixture.events;
    fixture.events.since = () => Promise.reject(new Error('the database is away'));
    expect(await ask('subscribe', { schema: 'Post', since: 0 })).toMatchObject({ ok: false });
    fixture.events.since = since;
    expect(fixture.surface.counts().subscriptions).toBe(0);
  });

  it('says resync when the past is gone or too long, and goes on live', async () => {
    await fixture.change('Post', document(1));
    await fixture.change('Post', document(1));
    fixture.purge();
    const { changes, ask } = await fixture.connected();
    expect(await ask('subscribe', { schema: 'Post', since: 1 })).toEqual({
      ok: true,
      resync: true,
      sequence: 2,
    });
    await fixture.change('Post', document(2));
    await waitFor(() => changes.length === 1);
    expect(await ask('subscribe', { schema: 'Post', since: 99 })).toMatchObject({
      ok: true,
      resync: true,
    });
  });

  it('lets those come back who may have missed changes for good, and nobody else', async () => {
    const [listening, idle] = [await fixture.connected(), await fixture.connected()];
    await listening.ask('subscribe', { schema: 'Post' });
    fixture.miss();
    await waitFor(() => listening.socket.disconnected);
    // Not as a client that was told to stay away.
    expect(listening.failures).toMatchObject([{ status: 503 }]);
    expect(await idle.ask('subscribe', { schema: 'Post' })).toMatchObject({ ok: true });
  });

  it('follows the events only while somebody is connected', async () => {
    expect(fixture.followers()).toBe(0);
    const a = await fixture.connected();
    const b = await fixture.connected();
    expect(fixture.followers()).toBe(1);
    a.socket.disconnect();
    b.socket.disconnect();
    await waitFor(() => fixture.followers() === 0);
  });

  it('answers plain HTTP with 404 in JSON', async () => {
    const response = await fetch(`${fixture.surface.address}/live`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ name: 'NOT_FOUND', status: 404 });
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('is absent with a negative port, and names the variable when the port is taken', async () => {
    const settings = (port: number) => ({
      ...fixture.kernel,
      settings: { ...fixture.kernel.settings, clientSocketPort: port },
    });
    expect(await startRealtimeSurface(settings(-1))).toBeUndefined();
    await expect(
      startRealtimeSurface(settings(Number(new URL(fixture.surface.address).port))),
    ).rejects.toThrow('CLIENT_SOCKET_PORT');
  });
});
