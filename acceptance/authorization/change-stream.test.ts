/** Changes of permissions as they happen: complete, resumable, and honest about what is gone. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let permissions: ReturnType<typeof permissionsApi>;

/** A stream that is read in the background. */
interface Follower {
  readonly lines: Json[];
  /** Waits until a change about this resource was heard. */
  heard(resource: string): Promise<Json>;
  /** Of the last line that tells one. */
  position(): number;
  done: Promise<void>;
  stop(): Promise<void>;
}

async function follow(query = '', headers: Record<string, string> = {}): Promise<Follower> {
  const controller = new AbortController();
  const response = await fetch(`${platform.addresses.admin}/authorization/changes/stream${query}`, {
    headers: headers.credential ? headers : { masterkey: platform.masterKey, ...headers },
    signal: controller.signal,
  });
  expect(response.status).toBe(200);
  const lines: Json[] = [];
  const read = async (): Promise<void> => {
    let rest = '';
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const parts = (rest + chunk).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts.filter((part) => part !== '').map((part) => JSON.parse(part)));
    }
  };
  const done = read().catch(() => undefined);
  return {
    lines,
    heard: (resource) =>
      waitFor(() => lines.find(({ change }) => change?.payload.resource === resource)),
    position: () => lines.findLast(({ position }) => position !== undefined)?.position ?? -1,
    done,
    async stop() {
      controller.abort();
      await done;
    },
  };
}

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  permissions = permissionsApi(platform.admin);
  await permissions.define({
    name: 'Doc',
    relations: { reader: ['User'] },
    permissions: { read: ['reader'] },
  });
});
afterAll(() => platform?.close());

describe('a stream of changes', () => {
  it('tells what happens, and goes on from a position without losing anything', async () => {
    const first = await follow();
    await waitFor(() => first.lines.length > 0);
    expect(first.lines[0]).toEqual({ position: expect.any(Number) });
    await permissions.relate('User:ada reader Doc:s1');
    expect((await first.heard('Doc:s1')).change).toMatchObject({
      topic: 'authorization:create:relation',
      payload: { subject: 'User:ada', relation: 'reader', resource: 'Doc:s1' },
    });
    await waitFor(() => first.position() >= (first.lines.at(-1)?.position ?? Infinity));
    const position = first.position();
    await first.stop();
    for (let i = 2; i < 40; i += 1) await permissions.relate(`User:ada reader Doc:s${i}`);
    await permissions.unrelate('User:ada reader Doc:s1');
    const second = await follow(`?after=${position}`);
    await second.heard('Doc:s39');
    await waitFor(() => second.lines.some(({ change }) => change?.topic.includes('delete')));
    const resources = second.lines.flatMap(({ change }) => change?.payload.resource ?? []);
    expect(resources).toEqual([...Array.from({ length: 38 }, (_, i) => `Doc:s${i + 2}`), 'Doc:s1']);
    await second.stop();
  });

  it('ends with the token, and tells nothing that came after that', async () => {
    const { body } = await platform.admin.post('/api-tokens', { name: 'follower' });
    const [one, all] = [await follow('', { credential: body.token }), await follow()];
    await waitFor(() => one.lines.length > 0 && all.lines.length > 0);
    await platform.admin.delete(`/api-tokens/${body.id}`);
    await permissions.relate('User:ada reader Doc:revoked');
    await all.heard('Doc:revoked');
    await one.done;
    expect(one.lines).toEqual([{ position: expect.any(Number) }]);
    await all.stop();
  });

  it('is the same as the list of changes', async () => {
    const from = (await platform.admin.get('/authorization/changes')).body.next;
    const one = await follow(`?after=${from}`);
    await platform.admin.post('/authorization/relations/write', {
      writes: ['a', 'b', 'c'].map((id) => ({
        subject: `User:${id}`,
        relation: 'reader',
        resource: 'Doc:bulk',
      })),
    });
    await platform.admin.post('/authorization/permissions', {
      subject: 'User:d',
      permission: 'read',
      resource: 'Doc:last',
    });
    await one.heard('Doc:last');
    const { body } = await platform.admin.get(`/authorization/changes?after=${from}`);
    expect(one.lines.flatMap(({ change }) => change ?? [])).toEqual(body.changes);
    await one.stop();
  });

  it('tells all that was written, in the words of the routes', async () => {
    await permissions.define({
      name: 'Told',
      relations: { reader: ['User with office'] },
      permissions: { read: ['reader'] },
      conditions: { office: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
    });
    const about = { subject: 'User:ada', resource: 'Told:1' };
    const [attributes, expiresAt] = [{ place: 'attic', note: { none: null } }, '2999-01-01'];
    const one = await follow();
    await waitFor(() => one.lines.length > 0);
    const conditional = { ...about, relation: 'reader', condition: 'office' };
    await platform.admin.post('/authorization/relations/write', {
      writes: [
        { ...conditional, attributes, expiresAt: `${expiresAt}T00:00:00Z` },
        { ...about, permission: 'read' },
      ],
    });
    await platform.admin.post('/authorization/relations/write', {
      deletes: [{ ...about, permission: 'read' }],
    });
    const told: Json[] = await waitFor(() => {
      const all = one.lines.flatMap(({ change }) => change ?? []);
      const found = all.filter(({ payload }) => payload.resource === about.resource);
      const isAll = found.some(({ topic }) => topic === 'authorization:delete:permission');
      return isAll ? found : undefined;
    });
    const granted = { ...about, permission: 'read' };
    // Relations that are written together come in the order of their names.
    expect(told.map(({ payload }) => payload)).toEqual([
      granted,
      { ...conditional, attributes, expiresAt: expect.stringContaining(expiresAt) },
      granted,
    ]);
    await one.stop();
  });

  it('ends by itself, with the position to go on from', async () => {
    const short = await follow('?seconds=1');
    await short.done;
    expect(short.lines.at(-1)).toEqual({ end: { position: expect.any(Number) } });
  });

  it('speaks server-sent events, and takes up where a browser left', async () => {
    const { next } = (await platform.admin.get('/authorization/changes')).body;
    await permissions.relate('User:ada reader Doc:sse');
    await waitFor(
      async () =>
        (await platform.admin.get(`/authorization/changes?after=${next}`)).body.changes.length > 0,
    );
    const response = await fetch(
      `${platform.addresses.admin}/authorization/changes/stream?seconds=1`,
      {
        headers: {
          masterkey: platform.masterKey,
          accept: 'text/event-stream',
          'last-event-id': String(next),
        },
      },
    );
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const text = await response.text();
    expect(text).toMatch(/event: change\ndata: \{[^\n]*Doc:sse[^\n]*\n\n/);
    expect(text).toMatch(/event: end\nid: \d+\ndata: \{"position":\d+\}\n\n$/);
  });

  it('refuses what makes no sense, and strangers', async () => {
    const path = '/authorization/changes/stream';
    expect((await platform.admin.get(`${path}?after=-1`)).status).toBe(400);
    expect((await platform.admin.get(`${path}?seconds=0`)).status).toBe(400);
    expect((await platform.admin.get(`${path}?seconds=901`)).status).toBe(400);
    expect((await platform.adminAnonymous.get(path)).status).toBe(401);
  });
});
