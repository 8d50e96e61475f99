/** What the audit log says about changes of teams by their members: who became what, and no token. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let owner: TestUser;
let guest: TestUser;
let team: string;

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const teams = { enabled: true, allowAddWithoutInvite: true, invites: { enabled: true } };
  await platform.admin.patch('/config/authentication', { config: { teams } });
  owner = await platform.registerUser();
  guest = await platform.registerUser();
  team = (await owner.api.post('/authentication/teams', { name: 'written down' })).body._id;
});
afterAll(() => platform?.close());

const path = (rest: string): string => `/authentication/teams/${team}/${rest}`;
const last = async (action: string) =>
  (
    await platform.admin.get('/audit-logs', {
      query: { action: `authentication.teams.${action}`, limit: 1 },
    })
  ).body.entries[0];
const byOwner = (changes: object) => ({
  actor: { id: owner.userId },
  target: `teamId:${team}`,
  ip: '127.0.0.1',
  changes,
});

const joins = async (userId: string): Promise<number> => {
  const { Client } = (await import('pg')).default;
  const database = new Client({ connectionString: platform.databaseUrl });
  await database.connect();
  const text = `select 1 from penstock.outbox where topic = 'authentication:join:team' and payload -> 'userIds' ? $1`;
  const { rowCount } = await database.query(text, [userId]);
  await database.end();
  return rowCount ?? 0;
};

test('members that are added, changed and removed are named with their roles', async () => {
  const members = [guest.userId];
  await owner.api.post(path('add'), { userId: guest.userId });
  expect(await last('addMember')).toMatchObject(byOwner({ userId: guest.userId }));
  await owner.api.patch(path('members'), { members, role: 'editAll' });
  expect(await last('changeMembers')).toMatchObject(byOwner({ members, role: 'editAll' }));
  await owner.api.delete(path(`members?members=${guest.userId}`));
  expect(await last('removeMembers')).toMatchObject(byOwner({ members }));
});

test('an invitation is there with address and role, its use with team and role, neither with the token', async () => {
  const { result } = (await owner.api.post(path('invite'), { email: guest.email, role: 'readAll' }))
    .body;
  expect(await last('invite')).toMatchObject(byOwner({ email: guest.email, role: 'readAll' }));
  await guest.api.post('/authentication/teams/invite/accept', { invitationToken: result });
  expect(await last('accept')).toMatchObject({
    actor: { id: guest.userId },
    outcome: 'success',
    changes: { teamId: team, role: 'readAll' },
  });
  expect((await platform.admin.get('/audit-logs?limit=100')).text).not.toContain(result);
});

test('whoever has the role already joins nothing: no second event', async () => {
  const { result } = (await owner.api.post(path('invite/persistent'), { role: 'member' })).body;
  const statuses = await Promise.all(
    Array.from(
      { length: 10 },
      async () =>
        (await guest.api.post('/authentication/teams/invite/accept', { invitationToken: result }))
          .status,
    ),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await joins(guest.userId)).toBe(1);
  expect(await last('offer')).toMatchObject(byOwner({ role: 'member' }));
});
