/** Live lists: what writes cost beside listeners, and what connections cost that wait. */
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuTime, familyCpuTime, residentMemory } from '../machine.ts';
import { percentile } from '../statistics.ts';
import { ageOf, type LoadSocket, openAll, openSocket, stamp } from './clients.ts';
import type { Account, Setting } from './setting.ts';

const QUERIES = 100;
const WRITES_PER_SECOND = 200;
const MEASURED_MS = 6_000;
const MEGABYTE = 1_048_576;

interface Cost {
  /** Microseconds of the platform's process for each write, and of its database. */
  readonly cpu: number;
  readonly databaseCpu: number;
  readonly p50: number;
  readonly deliveries: number;
}

/** `sockets` of as many users, each of which listens to all queries. */
async function costOf(
  { platform, api }: Setting,
  accounts: readonly Account[],
  sockets: number,
): Promise<Cost> {
  const token = accounts[0]?.token ?? '';
  let deliveries = 0;
  const ages: number[] = [];
  const open = await openAll(sockets, (index) =>
    openSocket({
      origin: platform.clientOrigin,
      namespace: '/database/',
      auth: { token: accounts[index]?.token },
      onEvent(frame) {
        deliveries += 1;
        const age = index === 0 ? ageOf(frame) : undefined;
        if (age !== undefined) ages.push(age);
      },
    }),
  );
  await Promise.all(open.map(watchAll));
  const { pid } = await platform.database();
  const [cpu, databaseCpu] = [cpuTime(platform.pid), familyCpuTime(pid)];
  const began = performance.now();
  const writes: Promise<unknown>[] = [];
  while (performance.now() - began < MEASURED_MS) {
    const due = ((performance.now() - began) * WRITES_PER_SECOND) / 1_000;
    while (writes.length < due) {
      const body = { title: stamp(), part: `p${writes.length % QUERIES}` };
      writes.push(api('POST', '/database/Item', { body, token }));
    }
    await sleep(2);
  }
  await Promise.all(writes);
  await sleep(500);
  const used = cpuTime(platform.pid) - cpu;
  const usedByDatabase = familyCpuTime(pid) - databaseCpu;
  for (const socket of open) socket.close();
  await sleep(500);
  ages.sort((a, b) => a - b);
  return {
    cpu: used / writes.length,
    databaseCpu: usedByDatabase / writes.length,
    p50: percentile(ages, 0.5),
    deliveries,
  };
}

async function watchAll(socket: LoadSocket): Promise<void> {
  for (let n = 0; n < QUERIES; n += 1) {
    const request = { schema: 'Item', query: { part: `p${n}` }, sort: ['-createdAt'], limit: 10 };
    const answer = (await socket.ask('watch', request)) as { readonly ok: boolean };
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    // A socket may send 50 events a second.
    await sleep(21);
  }
}

export async function liveLists(setting: Setting): Promise<readonly string[]> {
  const accounts = await setting.accounts(10);
  const offered = { enabled: true, authenticated: true };
  await setting.api('POST', '/database/schemas', {
    body: {
      name: 'Item',
      fields: { title: { type: 'String' }, part: { type: 'String', index: true } },
      conduitOptions: {
        cms: {
          enabled: true,
          crudOperations: { create: offered, read: offered },
          query: { enabled: true, fields: ['part'] },
        },
      },
    },
  });
  await costOf(setting, accounts, 0);
  const alone = await costOf(setting, accounts, 0);
  const lines: string[] = [
    `| no subscribers | ${alone.cpu.toFixed(0)} | ${alone.databaseCpu.toFixed(0)} | 1.00 | | |`,
  ];
  for (const sockets of [1, 10]) {
    const { cpu, databaseCpu, p50, deliveries } = await costOf(setting, accounts, sockets);
    const name = `${sockets * QUERIES} subscribers to ${QUERIES} queries`;
    const ratio = (cpu + databaseCpu) / (alone.cpu + alone.databaseCpu);
    lines.push(
      `| ${name} | ${cpu.toFixed(0)} | ${databaseCpu.toFixed(0)} | ${ratio.toFixed(2)} | ${p50.toFixed(1)} | ${deliveries} |`,
    );
  }
  return lines;
}

/** Of one user each time, from many addresses, as limits are for each address. */
const openMany = (origin: string, { token }: Account, connections: number, network: number) =>
  openAll(connections, (index) =>
    openSocket({
      origin,
      namespace: '/database/',
      auth: { token },
      localAddress: `127.0.${network}.${1 + Math.floor(index / 150)}`,
    }),
  );

/** Somebody else signs in, again and again, until `stop`; answers how it went. */
function signIns({ api }: Setting, body: object): () => Promise<readonly [number, number]> {
  let [running, failed] = [true, 0];
  const took: number[] = [];
  const loop = (async () => {
    while (running) {
      const began = performance.now();
      await api('POST', '/authentication/local', { body, token: '' }).catch(() => {
        failed += 1;
      });
      took.push(performance.now() - began);
      await sleep(250);
    }
  })();
  return async () => {
    running = false;
    await loop;
    return [failed, Math.max(...took)];
  };
}

/** Memory for connections that wait, and what it takes when all of them are lost and come back at once. */
export async function idle(setting: Setting, connections: number): Promise<readonly string[]> {
  const { platform } = setting;
  const [account] = (await setting.accounts(1)) as [Account];
  const other = { email: 'other@example.com', password: 'Battery-Staple-17' };
  await setting.api('POST', '/authentication/local/new', { body: other, token: '' });
  await sleep(2_000);
  const before = residentMemory(platform.pid);
  const began = performance.now();
  const sockets = await openMany(platform.clientOrigin, account, connections, 1);
  const seconds = (performance.now() - began) / 1_000;
  await sleep(3_000);
  const grown = (residentMemory(platform.pid) - before) / MEGABYTE;
  for (const socket of sockets) socket.close();
  const stop = signIns(setting, other);
  const lost = performance.now();
  const again = await openMany(platform.clientOrigin, account, connections, 3);
  const reconnected = (performance.now() - lost) / 1_000;
  const [failed, longest] = await stop();
  for (const socket of again) socket.close();
  return [
    `${connections} idle connections: ${grown.toFixed(0)} MiB more (goal: at most 400), connected in ${seconds.toFixed(0)} s.`,
    '',
    `All of them lost, and back in ${reconnected.toFixed(0)} s (goal: at most 60); sign-ins of others meanwhile that failed: ${failed} (goal: 0), the longest took ${longest.toFixed(0)} ms.`,
  ];
}
