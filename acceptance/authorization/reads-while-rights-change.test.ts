/** Records that are read by many at once while they and the rights to them change. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const ROUNDS = 40;
const READERS = 6;

describe('records while rights change', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;

  const options = {
    fields: { text: 'String' },
    conduitOptions: {
      authorization: { enabled: true },
      cms: { query: { enabled: true, fields: ['text'] } },
    },
  } as const;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    await permissions.define({ name: 'Circle', relations: { member: ['User'] }, permissions: {} });
    await platform.createSchema({
      name: 'Diary',
      ...options,
    });
    await permissions.define({
      name: 'Diary',
      relations: { owner: ['User'], reader: ['User', 'Circle#member'], banned: ['User'] },
      permissions: {
        read: { exclusion: { base: ['owner', 'reader'], subtract: ['banned'] } },
        edit: ['owner'],
        delete: ['owner'],
      },
      version: 1,
    });
    await platform.createSchema({
      name: 'Letter',
      ...options,
    });
    await permissions.define({
      name: 'Letter',
      relations: { owner: ['User'], reader: ['User', 'Circle#member'] },
      permissions: { read: ['owner', 'reader'], edit: ['owner'], delete: ['owner'] },
      version: 1,
    });
  });
  afterAll(() => platform.close());

  it.each([
    { title: 'granted', schema: 'Letter', by: (id: string) => `User:BOB reader Letter:${id}` },
    { title: 'held by a group', schema: 'Letter', by: () => 'User:BOB member Circle:one' },
    {
      title: 'granted, where some are banned',
      schema: 'Diary',
      by: (id: string) => `User:BOB reader Diary:${id}`,
    },
  ])('never shows what stood there before the right was $title', async ({ schema, by }) => {
    const created = await ada.api.post(`/database/${schema}`, { text: 'open' });
    const id: string = expectStatus(created, 200, 'create').body._id;
    const path = `/database/${schema}/${id}`;
    const right = by(id).replace('BOB', bob.userId);
    if (right.includes('Circle'))
      await permissions.relate(`Circle:one#member reader ${schema}:${id}`);
    let ended = false;
    const seen = new Map<string, number>();
    const ways = [
      () => bob.api.get(path),
      () => bob.api.get(`/database/${schema}`, { query: { limit: 100 } }),
      () =>
        bob.api.post(`/database/${schema}/query`, { query: { text: { $in: ['open', 'secret'] } } }),
    ];
    const read = async (way: (typeof ways)[number]): Promise<void> => {
      while (!ended) {
        const { status, body } = await way();
        const found: Json[] = body.documents ?? [body];
        const what =
          status === 200 ? (found.find(({ _id }) => _id === id)?.text ?? '404') : String(status);
        seen.set(what, (seen.get(what) ?? 0) + 1);
      }
    };
    const readers = Array.from({ length: READERS }, (_, n) =>
      read(ways[n % ways.length] ?? (() => bob.api.get(path))),
    );
    const write = async (text: string) =>
      expectStatus(await ada.api.patch(path, { text }), 200, 'change');
    // Whoever may not read it yet, or any more, knows nothing of what stands there meanwhile.
    for (let round = 0; round < ROUNDS; round += 1) {
      await permissions.relate(right);
      await permissions.unrelate(right);
      await write('secret');
      await write('open');
    }
    ended = true;
    await Promise.all(readers);
    expect([...seen.keys()].sort()).toEqual(['404', 'open']);
  });

  it('answers each of many who ask at once by their own rights', async () => {
    const created = await ada.api.post('/database/Letter', { text: 'mine' });
    const id: string = expectStatus(created, 200, 'create').body._id;
    const ask = async (user: TestUser): Promise<number> =>
      (await user.api.get(`/database/Letter/${id}`)).status;
    const all = await Promise.all(
      Array.from({ length: 60 }, (_, n) => ask(n % 3 === 0 ? ada : bob)),
    );
    expect(all).toEqual(all.map((_, n) => (n % 3 === 0 ? 200 : 404)));
  });
});
