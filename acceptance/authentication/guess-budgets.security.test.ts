/**
 * Guesses at a password or a second factor are counted per account over all nodes and restarts: a further
 * process, or a crash, buys no further guess (CWE-307; security review 2026-11-22, F7).
 */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus, type TestNode } from '../../test/support/node.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';

await describeWithPostgres15('guesses over two nodes without Redis, and over a restart', () => {
  let nodes: TwoNodes;
  let restarted: SpawnedPlatform | undefined;

  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
    expectStatus(
      await nodes.first.admin.patch('/config/authentication', {
        config: { twoFa: { enabled: true } },
      }),
      200,
      'configure',
    );
  }, 120_000);
  afterAll(async () => {
    await restarted?.dispose();
    await nodes?.close();
  }, 60_000);

  const afterRestart = async (): Promise<TestNode> => {
    restarted ??= await spawnPlatform({ env: { DATABASE_URL: nodes.databaseUrl, REDIS_URL: '' } });
    return restarted;
  };
  /** Six guesses at each of both, all at once at the second; then two at a process that began afterwards. */
  const guessEverywhere = async (
    guess: (node: TestNode, nth: number) => Promise<number>,
  ): Promise<readonly number[]> => {
    const statuses: number[] = [];
    for (let i = 0; i < 6; i += 1) statuses.push(await guess(nodes.first, i));
    statuses.push(
      ...(await Promise.all([6, 7, 8, 9, 10, 11].map((nth) => guess(nodes.second, nth)))).sort(),
    );
    const third = await afterRestart();
    return [...statuses, await guess(third, 12), await guess(third, 13)];
  };
  const tenThenNoMore = (wrong: number): readonly number[] => [
    ...Array.from({ length: 10 }, () => wrong),
    429,
    429,
    429,
    429,
  ];

  it('ten passwords in all', async () => {
    const { email, password } = await nodes.first.registerUser();
    const statuses = await guessEverywhere(
      async (node, nth) =>
        (await node.client.post('/authentication/local', { email, password: `${password}${nth}` }))
          .status,
    );
    expect(statuses).toEqual(tenThenNoMore(401));
  }, 90_000);

  it('ten codes of an authenticator in all', async () => {
    const user = await nodes.first.registerUser();
    const { secret } = expectStatus(
      await user.api.put('/authentication/twoFa/enable', { method: 'authenticator' }),
      200,
      'enable',
    ).body;
    expectStatus(
      await user.api.post('/authentication/twoFa/enable/verify', {
        code: generateSync({ secret }),
      }),
      200,
      'confirm',
    );
    const { accessToken } = (
      await nodes.first.client.post('/authentication/local', {
        email: user.email,
        password: user.password,
      })
    ).body;
    const statuses = await guessEverywhere(async (node, nth) => {
      const code = String(100_000 + nth);
      return (
        await node.client
          .with({ authorization: `Bearer ${accessToken}` })
          .post('/authentication/twoFa/verify', { code })
      ).status;
    });
    expect(statuses).toEqual(tenThenNoMore(400));
  }, 90_000);
});
