/**
 * What works once works once over two nodes: 50 uses at the same moment, half of them at each. A node that keeps used
 * codes in its own memory fails here (https://portswigger.net/research/smashing-the-state-machine).
 */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';

const uses = 50;

await describeWithPostgres15('single use over two nodes without Redis', () => {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
    const config = {
      twoFa: { enabled: true, backUpCodes: { enabled: true } },
      teams: {
        enabled: true,
        enableDefaultTeam: false,
        invites: { enabled: true, sendEmail: false },
      },
    };
    const set = await nodes.first.admin.patch('/config/authentication', { config });
    expectStatus(set, 200, 'configure');
  }, 120_000);
  afterAll(() => nodes?.close(), 60_000);

  const atBoth = (use: (node: TestNode) => Promise<Answer<Json>>): Promise<Answer<Json>[]> =>
    Promise.all(
      Array.from({ length: uses }, (_, nth) => use(nth % 2 === 0 ? nodes.first : nodes.second)),
    );
  /** One answer is 200, all others have one of the statuses that refuse. */
  const expectOnce = (answers: readonly Answer<Json>[], refusals: readonly number[]): void => {
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status !== 200 && !refusals.includes(status))).toEqual([]);
  };
  const enroll = async (): Promise<{ user: TestUser; secret: string; recoveryCode: string }> => {
    const user = await nodes.first.registerUser();
    const begun = await user.api.put('/authentication/twoFa/enable', { method: 'authenticator' });
    const { secret } = expectStatus(begun, 200, 'enable').body;
    const code = generateSync({ secret });
    const enabled = await user.api.post('/authentication/twoFa/enable/verify', { code });
    expectStatus(enabled, 200, 'confirm');
    const made = await user.api.post('/authentication/twoFa/backup-codes');
    return { user, secret, recoveryCode: expectStatus(made, 200, 'make codes').body.codes[0] };
  };
  /** A login that lacks the second step. */
  const partial = async ({ email, password }: TestUser): Promise<{ authorization: string }> => {
    const answer = await nodes.first.client.post('/authentication/local', { email, password });
    const { accessToken } = expectStatus(answer, 200, 'first step').body;
    return { authorization: `Bearer ${accessToken}` };
  };

  it('a code of an authenticator', async () => {
    const { user, secret } = await enroll();
    const headers = await partial(user);
    // The code of this step was used to switch the second factor on: this is the next one.
    const code = generateSync({ secret, epoch: Date.now() / 1000 + 30 });
    const answers = await atBoth(({ client }) =>
      client.with(headers).post('/authentication/twoFa/verify', { code }),
    );
    expectOnce(answers, [400, 401, 429]);
  }, 60_000);

  it('a recovery code', async () => {
    const { user, recoveryCode: code } = await enroll();
    const headers = await partial(user);
    const answers = await atBoth(({ client }) =>
      client.with(headers).post('/authentication/twoFa/recover', { code }),
    );
    expectOnce(answers, [400, 401, 429]);
  }, 60_000);

  it('an invitation to a team', async () => {
    const owner = await nodes.first.registerUser();
    const guest = await nodes.first.registerUser();
    const team = await owner.api.post('/authentication/teams', { name: 'shared' });
    const path = `/authentication/teams/${expectStatus(team, 200, 'create a team').body._id}`;
    const invited = await owner.api.post(`${path}/invite`, { email: guest.email, role: 'member' });
    const invitationToken = expectStatus(invited, 200, 'invite').body.result;
    const headers = { authorization: `Bearer ${guest.accessToken}` };
    const answers = await atBoth(({ client }) =>
      client.with(headers).post('/authentication/teams/invite/accept', { invitationToken }),
    );
    expectOnce(answers, [403, 429]);
    const members = await owner.api.get(`${path}/members`);
    expect(members.body.count).toBe(2);
  }, 60_000);

  it('a refresh token has one successor, whoever of two nodes is asked', async () => {
    const { refreshToken } = await nodes.first.registerUser();
    const answers = await atBoth(({ client }) =>
      client.with({ authorization: `Bearer ${refreshToken}` }).post('/authentication/renew'),
    );
    const renewed = answers.filter(({ status }) => status === 200);
    expect(renewed.length).toBeGreaterThan(0);
    expect(answers.filter(({ status }) => status !== 200 && status !== 401)).toEqual([]);
    expect(new Set(renewed.map(({ body }) => body.refreshToken)).size).toBe(1);
    // The successor is used at one node; the first token ends the session at the other.
    const renew = (node: TestNode, token: string) =>
      node.client.with({ authorization: `Bearer ${token}` }).post('/authentication/renew');
    expect((await renew(nodes.first, renewed[0]?.body.refreshToken)).status).toBe(200);
    expect((await renew(nodes.second, refreshToken)).status).toBe(401);
    for (const node of [nodes.first, nodes.second]) {
      const token = renewed[0]?.body.accessToken;
      expect((await node.client.get('/authentication/user', { token })).status).toBe(401);
    }
  }, 60_000);
});
