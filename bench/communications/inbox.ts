/** What it costs to read an inbox beside a list of records, and to reach a user who has many devices. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Account, Cost, Part, Setting } from './setting.ts';

const REQUESTS = 1500;
const PUSHES = 200;
const FEW = 20;
const DEVICES = 50;

async function fillInbox({ rows }: Setting, { userId }: Account, entries: number): Promise<void> {
  await rows(
    `insert into penstock.notifications (id, user_id, title, body, read_at, created_at)
     select gen_random_uuid(), $1, 'entry ' || n, 'What entry ' || n || ' says',
       case when n % 2 = 0 then now() end, now() - n * interval '1 second'
     from generate_series(1, $2::integer) n`,
    [userId, entries],
  );
}

/** Notes that look like entries of an inbox, of one owner each. */
async function fillRecords({ api, rows }: Setting, entries: number): Promise<void> {
  const fields = {
    title: { type: 'String' },
    body: { type: 'String' },
    read: { type: 'Boolean' },
  };
  await api('POST', '/database/schemas', { body: { name: 'BenchNote', fields } });
  for (let from = 0; from < entries; from += 1000)
    await api('POST', '/database/schemas/BenchNote/docs/many', {
      body: {
        inputDocuments: Array.from({ length: 1000 }, (_, n) => ({
          title: `entry ${from + n}`,
          body: `What entry ${from + n} says`,
          read: n % 2 === 0,
        })),
      },
    });
  await rows('analyze');
}

/** A provider that takes everything. */
async function startProvider() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json').end('{"id":"accepted"}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => void server.close() };
}

async function pushCost(setting: Setting, devices: number): Promise<Cost> {
  const { api, rows, costOf } = setting;
  const { userId, token } = await setting.account();
  for (let n = 0; n < devices; n += 1)
    await api('POST', '/token', { token, body: { token: `${userId}-${n}`, platform: 'ANDROID' } });
  const body = { userId, title: 'Hello', doNotStore: true };
  return costOf(PUSHES, async () => {
    const { messageId } = await api('POST', '/push/send', { body });
    for (;;) {
      const [row] = await rows('select status from penstock.messages where id = $1', [messageId]);
      if (row?.status === 'sent') return;
      await sleep(2);
    }
  });
}

/** `size`: entries of the large inbox. */
export const measureInbox: Part = async (setting, { size }) => {
  const { api, costOf } = setting;
  const [large, small] = [await setting.account(), await setting.account()];
  await fillInbox(setting, large, size);
  await fillInbox(setting, small, FEW);
  await fillRecords(setting, 20_000);
  const read = ({ token }: Account, path: string) =>
    costOf(REQUESTS, () => api('GET', path, { token }));
  const list = '/notifications?limit=20';
  const costs: readonly (readonly [string, Cost])[] = [
    [
      'a page of 20 records of 20,000, with their number',
      await read(small, '/database/BenchNote?limit=20&sort=-createdAt'),
    ],
    [`a page of 20 entries of ${FEW}, with both counts`, await read(small, list)],
    [`a page of 20 entries of ${size}, with both counts`, await read(large, list)],
    [`the unread of ${size}`, await read(large, `${list}&read=false`)],
  ];
  const provider = await startProvider();
  const onesignal = { appId: 'app', apiKey: 'key', endpoint: provider.url };
  const pushNotifications = { active: true, providerName: 'onesignal', onesignal };
  await api('PATCH', '/config/communications', {
    body: { config: { pushNotifications, providers: { allowInternal: true } } },
  });
  const pushes: readonly (readonly [string, Cost])[] = [
    ['a push message to a user with one device', await pushCost(setting, 1)],
    [`a push message to a user with ${DEVICES}`, await pushCost(setting, DEVICES)],
  ];
  provider.close();
  const row = ([what, { node, postgres }]: readonly [string, Cost]) =>
    `| ${what} | ${(node / 1000).toFixed(2)} | ${(postgres / 1000).toFixed(2)} |`;
  return [
    `CPU time of each, over ${REQUESTS} reads and ${PUSHES} messages one after the other, with the asking for their end.`,
    '',
    '| | platform, ms | PostgreSQL, ms |',
    '|---|---:|---:|',
    ...[...costs, ...pushes].map(row),
  ].join('\n');
};
