import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../test/support/authentication.ts';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
});
afterAll(() => fixture.close());

interface Listed {
  readonly users: readonly Record<string, unknown>[];
  readonly count: number;
}

const password = 'correct horse battery staple';
const create = (body: object) =>
  fixture.node.call('authentication.users.create', { body: { password, ...body } });
const list = async (query: object = {}): Promise<Listed> =>
  (await fixture.node.call('authentication.users.list', { query: { ...query } }))
    .body as unknown as Listed;
const idOf = (body: Record<string, unknown>): string => (body.user as { _id: string })._id;

test('creates verified users by exactly one of address and name', async () => {
  expect(await create({ email: 'Ada@Example.com' })).toMatchObject({
    status: 200,
    body: { user: { email: 'ada@example.com', isVerified: true } },
  });
  expect(await create({ username: 'Grace.Hopper' })).toMatchObject({
    status: 200,
    body: { user: { username: 'grace.hopper', email: null } },
  });
  expect((await create({})).status).toBe(400);
  expect((await create({ email: 'a@example.com', username: 'abc' })).status).toBe(400);
  expect(await create({ username: 'GRACE.HOPPER' })).toMatchObject({
    status: 409,
    body: { code: 'USERNAME_EXISTS' },
  });
  expect(await create({ email: 'ada@example.com' })).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  expect(await create({ username: '../etc' })).toMatchObject({
    status: 400,
    body: { code: 'USERNAME_INVALID' },
  });
  expect(await create({ email: 'b@example.com', password: 'password' })).toMatchObject({
    status: 400,
    body: { code: 'PASSWORD_WEAK' },
  });
});

test('lists page by page, counts all that match, and shows no secret', async () => {
  for (let i = 0; i < 5; i += 1) await create({ email: `list${i}@pages.example` });
  const page = await list({ search: '@PAGES.', limit: 2, skip: 2, sort: ['-email'] });
  expect(page.count).toBe(5);
  expect(page.users.map(({ email }) => email)).toEqual([
    'list2@pages.example',
    'list1@pages.example',
  ]);
  expect(Object.keys(page.users[0] ?? {})).not.toContain('hashedPassword');
  expect(page.users[0]).toMatchObject({
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    active: true,
    __v: 0,
  });
  expect((await list({ search: String(page.users[0]?._id) })).users).toEqual([page.users[0]]);
});

test('a listed user is what the record engine answers', async () => {
  const { body } = await create({ email: 'same@shape.example' });
  expect((await list({ search: 'same@shape' })).users).toEqual([body.user]);
});

test.each(['%', '_', '\\', "'", '"; drop table "app"."User"; --'])(
  'searching for %s finds nothing and breaks nothing',
  async (search) => {
    expect(await list({ search })).toEqual({ users: [], count: 0 });
  },
);

test('filters by state', async () => {
  const { body } = await create({ email: 'blocked@filter.example' });
  await create({ email: 'active@filter.example' });
  await fixture.node.call('authentication.users.toggle', {
    body: { ids: [idOf(body)], block: true },
  });
  const emails = async (query: object) =>
    (await list({ search: '@filter.', ...query })).users.map(({ email }) => email);
  expect(await emails({ isActive: false })).toEqual(['blocked@filter.example']);
  expect(await emails({ isActive: true })).toEqual(['active@filter.example']);
  expect(await emails({ isAnonymous: true })).toEqual([]);
  expect(await emails({ provider: 'local' })).toHaveLength(2);
});

test('changes address, flag and phone number, and nothing else', async () => {
  const { body } = await create({ email: 'change@example.com' });
  const update = (change: object) =>
    fixture.node.call('authentication.users.update', { params: { id: idOf(body) }, body: change });
  expect(await update({ email: 'Changed@Example.com' })).toMatchObject({
    body: { email: 'changed@example.com', isVerified: false },
  });
  expect(await update({ isVerified: true, phoneNumber: '+30 690 000 0000' })).toMatchObject({
    body: { isVerified: true, phoneNumber: '+306900000000' },
  });
  expect(await update({ email: 'changed@example.com' })).toMatchObject({
    body: { isVerified: true },
  });
  expect(await update({ email: 'ada@example.com' })).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  expect(await update({ email: null })).toMatchObject({ status: 400 });
  expect(await update({ phoneNumber: '12' })).toMatchObject({ status: 400 });
  expect(await update({ phoneNumber: null })).toMatchObject({ body: { phoneNumber: null } });
  const missing = { params: { id: '00000000-0000-7000-8000-000000000000' }, body: {} };
  expect(await fixture.node.call('authentication.users.update', missing)).toMatchObject({
    status: 404,
  });
});

test('several users are deleted together or not at all', async () => {
  const ids = [];
  for (let i = 0; i < 3; i += 1)
    ids.push(idOf((await create({ email: `many${i}@delete.example` })).body));
  const missing = '00000000-0000-7000-8000-000000000000';
  const remove = (some: string[]) =>
    fixture.node.call('authentication.users.deleteMany', { query: { ids: some } });
  expect(await remove([...ids, missing])).toMatchObject({
    status: 404,
    body: { code: 'USER_NOT_FOUND' },
  });
  expect((await list({ search: '@delete.' })).count).toBe(3);
  expect((await remove(ids)).status).toBe(200);
  expect((await list({ search: '@delete.' })).count).toBe(0);
});

test('operators see the sessions of a user', async () => {
  const { body } = await create({ email: 'watched@example.com' });
  await fixture.node.call('authentication.local.login', {
    body: { email: 'watched@example.com', password },
  });
  const params = { id: idOf(body) };
  expect(await fixture.node.call('authentication.users.sessions', { params })).toMatchObject({
    status: 200,
    body: { count: 1 },
  });
  expect(await fixture.node.call('authentication.users.endSessions', { params })).toMatchObject({
    body: { result: '1 sessions ended' },
  });
  expect(await fixture.node.call('authentication.users.sessions', { params })).toMatchObject({
    body: { count: 0, sessions: [] },
  });
});
