/**
 * Every team route for every kind of caller. The reference checked the truthiness of an answer instead of the answer,
 * so that anybody could become the owner of any team (spec/authentication.md W1; CWE-862, missing authorization,
 * https://cwe.mitre.org/data/definitions/862.html).
 */
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Answer } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const kinds = [
  'nobody',
  'stranger',
  'member',
  'readAll',
  'editAll',
  'owner',
  'parentEditAll',
  'parentOwner',
] as const;
type Kind = (typeof kinds)[number];

let platform: TestPlatform;
const users = new Map<Kind, TestUser>();
/** Users on whom things are done. */
const others = { target: '', ownerTarget: '', added: '' };
let counter = 0;
const next = (): number => {
  counter += 1;
  return counter;
};

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const teams = { enabled: true, allowAddWithoutInvite: true, invites: { enabled: true } };
  expect((await platform.admin.patch('/config/authentication', { config: { teams } })).status).toBe(
    200,
  );
  for (const kind of kinds) if (kind !== 'nobody') users.set(kind, await platform.registerUser());
  for (const who of ['target', 'ownerTarget', 'added'] as const)
    others[who] = (await platform.registerUser()).userId;
});
afterAll(() => platform?.close());

const apiOf = (kind: Kind) => users.get(kind)?.api ?? platform.client;
const idOf = (kind: Kind): string => users.get(kind)?.userId ?? '';

interface Setup {
  readonly team: string;
  /** A plain member on whom things are done. */
  readonly target: string;
  readonly ownerTarget: string;
}

/** A fresh parent and a fresh team below it, with somebody in each role. */
async function setUp(): Promise<Setup> {
  const name = `team ${next()}`;
  const parent = (await platform.admin.post('/authentication/teams', { name: `parent ${name}` }))
    .body._id as string;
  const team = (await platform.admin.post('/authentication/teams', { name, parentTeam: parent }))
    .body._id as string;
  const give = async (to: string, kind: Kind | string, role: string) =>
    expect(
      (
        await platform.admin.post(`/authentication/teams/${to}/members`, {
          members: [users.get(kind as Kind)?.userId ?? kind],
          role,
        })
      ).status,
    ).toBe(200);
  for (const role of ['member', 'readAll', 'editAll', 'owner'] as const)
    await give(team, role, role);
  await give(parent, 'parentOwner', 'owner');
  await give(parent, 'parentEditAll', 'editAll');
  const { target, ownerTarget } = others;
  await give(team, target, 'member');
  await give(team, ownerTarget, 'owner');
  return { team, target, ownerTarget };
}

interface Case {
  readonly route: string;
  /** Who passes; everybody else gets `refused` (403), and nobody gets 401. */
  readonly passes: readonly Kind[];
  readonly refused?: number;
  call(kind: Kind, setUp: Setup): Promise<Answer>;
}

const all = kinds.filter((kind) => kind !== 'nobody');
const readers: readonly Kind[] = ['readAll', 'editAll', 'owner', 'parentEditAll', 'parentOwner'];
const runners: readonly Kind[] = ['editAll', 'owner', 'parentEditAll', 'parentOwner'];
const owners: readonly Kind[] = ['owner', 'parentOwner'];
const query = (name: string, value: string): string => `?${name}=${encodeURIComponent(value)}`;
const email = (): string => `guest${next()}@example.com`;

const cases: readonly Case[] = [
  {
    route: 'POST /teams',
    passes: all,
    call: (kind) => apiOf(kind).post('/authentication/teams', { name: `own ${next()}` }),
  },
  {
    route: 'POST /teams below',
    passes: runners,
    call: (kind, { team }) =>
      apiOf(kind).post('/authentication/teams', { name: 'sub', parentTeam: team }),
  },
  { route: 'GET /teams', passes: all, call: (kind) => apiOf(kind).get('/authentication/teams') },
  {
    route: 'GET /teams/invites',
    passes: all,
    call: (kind) => apiOf(kind).get('/authentication/teams/invites'),
  },
  {
    route: 'GET /teams/:teamId',
    passes: ['member', ...readers],
    call: (kind, { team }) => apiOf(kind).get(`/authentication/teams/${team}`),
  },
  {
    route: 'PATCH /teams/:teamId',
    passes: runners,
    call: (kind, { team }) =>
      apiOf(kind).patch(`/authentication/teams/${team}`, { name: `renamed ${team}` }),
  },
  {
    route: 'DELETE /teams/:teamId',
    passes: ['owner', 'parentEditAll', 'parentOwner'],
    call: (kind, { team }) => apiOf(kind).delete(`/authentication/teams/${team}`),
  },
  {
    route: 'GET members',
    passes: ['member', ...readers],
    call: (kind, { team }) => apiOf(kind).get(`/authentication/teams/${team}/members`),
  },
  {
    route: 'PATCH members',
    passes: runners,
    call: (kind, { team, target }) =>
      apiOf(kind).patch(`/authentication/teams/${team}/members`, {
        members: [target],
        role: 'readAll',
      }),
  },
  {
    route: 'PATCH members to editAll',
    passes: runners,
    call: (kind, { team, target }) =>
      apiOf(kind).patch(`/authentication/teams/${team}/members`, {
        members: [target],
        role: 'editAll',
      }),
  },
  {
    route: 'PATCH members to owner',
    passes: owners,
    call: (kind, { team, target }) =>
      apiOf(kind).patch(`/authentication/teams/${team}/members`, {
        members: [target],
        role: 'owner',
      }),
  },
  {
    route: 'PATCH an owner down',
    passes: owners,
    call: (kind, { team, ownerTarget }) =>
      apiOf(kind).patch(`/authentication/teams/${team}/members`, {
        members: [ownerTarget],
        role: 'member',
      }),
  },
  {
    route: 'DELETE members',
    passes: runners,
    call: (kind, { team, target }) =>
      apiOf(kind).delete(`/authentication/teams/${team}/members${query('members', target)}`),
  },
  {
    route: 'DELETE an owner',
    passes: owners,
    call: (kind, { team, ownerTarget }) =>
      apiOf(kind).delete(`/authentication/teams/${team}/members${query('members', ownerTarget)}`),
  },
  {
    route: 'POST leave',
    passes: ['member', 'readAll', 'editAll', 'owner'],
    refused: 400,
    call: (kind, { team }) => apiOf(kind).post(`/authentication/teams/${team}/leave`),
  },
  {
    route: 'GET sub-teams',
    passes: readers,
    call: (kind, { team }) => apiOf(kind).get(`/authentication/teams/${team}/teams`),
  },
  {
    route: 'POST invite',
    passes: runners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/invite`, { email: email(), role: 'editAll' }),
  },
  {
    route: 'POST invite as owner',
    passes: owners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/invite`, { email: email(), role: 'owner' }),
  },
  {
    route: 'GET invites',
    passes: runners,
    call: (kind, { team }) => apiOf(kind).get(`/authentication/teams/${team}/invites`),
  },
  {
    route: 'DELETE invite',
    passes: runners,
    async call(kind, { team }) {
      const address = email();
      await apiOf('owner').post(`/authentication/teams/${team}/invite`, {
        email: address,
        role: 'member',
      });
      return apiOf(kind).delete(`/authentication/teams/${team}/invite${query('email', address)}`);
    },
  },
  {
    route: 'DELETE the invite of an owner',
    passes: owners,
    async call(kind, { team }) {
      const address = email();
      await apiOf('owner').post(`/authentication/teams/${team}/invite`, {
        email: address,
        role: 'owner',
      });
      return apiOf(kind).delete(`/authentication/teams/${team}/invite${query('email', address)}`);
    },
  },
  {
    route: 'POST invite/persistent',
    passes: owners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/invite/persistent`, { role: 'member' }),
  },
  {
    route: 'POST invite/persistent as owner',
    passes: owners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/invite/persistent`, { role: 'owner' }),
  },
  {
    route: 'DELETE invite/persistent',
    passes: owners,
    async call(kind, { team }) {
      const { result } = (
        await apiOf('owner').post(`/authentication/teams/${team}/invite/persistent`, {
          role: 'member',
        })
      ).body;
      return apiOf(kind).delete(
        `/authentication/teams/${team}/invite/persistent${query('invitationToken', String(result))}`,
      );
    },
  },
  {
    route: 'POST add',
    passes: runners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/add`, { userId: others.added }),
  },
  {
    route: 'POST add as owner',
    passes: owners,
    call: (kind, { team }) =>
      apiOf(kind).post(`/authentication/teams/${team}/add`, {
        userId: others.added,
        role: 'owner',
      }),
  },
];

describe.each(cases)('$route', ({ passes, refused = 403, call }) => {
  test.each(kinds)('for %s', async (kind) => {
    const place = await setUp();
    const { status, text } = await call(kind, place);
    const expected = kind === 'nobody' ? 401 : passes.includes(kind) ? 200 : refused;
    expect({ status, text: status === expected ? '' : text }).toEqual({
      status: expected,
      text: '',
    });
  });
});

test('nobody changes or removes themselves', async () => {
  const { team } = await setUp();
  const own = apiOf('owner');
  expect(
    await own.patch(`/authentication/teams/${team}/members`, {
      members: [idOf('owner')],
      role: 'member',
    }),
  ).toMatchObject({
    status: 400,
    body: { code: 'OWN_MEMBERSHIP_PROTECTED' },
  });
  expect(
    await own.delete(`/authentication/teams/${team}/members${query('members', idOf('owner'))}`),
  ).toMatchObject({
    status: 400,
    body: { code: 'OWN_MEMBERSHIP_PROTECTED' },
  });
});

test('one member above the caller refuses the whole call', async () => {
  const { team, target, ownerTarget } = await setUp();
  const both = `?members=${target}&members=${ownerTarget}`;
  expect(
    await apiOf('editAll').delete(`/authentication/teams/${team}/members${both}`),
  ).toMatchObject({
    status: 403,
    body: { code: 'ROLE_FORBIDDEN' },
  });
  const { body } = await platform.admin.get(`/authentication/teams/${team}/members?limit=100`);
  expect((body.members as { _id: string }[]).map(({ _id }) => _id)).toEqual(
    expect.arrayContaining([target, ownerTarget]),
  );
});

test('anonymous users see teams and do nothing with them', async () => {
  const { team } = await setUp();
  const user = await platform.registerUser();
  const database = new Client({ connectionString: platform.databaseUrl ?? '' });
  await database.connect();
  await database.query('update "app"."User" set "isAnonymous" = true where "_id" = $1', [
    user.userId,
  ]);
  await database.end();
  await platform.admin.post(`/authentication/teams/${team}/members`, {
    members: [user.userId],
    role: 'owner',
  });
  const path = `/authentication/teams/${team}`;
  expect((await user.api.get('/authentication/teams')).body).toMatchObject({ count: 1 });
  expect((await user.api.get(path)).status).toBe(200);
  const refused = await Promise.all([
    user.api.post('/authentication/teams', { name: 'mine' }),
    user.api.get('/authentication/teams/invites'),
    user.api.patch(path, { name: 'mine' }),
    user.api.delete(path),
    user.api.get(`${path}/members`),
    user.api.patch(`${path}/members`, { members: [others.target], role: 'member' }),
    user.api.delete(`${path}/members${query('members', others.target)}`),
    user.api.get(`${path}/teams`),
    user.api.post(`${path}/invite`, { email: email(), role: 'member' }),
    user.api.delete(`${path}/invite${query('email', email())}`),
    user.api.get(`${path}/invites`),
    user.api.post(`${path}/invite/persistent`, { role: 'member' }),
    user.api.delete(`${path}/invite/persistent${query('invitationToken', 'x'.repeat(43))}`),
    user.api.post(`${path}/leave`),
    user.api.post(`${path}/add`, { userId: others.added }),
    user.api.post('/authentication/teams/invite/accept', { invitationToken: 'x'.repeat(43) }),
    user.api.get(`/authentication/teams/invite/accept${query('invitationToken', 'x'.repeat(43))}`),
  ]);
  expect(refused.map(({ status, body }) => `${status} ${body.code}`)).toEqual(
    refused.map(() => '403 FORBIDDEN'),
  );
});
