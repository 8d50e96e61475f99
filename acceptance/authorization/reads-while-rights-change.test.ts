/** Records that are read by many at once while they and the rights to them change. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const ROUNDS = 40;
/** A busy machine needs more until a read falls within the time of a right. */
const MOST_ROUNDS = 600;
const READERS = 6;

describe('records while rights change', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;
  let auditor: string;

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
    await permissions.define({
      name: 'Circle',
      relations: { member: ['User'] },
      permissions: { read: ['member'] },
    });
    await permissions.define({
      name: 'Shelf',
      relations: { member: ['User'], banned: ['Circle#member'] },
      permissions: { see: { exclusion: { base: ['member'], subtract: ['banned'] } } },
    });
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
      relations: { owner: ['User'], reader: ['User', 'Circle', 'Circle#member'] },
      permissions: { read: ['owner', 'reader'], edit: ['owner'], delete: ['owner'] },
      version: 1,
    });
    await platform.createSchema({ name: 'Card', ...options });
    await permissions.define({
      name: 'Card',
      relations: { owner: ['User'], on: ['Shelf'] },
      permissions: {
        read: ['owner', 'on->see', { rule: "'auditor' in caller.roles" }],
        edit: ['owner'],
        delete: ['owner'],
      },
      version: 1,
    });
    await platform.createSchema({
      name: 'Pay',
      fields: { text: { type: 'String', access: { read: 'role:auditor' } } },
    });
    const role = await platform.admin.post('/authorization/roles', { name: 'auditor' });
    auditor = expectStatus(role, 200, 'role').body._id;
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
    const right = by(id).replace('BOB', bob.userId);
    if (right.includes('Circle'))
      await permissions.relate(`Circle:one#member reader ${schema}:${id}`);
    const seen = await seenMeanwhile({ schema, id }, [
      () => permissions.relate(right),
      () => permissions.unrelate(right),
    ]);
    expect(seen).toEqual(['404', 'open']);
  });

  const roles = (): string => `/authorization/users/${bob.userId}/roles`;
  const auditing: readonly Step[] = [
    () => platform.admin.post(roles(), { role: 'auditor' }),
    () => platform.admin.delete(`${roles()}/${auditor}`),
  ];
  const member = (): string => `User:${bob.userId} member Circle:two`;
  const banned = 'Circle:three#member banned Shelf:one';

  it.each<{ title: string; schema: string; steps: readonly Step[]; scope?: string }>([
    {
      title: 'that of a scope',
      schema: 'Letter',
      scope: 'Circle:two',
      steps: [() => permissions.relate(member()), () => permissions.unrelate(member())],
    },
    { title: 'that of a role, by a rule', schema: 'Card', steps: auditing },
    { title: 'that of a role, to a field', schema: 'Pay', steps: auditing },
    {
      title: 'taken away from a group on the way',
      schema: 'Card',
      steps: [() => permissions.unrelate(banned), () => permissions.relate(banned)],
    },
  ])('never shows it where the right is $title', async ({ schema, steps, scope }) => {
    const docs = `/database/schemas/${schema}/docs`;
    const inputDocument = { text: 'open' };
    const path = schema === 'Pay' ? docs : `${docs}?scope=User:${ada.userId}`;
    const created = await platform.admin.post(path, { inputDocument });
    const id: string = expectStatus(created, 200, 'create').body._id;
    if (scope) await permissions.relate(`${scope} reader ${schema}:${id}`);
    if (schema === 'Card') {
      const way = [`User:${bob.userId} member Circle:three`, `User:${bob.userId} member Shelf:one`];
      await permissions.relate(...way, `Shelf:one on Card:${id}`, banned);
    }
    const seen = await seenMeanwhile({ schema, id, ...(scope && { query: { scope } }) }, steps);
    if (schema === 'Card') await permissions.unrelate(banned);
    expect(seen).not.toContain('secret');
    expect(seen).toContain('open');
  });

  type Step = () => Promise<unknown>;
  interface Watched {
    readonly schema: string;
    readonly id: string;
    readonly query?: Readonly<Record<string, string>>;
  }

  /** What bob is shown by every way, while a right comes and goes and other things are written once it has gone. */
  async function seenMeanwhile(
    { schema, id, query = {} }: Watched,
    [give, take]: readonly Step[],
  ): Promise<readonly string[]> {
    const path = `/database/${schema}/${id}`;
    let ended = false;
    const seen = new Map<string, number>();
    const ways = [
      () => bob.api.get(path, { query }),
      () => bob.api.get(`/database/${schema}`, { query: { limit: 100, ...query } }),
      () =>
        schema === 'Pay'
          ? bob.api.post('/graphql', { query: `{ getDatabasePayId(id: "${id}") { _id text } }` })
          : bob.api.post(
              `/database/${schema}/query`,
              { query: { text: { $in: ['open', 'secret'] } } },
              { query },
            ),
    ];
    const underWay = new Map<number, Promise<unknown>>();
    const read = async (n: number): Promise<void> => {
      while (!ended) {
        const asked = (ways[n % ways.length] ?? (() => bob.api.get(path)))();
        underWay.set(n, asked);
        const { status, body } = await asked;
        const found: Json[] = body.documents ?? [body.data?.getDatabasePayId ?? body];
        const what =
          status === 200 ? (found.find(({ _id }) => _id === id)?.text ?? '404') : String(status);
        seen.set(what, (seen.get(what) ?? 0) + 1);
      }
    };
    const readers = Array.from({ length: READERS }, (_, n) => read(n));
    const docs = `/database/schemas/${schema}/docs/${id}`;
    const write = async (text: string) =>
      expectStatus(await platform.admin.put(docs, { changedDocument: { text } }), 200, 'change');
    // Whoever may not read it yet, or any more, knows nothing of what stands there meanwhile.
    const goesOn = (round: number) => round < (seen.has('open') ? ROUNDS : MOST_ROUNDS);
    for (let round = 0; goesOn(round); round += 1) {
      await give?.();
      await take?.();
      await write('secret');
      await write('open');
      // A right that comes back during one read is the same right (decision 555).
      await Promise.all(underWay.values());
    }
    ended = true;
    await Promise.all(readers);
    return [...seen.keys()].sort();
  }

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
