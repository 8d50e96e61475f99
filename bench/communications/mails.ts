/** How fast queued mails go out, beside the same SMTP library alone against the same local server. */
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import { SMTPServer } from 'smtp-server';
import { median } from '../statistics.ts';
import type { Part, Setting } from './setting.ts';

/** The first warms both up, and is left out. */
const ROUNDS = 4;
/** Connections of the library alone: as many as the platform has. */
const CONNECTIONS = 5;
/** Time to store all mails before the first is due. Milliseconds. */
const LEAD_MS = 15_000;

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

async function queued({ api }: Setting, server: Arrivals, mails: number): Promise<number> {
  server.forget();
  const sendAt = new Date(Date.now() + LEAD_MS).toISOString();
  // Fifty recipients get a mail each.
  for (let n = 0; n < mails; n += 50)
    await api('POST', '/email/send', {
      body: {
        to: Array.from({ length: 50 }, (_, index) => `n${n + index}@example.org`),
        subject: 'Hello',
        body: '<p>Hello</p>',
        sendAt,
      },
    });
  if (server.times.length > 0) throw new Error('The mails were stored too late: raise LEAD_MS');
  return rateOf(server, mails);
}

/** `size`: mails. */
export const measureMails: Part = async (setting, { size }) => {
  const server = await startServer();
  try {
    const smtp = { host: '127.0.0.1', port: server.port, ignoreTls: true };
    await setting.api('PATCH', '/config/communications', {
      body: {
        config: {
          email: {
            sendingDomain: 'example.com',
            maxPerRecipient: 100_000,
            transportSettings: { smtp },
          },
        },
      },
    });
    const rates: { readonly alone: number; readonly queued: number }[] = [];
    for (let round = 0; round < ROUNDS; round += 1)
      rates.push({
        alone: await alone(server, size),
        queued: await queued(setting, server, size),
      });
    const warm = rates.slice(1);
    const [library = 0, ours = 0] = [warm.map((r) => r.alone), warm.map((r) => r.queued)].map(
      median,
    );
    const [first] = rates;
    return [
      `${size} mails to a mail server on the same machine, ${CONNECTIONS} connections, median of ${warm.length} rounds in turns after one that warms both up.`,
      '',
      '| | mails/s | first round |',
      '|---|---:|---:|',
      `| nodemailer alone | ${library.toFixed(0)} | ${first?.alone.toFixed(0)} |`,
      `| queued, by the platform | ${ours.toFixed(0)} | ${first?.queued.toFixed(0)} |`,
      `| ratio | ${(ours / library).toFixed(2)} | ${((first?.queued ?? 0) / (first?.alone ?? 1)).toFixed(2)} |`,
    ].join('\n');
  } finally {
    await setting.api('PATCH', '/config/communications', {
      body: { config: { email: { transportSettings: { smtp: { host: '' } } } } },
    });
    await server.close();
  }
};
