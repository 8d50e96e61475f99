/**
 * Writers that note what was acknowledged. A write that got no answer is sent again with the same Idempotency-Key until
 * it has one, as a client should; what is still without one at the end is open.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, Api, Json, RequestOptions } from '../../test/support/api.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { hostileTexts } from '../fuzz/arbitrary.ts';
import type { Cluster } from './cluster.ts';
import type { Entry, Journal } from './journal.ts';

export interface Workload {
  /** No new write begins; those under way get their answers. */
  stop(): Promise<void>;
}

export interface WorkloadOptions {
  readonly cluster: Cluster;
  readonly journal: Journal;
  /** Writers of single records; half as many write in bulk. */
  readonly writers: number;
}

/** Milliseconds that one attempt may take. */
const ATTEMPT_MS = 15_000;
/** Milliseconds after which a write is left open. */
const GIVE_UP_MS = 60_000;
const BULK = 20;

export async function prepare({ nodes }: Cluster): Promise<void> {
  const [node] = nodes;
  if (!node) throw new Error('There is no node');
  expectStatus(
    await node.admin.patch('/config/router', { rateLimit: { maxRequests: 1_000_000 } }),
    200,
    'lift the limits',
  );
  const fields = {
    mark: { type: 'String', required: true } as const,
    n: { type: 'Number' } as const,
  };
  await node.createSchema({
    name: 'Entry',
    fields,
    conduitOptions: { cms: { crudOperations: { update: { operators: true } } } },
  });
  await node.createSchema({
    name: 'Guarded',
    fields: { text: 'String' },
    conduitOptions: { authorization: { enabled: true } },
  });
}

interface Shared extends WorkloadOptions {
  stopped: boolean;
}

type Send = (node: TestNode, options: RequestOptions) => Promise<Answer<Json>>;

/** A node, another one each time. */
const anyNode = ({ nodes }: Cluster): TestNode => {
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (!node) throw new Error('There is no node');
  return node;
};

/** Sends until there is an answer that settles the matter; `undefined` when there is none in time. */
async function insist(
  { cluster, journal }: Shared,
  what: string,
  send: Send,
): Promise<Answer<Json> | undefined> {
  const key = randomUUID();
  for (const until = Date.now() + GIVE_UP_MS; Date.now() < until; await sleep(100)) {
    const options = {
      headers: { 'idempotency-key': key },
      signal: AbortSignal.timeout(ATTEMPT_MS),
    };
    const answer = await send(anyNode(cluster), options).catch(() => undefined);
    if (answer === undefined) continue;
    if (answer.status === 500) journal.internal.push(`${what}: ${answer.text.slice(0, 200)}`);
    if (answer.status < 500 && answer.status !== 429 && answer.status !== 408) return answer;
  }
  return undefined;
}

const asUser = (node: TestNode, { accessToken }: TestUser): Api =>
  node.client.with({ authorization: `Bearer ${accessToken}` });

async function createOne(shared: Shared, user: TestUser): Promise<Entry | undefined> {
  const entry: Entry = {
    mark: randomUUID(),
    id: undefined,
    changes: 0,
    deleted: false,
    open: true,
  };
  shared.journal.entries.add(entry);
  const answer = await insist(shared, 'create', (node, options) =>
    asUser(node, user).post('/database/Entry', { mark: entry.mark, n: 0 }, options),
  );
  if (answer?.status !== 200) return undefined;
  entry.id = answer.body._id;
  entry.open = false;
  shared.journal.acknowledged.create += 1;
  return entry;
}

async function change(shared: Shared, user: TestUser, entry: Entry): Promise<void> {
  entry.open = true;
  const answer = await insist(shared, 'update', (node, options) =>
    asUser(node, user).patch(`/database/Entry/${entry.id}`, { $inc: { n: 1 } }, options),
  );
  if (answer?.status !== 200) return;
  entry.open = false;
  entry.changes += 1;
  shared.journal.acknowledged.update += 1;
}

async function remove(shared: Shared, user: TestUser, entry: Entry): Promise<void> {
  entry.open = true;
  const answer = await insist(shared, 'delete', (node, options) =>
    asUser(node, user).delete(`/database/Entry/${entry.id}`, options),
  );
  if (answer?.status !== 200) return;
  entry.open = false;
  entry.deleted = true;
  shared.journal.acknowledged.delete += 1;
}

/** One record after the other: created, changed some times, sometimes deleted. */
async function writeSingly(shared: Shared, user: TestUser): Promise<void> {
  for (let turn = 0; !shared.stopped; turn += 1) {
    const entry = await createOne(shared, user);
    for (let n = 0; entry && !entry.open && !shared.stopped && n < turn % 3; n += 1)
      await change(shared, user, entry);
    if (entry && !entry.open && turn % 4 === 0) await remove(shared, user, entry);
  }
}

async function writeInBulk(shared: Shared, user: TestUser): Promise<void> {
  while (!shared.stopped) {
    const entries = Array.from(
      { length: BULK },
      (): Entry => ({ mark: randomUUID(), id: undefined, changes: 0, deleted: false, open: true }),
    );
    for (const entry of entries) shared.journal.entries.add(entry);
    const docs = entries.map(({ mark }) => ({ mark, n: 0 }));
    const answer = await insist(shared, 'create many', (node, options) =>
      asUser(node, user).post('/database/Entry/many', { docs }, options),
    );
    if (answer?.status === 200) {
      for (const [place, entry] of entries.entries()) {
        entry.id = answer.body.docs[place]._id;
        entry.open = false;
      }
      shared.journal.acknowledged.createMany += BULK;
    }
    await sleep(20);
  }
}

/** Asks every node once; an answer with 200 is no longer true. */
async function probe(
  { cluster, journal }: Shared,
  what: string,
  ask: (node: TestNode, options: RequestOptions) => Promise<Answer>,
) {
  await Promise.all(
    cluster.nodes.map(async (node, index) => {
      const answer = await ask(node, { signal: AbortSignal.timeout(ATTEMPT_MS) }).catch(
        () => undefined,
      );
      if (answer === undefined) return;
      journal.probes += 1;
      if (answer.status === 200)
        journal.stale.push(`${what}, node ${index}, ${new Date().toISOString()}`);
    }),
  );
}

/** Sessions that begin and end: an ended one is worth nothing from the answer on, at any node. */
async function signInAndOut(shared: Shared, { email, password }: TestUser): Promise<void> {
  while (!shared.stopped) {
    const session = await insist(shared, 'login', (node, { signal }) =>
      node.client.post('/authentication/local', { email, password }, signal ? { signal } : {}),
    );
    if (session?.status !== 200) continue;
    shared.journal.acknowledged.login += 1;
    const authorization = `Bearer ${session.body.accessToken}`;
    const user = (node: TestNode, options: RequestOptions) =>
      node.client.with({ authorization }).get('/authentication/user', options);
    await Promise.all(
      shared.cluster.nodes.map((node) =>
        user(node, { signal: AbortSignal.timeout(ATTEMPT_MS) }).catch(() => undefined),
      ),
    );
    const ended = await insist(shared, 'logout', (node, options) =>
      node.client.with({ authorization }).post('/authentication/logout', undefined, options),
    );
    if (ended?.status === 200) {
      shared.journal.acknowledged.logout += 1;
      shared.journal.endedTokens.push(session.body.accessToken);
      await probe(shared, 'a session that had ended', user);
    }
    await sleep(300);
  }
}

/** A permission that comes and goes: once it is taken away the record cannot be read any more, at any node. */
async function grantAndRevoke(shared: Shared, owner: TestUser, guest: TestUser): Promise<void> {
  const made = await insist(shared, 'create', (node, options) =>
    asUser(node, owner).post('/database/Guarded', { text: 'x' }, options),
  );
  const id: string = made?.body._id;
  const tuple = { subject: `User:${guest.userId}`, relation: 'reader', resource: `Guarded:${id}` };
  const read = (node: TestNode, options: RequestOptions) =>
    asUser(node, guest).get(`/database/Guarded/${id}`, options);
  while (!shared.stopped) {
    const granted = await insist(shared, 'grant', (node, options) =>
      node.admin.post('/authorization/relations', tuple, options),
    );
    if (granted?.status !== 200) continue;
    shared.journal.acknowledged.grant += 1;
    await Promise.all(
      shared.cluster.nodes.map((node) =>
        read(node, { signal: AbortSignal.timeout(ATTEMPT_MS) }).catch(() => undefined),
      ),
    );
    const revoked = await insist(shared, 'revoke', (node, options) =>
      node.admin.delete('/authorization/relations', { ...options, query: tuple }),
    );
    if (revoked?.status === 200) {
      shared.journal.acknowledged.revoke += 1;
      await probe(shared, 'a permission that was taken away', read);
    }
    await sleep(100);
  }
}

/** Requests of attackers, beside everything else. They may be refused in any way but with 500. */
async function attack(shared: Shared, user: TestUser): Promise<void> {
  const { journal, cluster } = shared;
  const deep = `${'{"$and":['.repeat(200)}{}${']}'.repeat(200)}`;
  for (let turn = 0; !shared.stopped; turn += 1) {
    const text = hostileTexts[turn % hostileTexts.length] ?? '';
    const options = () => ({ signal: AbortSignal.timeout(ATTEMPT_MS) });
    const api = asUser(anyNode(cluster), user);
    const attempts = [
      () => api.post('/database/Entry/query', `{"query":${deep}}`, options()),
      () => api.post('/database/Entry', { mark: text, n: text }, options()),
      () => api.get(`/database/Entry/${encodeURIComponent(text)}`, options()),
      () => api.post('/authentication/local', { email: text, password: text }, options()),
      () => api.post('/graphql', { query: `{ ${'a: __typename '.repeat(5_000)} }` }, options()),
      () =>
        api.post(
          '/database/Entry/many',
          { docs: Array.from({ length: 1_001 }, () => ({ mark: 'x' })) },
          options(),
        ),
      () =>
        api.get('/database/Entry', {
          ...options(),
          query: { sort: text, limit: -1, populate: text },
        }),
    ];
    const answer = await attempts[turn % attempts.length]?.().catch(() => undefined);
    if (answer) journal.hostile += 1;
    if (answer?.status === 500)
      journal.internal.push(
        `hostile ${turn % attempts.length} ${JSON.stringify(text)}: ${answer.text.slice(0, 200)}`,
      );
    await sleep(50);
  }
}

export async function startWorkload(options: WorkloadOptions): Promise<Workload> {
  const shared: Shared = { ...options, stopped: false };
  const [node] = options.cluster.nodes;
  if (!node) throw new Error('There is no node');
  const [writer, visitor, owner, guest] = [
    await node.registerUser(),
    await node.registerUser(),
    await node.registerUser(),
    await node.registerUser(),
  ];
  const half = Math.ceil(options.writers / 2);
  const running = [
    ...Array.from({ length: options.writers }, () => writeSingly(shared, writer)),
    ...Array.from({ length: half }, () => writeInBulk(shared, writer)),
    signInAndOut(shared, visitor),
    grantAndRevoke(shared, owner, guest),
    attack(shared, writer),
  ];
  return {
    async stop() {
      shared.stopped = true;
      await Promise.all(running);
    },
  };
}
