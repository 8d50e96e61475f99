/** What users make is data: it is in no export, no apply makes it elsewhere, and no prune takes it away. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import { openTestConnection } from '../test/support/connection.ts';
import { expectStatus, type TestUser } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { fillState } from './state-example.ts';

const teamPath = '/authentication/teams';
const keysOf = ({ plan }: Json, type: string): string[] =>
  plan
    .filter((entry: Json) => entry.type === type && entry.action !== 'noop')
    .map(({ action, key }: Json) => `${action} ${key}`);

async function preparedPlatform(): Promise<TestPlatform> {
  const platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await fillState(platform.admin);
  const teams = { enabled: true, invites: { enabled: true }, allowAddWithoutInvite: true };
  expectStatus(
    await platform.admin.patch('/config/authentication', { config: { teams } }),
    200,
    'teams',
  );
  return platform;
}

const exported = async ({ admin }: TestPlatform): Promise<string> =>
  expectStatus(await admin.get('/state/export'), 200, 'export').text;

/** Everything that somebody with an account can make. */
async function useTheClient(
  { client }: TestPlatform,
  anna: TestUser,
  bob: TestUser,
): Promise<string> {
  const post = async (api: Api, path: string, body: unknown, query = {}) =>
    expectStatus(await api.post(path, body, { query }), 200, path).body;
  const team = (await post(anna.api, teamPath, { name: 'Anna Team' }))._id as string;
  await post(anna.api, teamPath, { name: 'Design', parentTeam: team, addCreatorToTeam: true });
  await post(anna.api, `${teamPath}/${team}/add`, { userId: bob.userId, role: 'editAll' });
  await post(bob.api, teamPath, { name: 'Made by bob', parentTeam: team });
  await post(anna.api, `${teamPath}/${team}/invite`, { email: 'carl@example.com', role: 'member' });
  await post(anna.api, `${teamPath}/${team}/invite/persistent`, { role: 'member' });
  await post(anna.api, '/database/Note', { text: 'of the team' }, { scope: `Team:${team}` });
  await post(bob.api, '/database/Note', { text: 'their own' });
  await post(anna.api, '/database/Artist', { name: 'Anybody' });
  expectStatus(
    await anna.api.patch('/authentication/user', { userData: { nickname: 'an' } }),
    200,
    'user data',
  );
  await post(client, '/authentication/local/new', {
    email: 'dora@example.com',
    password: 'Correct-Horse-43',
  });
  return team;
}

describe('state and what users make', () => {
  let staging: TestPlatform;
  let production: TestPlatform;
  let anna: TestUser;
  let team: string;

  beforeAll(async () => {
    [staging, production] = await Promise.all([preparedPlatform(), preparedPlatform()]);
    [anna] = await Promise.all([production.registerUser()]);
  });
  afterAll(async () => {
    await Promise.all([staging?.close(), production?.close()]);
  });

  it('are two things: nothing that the client surface makes changes a byte of the export', async () => {
    const before = await exported(production);
    team = await useTheClient(production, anna, await production.registerUser());
    expect(await exported(production)).toBe(before);
    expect(JSON.parse(before).modules.authentication.teams.map(({ name }: Json) => name)).toEqual([
      'Label',
      'A/B testers',
    ]);
  });

  it('do not travel from one platform to another, and a prune leaves them where they are', async () => {
    const tester = await staging.registerUser();
    expectStatus(await tester.api.post(teamPath, { name: 'Design' }), 200, 'team of a tester');
    expectStatus(
      await staging.admin.post(teamPath, { name: 'Support' }),
      200,
      'team of an operator',
    );
    expectStatus(
      await production.admin.post(teamPath, { name: 'Old' }),
      200,
      'team of an operator',
    );
    const document = JSON.parse(await exported(staging));
    const query = { prune: true };
    const planned = expectStatus(
      await production.admin.post('/state/plan', document, { query }),
      200,
      'plan',
    ).body;
    expect(keysOf(planned, 'teams')).toEqual(['delete Old', 'create Support']);
    const confirm = planned.checksum;
    const done = await production.admin.post('/state/import', document, {
      query: { ...query, confirm },
    });
    expect(expectStatus(done, 200, 'import').body.moduleResults.authentication.teams).toMatchObject(
      { created: 1, deleted: 1, failed: 0 },
    );
    expect((await anna.api.get(teamPath)).body.teams.map(({ name }: Json) => name).sort()).toEqual([
      'Anna Team',
      'Design',
    ]);
    expect((await anna.api.get('/database/Note')).body.documents).toHaveLength(1);
    expect((await anna.api.post(teamPath, { name: 'Design' })).status).toBe(200);
  });

  it('part where an operator takes a team over', async () => {
    const label = (await production.admin.get(teamPath, { query: { search: 'Label' } })).body
      .teams[0]._id;
    await production.admin.post(`${teamPath}/${label}/members`, {
      members: [anna.userId],
      role: 'editAll',
    });
    const made = expectStatus(
      await anna.api.post(teamPath, { name: 'Scouts', parentTeam: label }),
      200,
      'sub-team',
    ).body._id;
    const teams = [{ name: 'Scouts', parentTeamName: 'Label', isDefault: false }];
    const refused = await production.admin.post('/state/import', {
      modules: { authentication: { teams } },
    });
    expect(refused).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'modules.authentication.teams.0.name', rule: 'unique' }] },
    });
    expect(
      (await production.admin.patch(`${teamPath}/${made}`, { origin: 'operator' })).status,
    ).toBe(200);
    expect(JSON.parse(await exported(production)).modules.authentication.teams).toContainEqual(
      teams[0],
    );
    // One below a customer's team has no place that another platform could know.
    expectStatus(
      await production.admin.post(teamPath, { name: 'Ours', parentTeam: team }),
      200,
      'sub-team of an operator',
    );
    expect(await exported(production)).not.toContain('"Ours"');
  });

  it('are told apart by who owns them where they were made before that was written down', async () => {
    const before = await exported(production);
    const sql = await openTestConnection(production.databaseUrl ?? '');
    try {
      await sql.query(`
        update "app"."Team" set "madeBy" = null where "parentTeam" is null or "name" = 'Design';
        delete from penstock.migrations where id = 'teams-0003-makers';
        drop index "app".teams_by_name, "app".teams_root_names;
        delete from "app"."Team" where "parentTeam" is null and "name" = 'Design';
        create unique index teams_by_name on "app"."Team" ("parentTeam", "name") nulls not distinct`);
    } finally {
      await sql.close();
    }
    const upgraded = await createTestPlatform({ databaseUrl: production.databaseUrl ?? '' });
    try {
      expect(await exported(upgraded)).toBe(before);
    } finally {
      await upgraded.close();
    }
  });
});
