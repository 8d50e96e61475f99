/**
 * kill -9 while mails go out and chains move on: nothing is lost, and only what was on the wire at that moment may arrive
 * twice, which its timeline says. `MESSAGE_KILLS` and `MESSAGE_COUNT` for long runs.
 */
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectToEmbedded } from '../../test/support/embedded-database.ts';
import { expectStatus } from '../../test/support/node.ts';
import { type SpawnedPlatform, spawnPlatform, startedFolder } from '../../test/support/spawn.ts';
import { removeFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const kills = Number(process.env.MESSAGE_KILLS ?? 3);
const count = Number(process.env.MESSAGE_COUNT ?? 100);
const chainsPerRound = 10;

describe('kill -9 while messages go out', { timeout: 600_000 + kills * 60_000 }, () => {
  let dataDir: string;
  let server: SMTPServer;
  /** How often each mail arrived, by its Message-ID. */
  const arrived = new Map<string, number>();
  beforeAll(async () => {
    dataDir = await startedFolder();
    server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      onData(stream, _session, done) {
        let text = '';
        stream.on('data', (chunk: Buffer) => {
          text += chunk.toString('latin1');
        });
        stream.on('end', () => {
          const [, id = ''] = /^Message-ID: <([^@>]+)@/im.exec(text) ?? [];
          arrived.set(id, (arrived.get(id) ?? 0) + 1);
          done();
        });
      },
    });
    server.on('error', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    await new Promise<void>((resolve) => server.close(resolve));
    await removeFolder(dataDir);
  });

  it('every mail arrives, and every chain takes each step once', async () => {
    const sent: string[] = [];
    const chains: string[] = [];
    let begun = new Date();
    let platform = await spawnPlatform({ dataDir });
    const { port } = server.server.address() as AddressInfo;
    const smtp = { host: '127.0.0.1', port, ignoreTls: true };
    const config = { email: { sendingDomain: 'example.com', transportSettings: { smtp } } };
    expectStatus(await platform.admin.patch('/config/communications', { config }), 200, 'config');
    for (let round = 0; round <= kills; round += 1) {
      await write(platform, { sent, chains, round });
      if (round === kills) break;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 400));
      await platform.kill();
      await platform.dispose();
      begun = new Date();
      platform = await spawnPlatform({ dataDir });
    }
    const database = await connectToEmbedded(dataDir);
    try {
      const open = async () => {
        // What a killed process had taken is given up after a minute: the clock is turned, not the rule.
        await database.query(
          `update penstock.messages set claimed_at = claimed_at - interval '10 minutes' where status = 'sending' and claimed_at < $1`,
          [begun],
        );
        await database.query(
          `update penstock_jobs.job set started_on = started_on - interval '10 minutes', heartbeat_on = heartbeat_on - interval '10 minutes'
             where name like 'communications.%' and state = 'active' and started_on < $1 and started_on > now() - interval '5 minutes'`,
          [begun],
        );
        const { rows } = await database.query<{ open: number }>(
          `select (select count(*)::int from penstock.messages where status in ('queued', 'sending')) +
                  (select count(*)::int from penstock.message_chains where status = 'running') as open`,
        );
        return rows[0]?.open ?? 1;
      };
      await waitFor(async () => (await open()) === 0, {
        timeoutMs: 400_000,
        what: 'everything to go out',
      });
      expect(sent.filter((id) => !arrived.has(id))).toEqual([]);
      const { rows: doubtful } = await database.query<{ id: string }>(
        `select distinct message_id::text as id from penstock.message_events where kind = 'retaken'`,
      );
      const told = new Set(doubtful.map(({ id }) => id));
      expect([...arrived].filter(([id, times]) => times > 1 && !told.has(id))).toEqual([]);
      const { rows } = await database.query<{ status: string; messages: number }>(
        `select status, (select count(*)::int from penstock.messages m where m.chain_id = c.id) as messages
           from penstock.message_chains c`,
      );
      expect(rows.length).toBeGreaterThanOrEqual(chains.length);
      expect(rows.filter(({ status, messages }) => status !== 'done' || messages !== 2)).toEqual(
        [],
      );
      // Whom something was written to is not for the log.
      expect(platform.stdout() + platform.stderr()).not.toContain('@example.org');
    } finally {
      await database.end();
      await platform.dispose();
    }
  });
});

/** Mails and chains; those that were acknowledged are noted. A chain: a push message that nobody reads, then a mail. */
async function write(
  platform: SpawnedPlatform,
  {
    sent,
    chains,
    round,
  }: { readonly sent: string[]; readonly chains: string[]; readonly round: number },
): Promise<void> {
  const { api } = await platform.registerUser();
  const recipient = (await api.get('/authentication/user')).body._id;
  const mail = async (n: number) => {
    const body = { email: `r${round}n${n}@example.org`, subject: 's', body: 'b' };
    const answer = await platform.admin.post('/email/send', body);
    if (answer.status === 200) sent.push(answer.body.messageId);
  };
  for (let n = 0; n < count; n += 20)
    await Promise.all(Array.from({ length: 20 }, (_, index) => mail(n + index)));
  for (let n = 0; n < chainsPerRound; n += 1) {
    const answer = await platform.admin.post('/send/fallback', {
      recipient: { userId: recipient, email: `chain${round}n${n}@example.org` },
      subject: 's',
      body: 'b',
      fallbackChain: [
        { channel: 'push', until: 'read', timeout: 400 },
        { channel: 'email', timeout: 600_000 },
      ],
    });
    if (answer.status === 200) chains.push(answer.body.chainId);
  }
}
