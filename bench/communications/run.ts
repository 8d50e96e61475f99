/**
 * Measures how fast queued mails go out, beside the same SMTP library alone against the same local server.
 * `npm run bench:communications -- --mails 1000`; `--dry` leaves RESULTS.md as it is.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createTransport } from 'nodemailer';
import { SMTPServer } from 'smtp-server';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median } from '../statistics.ts';

const ROUNDS = 2;
/** Connections of the library alone: as many as the platform has. */
const CONNECTIONS = 5;
/** Time to store all mails before the first is due. Milliseconds. */
const LEAD_MS = 30_000;

interface Arrivals {
  readonly port: number;
  /** Since the last `forget`: when each mail came. */
  readonly times: number[];
  forget(): void;
  close(): Promise<void>;
}

async function startServer(): Promise<Arrivals> {
  const times: number[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, _session, done) {
      stream.resume();
      stream.on('end', () => {
        times.push(performance.now());
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.server.address() as AddressInfo).port,
    times,
    forget: () => void times.splice(0),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Mails per second between the first and the last that came. */
async function rateOf({ times }: Arrivals, mails: number): Promise<number> {
  while (times.length < mails) await sleep(20);
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  return ((mails - 1) * 1000) / (last - first);
}

async function alone(server: Arrivals, mails: number): Promise<number> {
  server.forget();
  const mailer = createTransport({
    host: '127.0.0.1',
    port: server.port,
    ignoreTLS: true,
    pool: true,
    maxConnections: CONNECTIONS,
    maxMessages: 1000,
  });
  await Promise.all(
    Array.from({ length: mails }, (_, n) =>
      mailer.sendMail({
        from: 'shop@example.com',
        to: `n${n}@example.org`,
        subject: 'Hello',
        html: '<p>Hello</p>',
        text: 'Hello',
      }),
    ),
  );
  const rate = await rateOf(server, mails);
  mailer.close();
  return rate;
}

const ask = async (platform: Platform, method: string, path: string, body: object) => {
  const answer = await fetch(`${platform.adminOrigin}${path}`, {
    method,
    headers: { masterkey: platform.masterKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
};

async function queued(platform: Platform, server: Arrivals, mails: number): Promise<number> {
  server.forget();
  const sendAt = new Date(Date.now() + LEAD_MS).toISOString();
  // Fifty recipients get a mail each.
  for (let n = 0; n < mails; n += 50)
    await ask(platform, 'POST', '/email/send', {
      to: Array.from({ length: 50 }, (_, index) => `n${n + index}@example.org`),
      subject: 'Hello',
      body: '<p>Hello</p>',
      sendAt,
    });
  if (server.times.length > 0) throw new Error('The mails were stored too late: raise LEAD_MS');
  return rateOf(server, mails);
}

const { values } = parseArgs({
  options: { dry: { type: 'boolean', default: false }, mails: { type: 'string', default: '1000' } },
});
const mails = Number(values.mails);
const dataDir = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
const server = await startServer();
const platform = await startPlatform({ dataDir });
try {
  await ask(platform, 'PATCH', '/config/communications', {
    config: {
      email: {
        sendingDomain: 'example.com',
        maxPerRecipient: 100_000,
        transportSettings: { smtp: { host: '127.0.0.1', port: server.port, ignoreTls: true } },
      },
    },
  });
  const rates: { alone: number; queued: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rates.push({
      alone: await alone(server, mails),
      queued: await queued(platform, server, mails),
    });
  const [library, ours] = [rates.map((r) => r.alone), rates.map((r) => r.queued)].map(median);
  const text = [
    '# Mails per second',
    '',
    describeMachine('the embedded one'),
    '',
    `${mails} mails to a mail server on the same machine, ${CONNECTIONS} connections, median of ${ROUNDS} rounds in turns.`,
    '',
    '| | mails/s |',
    '|---|---:|',
    `| nodemailer alone | ${library?.toFixed(0)} |`,
    `| queued, by the platform | ${ours?.toFixed(0)} |`,
    `| ratio | ${((ours ?? 0) / (library ?? 1)).toFixed(2)} |`,
    '',
  ].join('\n');
  process.stdout.write(text);
  if (!values.dry) await writeFile(new URL('RESULTS.md', import.meta.url), text);
} finally {
  await platform.stop();
  await server.close();
  await rm(dataDir, { recursive: true, force: true });
}
