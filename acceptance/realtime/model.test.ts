/**
 * Random members, permissions, writes, lost connections, lost words between nodes and kills over two nodes: in the end
 * each client has what the database answers it, or was told `gap`. The same steps for the same seed.
 * `REALTIME_MODEL_ROUNDS=40 REALTIME_MODEL_SEED=7 npx vitest run acceptance/realtime/model.test.ts` is the long form.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestDatabase, type TestDatabase } from '../../test/support/database.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { type Random, randomOf } from '../../test/support/random-numbers.ts';
import {
  describeWithPostgres15,
  describeWithRedis,
  startTestRedis,
} from '../../test/support/servers/fixtures.ts';
import type { RedisServer } from '../../test/support/servers/redis.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createSchemas } from './clients.ts';
import {
  chatClient,
  type ListRequest,
  listClient,
  type ModelClient,
  type Place,
} from './model-clients.ts';

const seed = Number(process.env.REALTIME_MODEL_SEED ?? 20_261);
const rounds = Number(process.env.REALTIME_MODEL_ROUNDS ?? 1);
/** Fewer in CI. */
const STEPS = rounds > 1 ? 80 : 40;
/** Steps that run at once: what is written through different nodes has no order but the database's. */
const AT_ONCE = 4;

const requests: readonly ListRequest[] = [
  { schema: 'Task' },
  { schema: 'Task', query: { state: 'open' } },
  { schema: 'Task', sort: ['-rank'], limit: 4 },
  { schema: 'Post', query: { state: 'open' }, sort: ['rank'], limit: 5 },
];

/** Where a node finds what it shares with the other. */
interface Shared extends Readonly<Record<string, string>> {
  readonly DATABASE_URL: string;
  readonly REDIS_URL: string;
}

interface World {
  readonly random: Random;
  readonly users: readonly TestUser[];
  readonly clients: readonly ModelClient[];
  readonly nodes: SpawnedPlatform[];
  readonly rooms: readonly string[];
  /** What exists, as far as the steps know. */
  readonly tasks: string[];
  readonly posts: string[];
  readonly grants: string[];
  readonly messages: string[];
}

function suite(withRedis: boolean): void {
  let database: TestDatabase;
  let redis: RedisServer | undefined;
  /** The ways of the second node to what nodes share: what they tell each other is lost when these are cut. */
  const between: TcpProxy[] = [];
  let behind: Shared;
  const nodes: SpawnedPlatform[] = [];
  let users: readonly TestUser[];
  let rooms: readonly string[];

  beforeAll(async () => {
    database = await createTestDatabase({ server: 'external15' });
    redis = withRedis ? await startTestRedis() : undefined;
    const near = { DATABASE_URL: database.url, REDIS_URL: redis?.url ?? '' };
    behind = {
      DATABASE_URL: await throughProxy(database.url, 5_432),
      REDIS_URL: redis ? await throughProxy(redis.url, 6_379) : '',
    };
    nodes.push(...(await Promise.all([near, behind].map((env) => spawnPlatform({ env })))));
    const [first] = nodes as [SpawnedPlatform];
    await liftLimits(first.admin);
    await first.admin.patch('/config/chat', { config: { rateLimit: { messagesPer10s: 100_000 } } });
    await createSchemas(first);
    users = await Promise.all(Array.from({ length: 3 }, () => first.registerUser()));
    rooms = await Promise.all(
      ['a', 'b'].map(async (roomName) => {
        const all = { roomName, users: users.map(({ userId }) => userId) };
        return (await users[0]?.api.post('/chat/rooms', all))?.body.roomId;
      }),
    );
  }, 180_000);
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.dispose()));
    for (const one of between) await one.close();
    await redis?.stop();
    await database?.drop();
  }, 60_000);

  async function throughProxy(address: string, usualPort: number): Promise<string> {
    const url = new URL(address);
    const proxy = await startTcpProxy(Number(url.port || usualPort));
    between.push(proxy);
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    return url.href;
  }

  it.each(Array.from({ length: rounds }, (_, at) => seed + at))(
    'leaves every client with what the database has, or with a `gap` (seed %i)',
    async (current) => {
      const random = randomOf(current);
      // Places are chosen when something is lost, which is no step: they do not use up the numbers of the steps.
      const chance = randomOf(current + 1);
      const place: Place = () => chance.pick(nodes).addresses;
      const clients = users.flatMap((user, at) => [
        ...requests.map((request, n) => listClient(place, user, request, (at + n) % 3 !== 0)),
        chatClient(place, user),
      ]);
      const world = {
        random,
        users,
        clients,
        nodes,
        rooms,
        tasks: [],
        posts: [],
        grants: [],
        messages: [],
      };
      try {
        await waitFor(() => clients.every((client) => client.state().ready), { timeoutMs: 60_000 });
        for (let step = 0; step < STEPS; step += AT_ONCE) {
          await Promise.all(Array.from({ length: AT_ONCE }, () => takeStep(world)));
          if (random.chance(0.05)) await cutForAMoment(between);
          if (step === STEPS / 2) await replaceSecond(world, () => spawnPlatform({ env: behind }));
        }
        await settle(world);
        expect(clients.some((client) => !client.state().gap)).toBe(true);
        expect(world.tasks.length + world.messages.length).toBeGreaterThan(0);
      } finally {
        for (const client of clients) client.close();
      }
    },
    300_000,
  );
}

await describeWithPostgres15('two nodes without Redis, as a model', () => suite(false));
await describeWithRedis('two nodes with Redis, as a model', () => suite(true));

/** One thing that somebody does, through some node. What a node that is cut off refuses has not happened. */
async function takeStep(world: World): Promise<void> {
  const { random, users, nodes, clients } = world;
  const user = random.pick(users);
  const other = random.pick(users);
  const node = random.pick(nodes);
  const api = node.client.with({ authorization: `Bearer ${user.accessToken}` });
  const record = {
    title: random.pick(['a', 'b', 'c']),
    state: random.pick(['open', 'done']),
    rank: random.pick([1, 2, 3, 4, 5, 6]),
  };
  const room = random.pick(world.rooms);
  const steps: readonly (() => Promise<unknown>)[] = [
    () => api.post('/database/Task', record).then(({ body }) => keep(world.tasks, body?._id)),
    () => api.post('/database/Post', record).then(({ body }) => keep(world.posts, body?._id)),
    () => api.patch(`/database/Task/${random.pick(world.tasks)}`, record),
    () => api.patch(`/database/Post/${random.pick(world.posts)}`, record),
    () => api.delete(`/database/Task/${random.pick(world.tasks)}`),
    () => api.delete(`/database/Post/${random.pick(world.posts)}`),
    () =>
      node.admin
        .post('/authorization/relations', {
          subject: `User:${other.userId}`,
          relation: random.pick(['reader', 'editor']),
          resource: `Task:${random.pick(world.tasks)}`,
        })
        .then(({ body }) => keep(world.grants, body?._id)),
    () => node.admin.delete(`/authorization/relations/${random.pick(world.grants)}`),
    async () => random.pick(clients).drop(),
    () => node.admin.put(`/chat/rooms/${room}/add`, { users: [other.userId] }),
    () => node.admin.put(`/chat/room/${room}/remove`, { users: [users[1]?.userId] }),
    () => say(node, user, room).then((id) => keep(world.messages, id)),
    () => say(node, user, room).then((id) => keep(world.messages, id)),
    () => api.patch(`/chat/messages/${random.pick(world.messages)}`, { newMessage: record.title }),
    () => api.delete(`/chat/messages/${random.pick(world.messages)}`),
  ];
  await random
    .pick(steps)()
    .catch(() => undefined);
}

function keep(known: string[], id: unknown): void {
  if (typeof id === 'string') known.push(id);
}

/** Answers the id of the message; nothing where the user is no member. */
async function say(node: SpawnedPlatform, user: TestUser, room: string): Promise<unknown> {
  const { connectChat } = await import('../chat/clients.ts');
  const client = await connectChat(node, user);
  try {
    return (await client.ask('message', room, `${Math.round(performance.now())}`))._id;
  } finally {
    client.close();
  }
}

/** What the second node says to the database and to Redis, and hears from them, is lost. */
async function cutForAMoment(between: readonly TcpProxy[]): Promise<void> {
  for (const one of between) one.cut();
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (const one of between) one.mend();
}

/** The second node dies, and another one takes its place. */
async function replaceSecond(
  { nodes }: World,
  start: () => Promise<SpawnedPlatform>,
): Promise<void> {
  const dead = nodes.pop();
  await dead?.kill();
  await dead?.dispose();
  nodes.push(await start());
}

/** Waits until each client is told what the database has. */
async function settle({ users, clients, nodes, rooms }: World): Promise<void> {
  const [first] = nodes as [SpawnedPlatform];
  const perUser = clients.length / users.length;
  for (const [at, user] of users.entries()) {
    const api = first.client.with({ authorization: `Bearer ${user.accessToken}` });
    const own = clients.slice(at * perUser, (at + 1) * perUser);
    for (const [n, request] of requests.entries()) {
      const client = own[n] as ModelClient;
      await sameInTheEnd(client, async () => {
        const { schema, query, sort = [], limit = 25 } = request;
        const page = `limit=${limit}${sort.map((one) => `&sort=${one}`).join('')}`;
        const answer = query
          ? await api.post(`/database/${schema}/query?${page}`, { query })
          : await api.get(`/database/${schema}?${page}`);
        return answer.body.documents;
      });
    }
    await sameInTheEnd(own.at(-1) as ModelClient, () => roomsOf(api, rooms));
  }
}

async function roomsOf(api: TestUser['api'], rooms: readonly string[]): Promise<Json[]> {
  const found: Json[] = [];
  for (const room of rooms) {
    const answer = await api.get('/chat/messages', { query: { roomId: room, limit: '200' } });
    if (answer.status !== 200) continue;
    const texts = answer.body.messages.map(({ _id, message }: Json) => [_id, message]);
    found.push({ room, texts: Object.fromEntries(texts) });
  }
  return found;
}

const byRoom = (records: readonly Json[]): readonly Json[] =>
  records[0]?.room === undefined
    ? records
    : [...records].sort((a, b) => (a.room < b.room ? -1 : 1));

async function sameInTheEnd(
  client: ModelClient,
  expected: () => Promise<readonly Json[]>,
): Promise<void> {
  let inDatabase: readonly Json[] = [];
  await waitFor(
    async () => {
      if (client.state().gap) return true;
      inDatabase = await expected();
      const { records, ready } = client.state();
      return ready && isDeepStrictEqual(byRoom(records), byRoom(inDatabase));
    },
    { timeoutMs: 60_000, everyMs: 100 },
  ).catch(() =>
    expect({ client: client.name, has: client.state().records }).toEqual({
      client: client.name,
      has: inDatabase,
    }),
  );
}
