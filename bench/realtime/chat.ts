/** Messages of chat, written and told, beside Socket.IO alone: that writes nothing, and that commits a row for each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuTime, familyCpuTime } from '../machine.ts';
import { median, percentile } from '../statistics.ts';
import { ageOf, type LoadSocket, openAll, openSocket, stamp } from './clients.ts';
import type { Account, Setting } from './setting.ts';

const WARM_MS = 1_500;
const MEASURED_MS = 4_000;
/** Sockets of each user. */
const SOCKETS = 5;

/** A server that messages go through. */
interface Target {
  readonly name: 'bare' | 'durable' | 'ours';
  readonly origin: string;
  readonly namespace: string;
  /** What socket `index` presents. */
  authOf(index: number): object;
  readonly pid: number;
  readonly databasePid?: number;
}

export interface ChatOptions {
  readonly rounds: number;
  /** `one` room of 100, or `many` rooms of 10; both unless set. */
  readonly work?: string | undefined;
}

interface Work {
  readonly name: string;
  readonly users: number;
  readonly rooms: readonly string[];
  /** Rooms that each socket hears. */
  roomsOf(index: number): readonly string[];
}

interface Figures {
  readonly sends: number;
  readonly deliveries: number;
  readonly p50: number;
  readonly p99: number;
  /** Microseconds of processor time for each message: of the server, and of its database. */
  readonly cpu: number;
  readonly databaseCpu: number;
}

let measured = 0;

/** Each socket sends its next message when the last one was acknowledged, or `rate` of them are sent a second. */
async function measure(target: Target, work: Work, rate?: number): Promise<Figures> {
  let [sends, deliveries] = [0, 0];
  const address = 1 + (measured++ % 250);
  let measuring = false;
  const ages: number[] = [];
  const clients = work.users * SOCKETS;
  const sockets = await openAll(clients, (index) =>
    openSocket({
      origin: target.origin,
      namespace: target.namespace,
      auth: target.authOf(index),
      // Connections are counted for each address.
      localAddress: `127.0.2.${address}`,
      onEvent(frame) {
        if (!measuring) return;
        deliveries += 1;
        // One socket of ten is listened to closely.
        if (index % 10 !== 0) return;
        const age = ageOf(frame);
        if (age !== undefined) ages.push(age);
      },
    }),
  );
  let running = true;
  const send = async (socket: LoadSocket, index: number): Promise<void> => {
    const rooms = work.roomsOf(index);
    const room = rooms[Math.floor(Math.random() * rooms.length)];
    const answer = (await socket.ask('message', room, stamp())) as { readonly ok: boolean };
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    if (measuring) sends += 1;
  };
  const loops =
    rate === undefined
      ? sockets.map(async (socket, index) => {
          while (running) await send(socket, index);
        })
      : [
          paced(
            rate,
            () => running,
            (n) => send(sockets[n % clients] as LoadSocket, n % clients),
          ),
        ];
  await sleep(WARM_MS);
  const used = (): readonly [number, number] => [
    cpuTime(target.pid),
    target.databasePid === undefined ? 0 : familyCpuTime(target.databasePid),
  ];
  const before = used();
  const began = performance.now();
  measuring = true;
  await sleep(MEASURED_MS);
  measuring = false;
  const after = used();
  const seconds = (performance.now() - began) / 1_000;
  running = false;
  await Promise.all(loops);
  for (const socket of sockets) socket.close();
  ages.sort((a, b) => a - b);
  return {
    sends: sends / seconds,
    deliveries: deliveries / seconds,
    p50: percentile(ages, 0.5),
    p99: percentile(ages, 0.99),
    cpu: (after[0] - before[0]) / sends,
    databaseCpu: (after[1] - before[1]) / sends,
  };
}

/** Sends so many a second, whatever becomes of them. */
async function paced(
  rate: number,
  running: () => boolean,
  send: (n: number) => Promise<void>,
): Promise<void> {
  const began = performance.now();
  const sent: Promise<void>[] = [];
  for (let n = 0; running(); ) {
    const due = ((performance.now() - began) * rate) / 1_000;
    while (n < due) sent.push(send(n++));
    await sleep(2);
  }
  await Promise.all(sent);
}

async function makeRoom({ api }: Setting, owner: Account, others: readonly Account[]) {
  const body = { roomName: 'bench', users: others.map(({ userId }) => userId) };
  const { roomId } = await api('POST', '/chat/rooms', { body, token: owner.token });
  return roomId as string;
}

/** 1,000 rooms of 10 sockets: two users of five sockets each. */
async function manyRooms(setting: Setting, accounts: readonly Account[]): Promise<Work> {
  const ofUser = accounts.map((): string[] => []);
  const users = accounts.length;
  const rooms = await openAll(1_000, async (n) => {
    const [a, b] = [n % users, (n + 1 + (Math.floor(n / users) % (users - 1))) % users];
    const room = await makeRoom(setting, accounts[a] as Account, [accounts[b] as Account]);
    ofUser[a]?.push(room);
    ofUser[b]?.push(room);
    return room;
  });
  return {
    name: '1,000 rooms of 10',
    users,
    rooms,
    roomsOf: (index) => ofUser[index % users] ?? [],
  };
}

const rounded = (value: number): string => (value < 100 ? value.toFixed(1) : value.toFixed(0));

/** Lines of a table. */
export async function chat(setting: Setting, options: ChatOptions): Promise<readonly string[]> {
  const accounts = await setting.accounts(40);
  const works: Readonly<Record<string, () => Promise<Work>>> = {
    async one() {
      const room = await makeRoom(setting, accounts[0] as Account, accounts.slice(1, 20));
      return { name: '100 clients in one room', users: 20, rooms: [room], roomsOf: () => [room] };
    },
    many: () => manyRooms(setting, accounts),
  };
  const lines: string[] = [];
  for (const [name, prepare] of Object.entries(works))
    if (options.work === undefined || options.work === name)
      lines.push(...(await compare(setting, accounts, await prepare(), options)));
  return lines;
}

function targetsOf(
  { platform, bareOrigin, barePid }: Setting,
  accounts: readonly Account[],
  work: Work,
  databasePid: number,
): readonly Target[] {
  const ofIndex = (index: number): Account | undefined => accounts[index % work.users];
  const bare = {
    origin: bareOrigin,
    authOf: (index: number) => ({ rooms: work.roomsOf(index), user: ofIndex(index)?.userId }),
    pid: barePid,
  };
  return [
    { ...bare, name: 'bare', namespace: '/chat/' },
    { ...bare, name: 'durable', namespace: '/durable/', databasePid },
    {
      name: 'ours',
      namespace: '/chat/',
      origin: platform.clientOrigin,
      authOf: (index) => ({ token: ofIndex(index)?.token }),
      pid: platform.pid,
      databasePid,
    },
  ];
}

type Middle = Readonly<Record<Target['name'], Figures>>;

/** Each at its own pace, in turns; the middle of the rounds. */
async function saturate(targets: readonly Target[], work: Work, rounds: number): Promise<Middle> {
  const found: Record<Target['name'], Figures[]> = { bare: [], durable: [], ours: [] };
  for (let round = 0; round < rounds; round += 1)
    for (const target of targets) found[target.name].push(await measure(target, work));
  const middle = (of: readonly Figures[]): Figures => {
    const figure = (what: keyof Figures) => median(of.map((figures) => figures[what]));
    const [sends, deliveries, p50] = [figure('sends'), figure('deliveries'), figure('p50')];
    const [p99, cpu, databaseCpu] = [figure('p99'), figure('cpu'), figure('databaseCpu')];
    return { sends, deliveries, p50, p99, cpu, databaseCpu };
  };
  return {
    bare: middle(found.bare),
    durable: middle(found.durable),
    ours: middle(found.ours),
  };
}

/** All of them with as many messages a second. */
async function pace(targets: readonly Target[], work: Work, rate: number): Promise<Middle> {
  const found: Partial<Record<Target['name'], Figures>> = {};
  for (const target of targets) found[target.name] = await measure(target, work, rate);
  return found as Middle;
}

/** Lines of figures, each beside those of the bare programs. */
function createTable(work: Work) {
  const lines: string[] = [];
  const line = (
    what: string,
    figures: readonly (number | undefined)[],
    goals: readonly string[],
  ) => {
    const [bare, durable, our = Number.NaN] = figures;
    const to = (of: number | undefined, goal = ''): string =>
      of === undefined ? '' : `${(our / of).toFixed(2)}${goal && ` (${goal})`}`;
    const shown = figures.map((figure) => (figure === undefined ? '' : rounded(figure)));
    lines.push(
      `| ${work.name}: ${what} | ${shown.join(' | ')} | ${to(bare, goals[0])} | ${to(durable, goals[1])} |`,
    );
  };
  return { lines, line };
}

async function compare(
  setting: Setting,
  accounts: readonly Account[],
  work: Work,
  { rounds }: ChatOptions,
): Promise<readonly string[]> {
  const targets = targetsOf(setting, accounts, work, (await setting.platform.database()).pid);
  const most = await saturate(targets, work, rounds);
  const ofOurs = most.ours.sends / 2;
  const half = await pace(
    targets.filter(({ name }) => name !== 'durable'),
    work,
    ofOurs,
  );
  // Where the slower of both is not beyond what it can do: what waits then grows for as long as it is measured.
  const ofBoth = Math.min(most.durable.sends, most.ours.sends) / 2;
  const like = await pace(
    targets.filter(({ name }) => name !== 'bare'),
    work,
    ofBoth,
  );
  // People notice how long one message takes where few are sent: a tenth of what the slower one does.
  const ofFew = ofBoth / 5;
  const few = await pace(
    targets.filter(({ name }) => name !== 'bare'),
    work,
    ofFew,
  );
  const { lines, line } = createTable(work);
  const each = (of: Partial<Middle>, what: keyof Figures) => [
    of.bare?.[what],
    of.durable?.[what],
    of.ours?.[what],
  ];
  line('deliveries a second', each(most, 'deliveries'), ['>= 0.8', '>= 0.8']);
  line('p50 at saturation, ms', each(most, 'p50'), ['<= 1.5', '<= 1.5']);
  line(`p50 at ${rounded(ofOurs)} messages/s, half of ours, ms`, each(half, 'p50'), []);
  line(`p99 at ${rounded(ofOurs)} messages/s, half of ours, ms`, each(half, 'p99'), ['<= 1.2']);
  line(
    `p50 at ${rounded(ofBoth)} messages/s, half of the slower durable one, ms`,
    each(like, 'p50'),
    [],
  );
  line(
    `p99 at ${rounded(ofBoth)} messages/s, half of the slower durable one, ms`,
    each(like, 'p99'),
    ['', '<= 1.2'],
  );
  const atFew = `at ${rounded(ofFew)} messages/s, a tenth of the slower durable one, ms`;
  line(`p50 ${atFew}`, each(few, 'p50'), ['', '<= 1.5']);
  line(`p99 ${atFew}`, each(few, 'p99'), ['', '<= 1.5']);
  const cpuOf = ({ cpu, databaseCpu }: Figures) => cpu + databaseCpu;
  line(
    'CPU of a message at that load, server and database, µs',
    [undefined, cpuOf(like.durable), cpuOf(like.ours)],
    [],
  );
  line('CPU of a message in the server, µs', each(most, 'cpu'), []);
  const { durable, ours } = most;
  line(
    'CPU of a message in the database, µs',
    [undefined, durable.databaseCpu, ours.databaseCpu],
    [],
  );
  return lines;
}
