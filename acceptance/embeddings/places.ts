/**
 * A random world of places on two nodes, with an index forced on: owners of most, some and few of the records, while
 * records and rights change. What is found is compared with what a search by hand through the readable records finds.
 */
import { expect } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const DIMENSIONS = 6;
/** Of each owner: nearly everything, some, and so few that they are put in order one by one. */
const OWNED = [1_600, 180, 8];
const ROUNDS = 5;

interface Doc {
  at: readonly number[];
  rank: number;
  readonly readers: Set<number>;
}

interface Asked {
  readonly reader: number;
  readonly filter?: { readonly rank: { readonly $lt: number } } | undefined;
  readonly limit: number;
}

export interface Places {
  readonly one: TestPlatform;
  readonly two: TestPlatform;
  readonly users: readonly TestUser[];
  readonly world: Map<string, Doc>;
  indexOf(node: TestPlatform): Promise<Json>;
  /** Every record has its vector. */
  settled(): Promise<unknown>;
  /** How many of those that a search by hand finds are found, of all. What is found is always readable, and fits. */
  compare(node: TestPlatform, asked: Asked): Promise<readonly [number, number]>;
  /** Searches of every kind of reader on both nodes while everything changes: at least 0.95 of each kind are found. */
  compareWhileChanging(): Promise<void>;
  close(): Promise<void>;
}

let seed = 160;
const random = (): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
};
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
const point = (): number[] =>
  Array.from({ length: DIMENSIONS }, () => Math.round((random() * 2 - 1) * 1_000) / 1_000);
export const textOf = (at: readonly number[]): string => `(${at.join()})`;
const pointOf = (text: string): number[] => text.slice(1, -1).split(',').map(Number);

interface PlacesOptions {
  /** Of both nodes; of their own unless set. */
  readonly databaseUrl?: string;
}

/** Starts both nodes, and fills the world. */
export async function openPlaces({ databaseUrl }: PlacesOptions = {}): Promise<Places> {
  seed = 160;
  const one = await createTestPlatform(databaseUrl === undefined ? {} : { databaseUrl });
  const two = await createTestPlatform({ databaseUrl: String(one.databaseUrl) });
  const fake = await startFakeService();
  fake.answer = (request) => ({
    body: {
      data: request.json().input.map((text: string, index: number) => ({
        index,
        embedding: pointOf(text),
      })),
    },
  });
  await configure(one, `${fake.url}/v1/embeddings`);
  const nodes: Nodes = { one, two, users: [], world: new Map() };
  for (const [owner, count] of OWNED.entries()) {
    nodes.users.push(await one.registerUser());
    for (let made = 0; made < count; made += 200)
      await create(nodes, owner, Math.min(200, count - made));
  }
  await settled(nodes);
  return {
    ...nodes,
    indexOf: async (node) => (await status(node)).configs[0].current.index,
    settled: () => settled(nodes),
    compare: (node, asked) => compare(nodes, node, asked),
    async compareWhileChanging() {
      const totals: Totals = new Map();
      for (let round = 0; round < ROUNDS; round++) {
        await compareAll(nodes, totals);
        await changeWorld(nodes);
        await settled(nodes);
      }
      for (const [name, [right, all]] of totals)
        expect(right, name).toBeGreaterThanOrEqual(0.95 * all);
      // A search reads what came since the last one.
      for (const node of [one, two]) await compare(nodes, node, { reader: 0, limit: 10 });
    },
    async close() {
      await two.close();
      await one.close();
      await fake.close();
    },
  };
}

interface Nodes {
  readonly one: TestPlatform;
  readonly two: TestPlatform;
  readonly users: TestUser[];
  readonly world: Map<string, Doc>;
}

async function configure(one: TestPlatform, endpoint: string): Promise<void> {
  const models = [{ name: 'six', dimensions: DIMENSIONS }];
  const config = {
    providers: { 'openai-compatible': { endpoint, models, allowInternal: true } },
    defaultProvider: 'openai-compatible',
    search: { exactUpTo: 0 },
    batch: { maxInputs: 500 },
  };
  const patched = await one.admin.patch('/config/embeddings', { config });
  expect(patched.status, patched.text).toBe(200);
  await one.createSchema({
    name: 'Place',
    fields: { at: 'String', rank: 'Number' },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await one.admin.post('/embeddings/configs', {
    schemaName: 'Place',
    sourceFields: ['at'],
    targetField: 'near',
  });
  expect(made.status, made.text).toBe(200);
}

async function create({ users, world }: Nodes, owner: number, count: number): Promise<void> {
  const docs = Array.from({ length: count }, () => ({
    at: textOf(point()),
    rank: Math.floor(random() * 100),
  }));
  const answer = await users[owner]?.api.post('/database/Place/many', { docs });
  expect(answer?.status, answer?.text).toBe(200);
  for (const { _id, at, rank } of answer?.body.docs ?? [])
    world.set(_id, { at: pointOf(at), rank, readers: new Set([owner]) });
}

const status = async (node: TestPlatform): Promise<Json> =>
  (await node.admin.get('/embeddings/status', { query: { schemaName: 'Place' } })).body;

const settled = ({ one, world }: Nodes): Promise<unknown> =>
  waitFor(
    async () => {
      const { generationQueue: queue, backfillQueue: runs, configs } = await status(one);
      const waiting = queue.waiting + queue.active + queue.delayed + runs.waiting + runs.active;
      return waiting === 0 && configs[0].current.passages === world.size;
    },
    { timeoutMs: 60_000, everyMs: 100, what: 'vectors of all places' },
  );

function byHand({ world }: Nodes, query: readonly number[], asked: Asked): string[] {
  const { reader, filter, limit } = asked;
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
  const cosine = (at: readonly number[]) => dot(at, query) / Math.sqrt(dot(at, at));
  return [...world]
    .filter(([, { readers, rank }]) => readers.has(reader) && (!filter || rank < filter.rank.$lt))
    .sort(([, a], [, b]) => cosine(b.at) - cosine(a.at))
    .slice(0, limit)
    .map(([id]) => id);
}

async function compare(
  nodes: Nodes,
  node: TestPlatform,
  asked: Asked,
): Promise<readonly [number, number]> {
  const { users, world } = nodes;
  const query = point();
  const { reader, ...rest } = asked;
  const body = { schemaName: 'Place', text: textOf(query), userId: users[reader]?.userId, ...rest };
  const answer = await node.admin.post('/embeddings/search', body);
  expect(answer.status, answer.text).toBe(200);
  const found: string[] = answer.body.hits.map(({ document }: Json) => document._id);
  const expected = byHand(nodes, query, asked);
  expect(found).toHaveLength(expected.length);
  for (const id of found) {
    const doc = world.get(id);
    expect(doc?.readers.has(reader)).toBe(true);
    expect((doc?.rank ?? 100) < (asked.filter?.rank.$lt ?? 101)).toBe(true);
  }
  const ids = new Set(found);
  return [expected.filter((id) => ids.has(id)).length, expected.length];
}

async function changeWorld(nodes: Nodes): Promise<void> {
  const { one, two, users, world } = nodes;
  for (let i = 0; i < 12; i++) {
    const [id] = pick([...world]);
    const at = point();
    world.set(id, { ...(world.get(id) as Doc), at });
    const changedDocument = { at: textOf(at), rank: world.get(id)?.rank };
    const answer = await pick([one, two]).admin.put(`/database/schemas/Place/docs/${id}`, {
      changedDocument,
    });
    expect(answer.status, answer.text).toBe(200);
  }
  for (let i = 0; i < 5; i++) {
    const [id] = pick([...world]);
    world.delete(id);
    expect((await two.admin.delete(`/database/schemas/Place/docs/${id}`)).status).toBe(200);
  }
  for (let i = 0; i < 5; i++) {
    const [id, doc] = pick([...world]);
    const reader = Math.floor(random() * 3);
    if (doc.readers.has(reader)) continue;
    doc.readers.add(reader);
    const shared = await pick([one, two]).admin.post('/authorization/relations', {
      subject: `User:${users[reader]?.userId}`,
      relation: 'reader',
      resource: `Place:${id}`,
    });
    expect(shared.status, shared.text).toBe(200);
  }
  // Last: when these have vectors, everything before them was heard of.
  await create(nodes, Math.floor(random() * 3), 6);
}

type Totals = Map<string, [number, number]>;

async function compareAll(nodes: Nodes, totals: Totals): Promise<void> {
  const cases = [nodes.one, nodes.two].flatMap((node) =>
    [0, 1, 2].flatMap((reader) => [
      { node, reader },
      { node, reader, filter: { rank: { $lt: 3 } } },
    ]),
  );
  for (const { node, ...given } of cases) {
    const asked = { ...given, limit: 1 + Math.floor(random() * 15) };
    const [right, all] = await compare(nodes, node, asked);
    const name = `reader ${asked.reader}${asked.filter ? ', filtered' : ''}`;
    const total = totals.get(name) ?? [0, 0];
    totals.set(name, [total[0] + right, total[1] + all]);
  }
}
