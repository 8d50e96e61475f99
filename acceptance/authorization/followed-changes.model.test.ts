/**
 * A follower of the stream of changes, whose connection is cut again and again, over two nodes of which one is killed,
 * while relations are written in every way there is. It began with the lists of the admin surface, and only applies
 * what it is told: in the end it has what these lists have. The same steps for the same seed.
 * `FOLLOWED_MODEL_STEPS=5000 FOLLOWED_MODEL_SEED=7 npm test -- acceptance/authorization/followed-changes` is the long form.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FieldMap } from '../../src/data/schema/language/definition.ts';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { randomOf } from '../../test/support/random-numbers.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const seed = Number(process.env.FOLLOWED_MODEL_SEED ?? 5);
const STEPS = Number(process.env.FOLLOWED_MODEL_STEPS ?? 400);
const AT_ONCE = 4;
const TYPES = ['Project', 'Task', 'Note', 'Company', 'Plain', 'User', 'Team'];
const random = randomOf(seed);
/** When the connection is cut is no step: it does not use up the numbers of the steps. */
const cuts = randomOf(seed + 1);

const docs = (schema: string) => `/database/schemas/${schema}/docs`;
const to = (model: string, onDelete: 'setNull' | 'cascade' = 'setNull') =>
  ({ type: 'Relation', model, onDelete }) as const;
const links: FieldMap = {
  project: to('Project'),
  lead: to('User'),
  parent: to('Project', 'cascade'),
  others: [{ type: 'Relation', model: 'Project' }],
};
const fromFields = {
  relations: {
    owner: ['User'],
    reader: ['User'],
    project: { from: 'project' },
    lead: { from: 'lead' },
    other: { from: 'others' },
  },
  permissions: {
    read: ['owner', 'reader', 'project->read', 'lead'],
    edit: ['owner'],
    delete: ['owner'],
  },
};

async function defineAll(node: SpawnedPlatform): Promise<void> {
  const title = 'String' as const;
  const asks = { authorization: { enabled: true } };
  await node.createSchema({ name: 'Project', fields: { title }, conduitOptions: asks });
  const schemas = { Task: asks, Note: { ...asks, softDelete: {} }, Company: {} };
  for (const [name, conduitOptions] of Object.entries(schemas))
    await node.createSchema({ name, fields: { title, ...links }, conduitOptions });
  const permissions = permissionsApi(node.admin);
  for (const name of Object.keys(schemas))
    await permissions.define({ name, version: 1, ...fromFields });
  await permissions.define({
    name: 'Plain',
    relations: { reader: ['User', 'User with asked'], editor: ['User'] },
    permissions: { read: ['reader'] },
    conditions: { asked: { eq: [{ context: 'a' }, { attribute: 'a' }] } },
  });
}

/** A relation in words; one that stands in a record, and one that is stored, are two. */
const keyOf = ({ subject, permission, relation, resource, source }: Json): string =>
  `${subject} ${permission ? `!${permission}` : relation} ${resource}${source === 'record' ? ' @' : ''}`;
const contentOf = ({ condition, attributes, expiresAt }: Json): string =>
  JSON.stringify([condition ?? null, attributes ?? null, expiresAt ? Date.parse(expiresAt) : null]);
/** What ran out goes at some time: it counts for nobody. */
const lasting = (relations: ReadonlyMap<string, string>): readonly string[] =>
  [...relations]
    .filter(([, value]) => (JSON.parse(value)[2] ?? Infinity) > Date.now())
    .map(([key, value]) => `${key} ${value}`)
    .sort();

/** All relations and permissions that the admin surface lists. */
async function listed({ admin }: SpawnedPlatform): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of ['relations', 'permissions'])
    for (const resourceType of TYPES)
      for (let skip = 0; ; skip += 100) {
        const query = { limit: 100, skip, resourceType };
        const { body } = expectStatus(
          await admin.get(`/authorization/${name}`, { query }),
          200,
          `the list of ${name}`,
        );
        for (const one of body[name]) found.set(keyOf(one), contentOf(one));
        if (body[name].length < 100) break;
      }
  return found;
}

interface Follower {
  readonly relations: ReadonlyMap<string, string>;
  readonly gaps: () => number;
  stop(): Promise<void>;
}

/** Follows from `position` on, now through the one node, now through the other. */
function follow(
  nodes: readonly SpawnedPlatform[],
  relations: Map<string, string>,
  position: number,
): Follower {
  let [at, gaps, stopped] = [0, 0, false];
  const hear = ({ change, gap, position: next }: Json): void => {
    if (/:(relation|permission)$/.test(change?.topic ?? '')) {
      const key = keyOf(change.payload);
      if (change.topic.includes(':delete:')) relations.delete(key);
      else relations.set(key, contentOf(change.payload));
    }
    if (gap) gaps += 1;
    position = gap?.position ?? next ?? position;
  };
  const connect = async ({ addresses, masterKey }: SpawnedPlatform): Promise<void> => {
    const answer = await fetch(
      `${addresses.admin}/authorization/changes/stream?after=${position}`,
      { headers: { masterkey: masterKey }, signal: AbortSignal.timeout(cuts.pick([60, 200, 700])) },
    );
    let rest = '';
    for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines.filter((one) => one !== '')) hear(JSON.parse(line));
    }
  };
  const run = async (): Promise<void> => {
    while (!stopped) {
      at = 1 - at;
      // Cut off, or the node is dead: it goes on from the last position.
      await connect(nodes[at] as SpawnedPlatform).catch(() => sleep(10));
    }
  };
  const done = run();
  return {
    relations,
    gaps: () => gaps,
    async stop() {
      stopped = true;
      await done;
    },
  };
}

interface World {
  readonly nodes: readonly SpawnedPlatform[];
  readonly users: string[];
  /** Ids of the records of each schema. */
  readonly records: Readonly<Record<string, string[]>>;
}

/** One thing that an operator does, through some node. What a node that dies does not answer may have happened or not. */
async function takeStep({ nodes, users, records }: World): Promise<Json> {
  const { admin, registerUser } = random.pick(nodes);
  const schema = random.pick(['Project', 'Task', 'Task', 'Note', 'Company']);
  const ids = records[schema] ?? [];
  const id = random.pick(ids);
  const user = random.pick(users);
  const project = () => (random.chance(0.1) ? null : (random.pick(records.Project ?? []) ?? null));
  const fields = () =>
    schema === 'Project'
      ? { title: random.pick(['a', 'b']) }
      : random.pick<Json>([
          { project: project() },
          { lead: random.pick([user, null]) },
          { others: [...new Set([project(), project()])].filter(Boolean) },
          { parent: project() },
        ]);
  const made = async (answer: Promise<Json>): Promise<void> => {
    const { status, body } = await answer;
    if (status === 200) ids.push(body._id);
  };
  const gone = async (list: string[], one: string, path: string): Promise<void> => {
    if ((await admin.delete(path)).status === 200) list.splice(list.indexOf(one), 1);
  };
  const steps: readonly (() => Promise<unknown>)[] = [
    () => admin.post('/authorization/relations', randomTuple(users)),
    () => admin.delete('/authorization/relations', { query: bare(randomTuple(users)) }),
    () => admin.post('/authorization/permissions', randomPermission(user)),
    () => admin.delete('/authorization/permissions', { query: randomPermission(user) }),
    ...Array.from({ length: 4 }, () => () => writeMany(admin, users, records.Task ?? [])),
    () => made(admin.post(docs(schema), { inputDocument: { title: 'x', ...fields() } })),
    () => made(admin.post(docs(schema), { inputDocument: { title: 'y', ...fields() } })),
    () => admin.put(`${docs(schema)}/${id}`, { changedDocument: fields() }),
    () => admin.put(`${docs(schema)}/${id}`, { changedDocument: fields() }),
    () => gone(ids, id, `${docs(schema)}/${id}`),
    () => admin.post(`${docs('Note')}/${random.pick(records.Note ?? [])}/restore`, {}),
    () => registerUser().then(({ userId }) => void users.push(userId)),
    () => gone(users, user, `/authentication/users/${user}`),
  ];
  return random
    .pick(steps)()
    .catch(() => undefined);
}

/** About things that are no records: now and then with a condition, or for a moment. */
function randomTuple(users: readonly string[]): Json {
  const relation = random.pick(['reader', 'editor']);
  const [subject, resource] = [`User:${random.pick(users)}`, `Plain:${random.pick([1, 2, 3])}`];
  const asked = { condition: 'asked', attributes: { a: random.pick([1, 2, null]) } };
  const expiresAt = new Date(Date.now() + random.pick([500, 3_600_000])).toISOString();
  return {
    ...{ subject, relation, resource },
    ...(relation === 'reader' && random.chance(0.4) && asked),
    ...(random.chance(0.3) && { expiresAt }),
  };
}

const bare = ({ subject, relation, resource }: Json): Json => ({ subject, relation, resource });
const randomPermission = (user: string): Json => ({
  subject: `User:${user}`,
  permission: 'read',
  resource: `Plain:${random.pick([1, 2])}`,
});

/** Several at once, some of them deletions, on records too. */
async function writeMany(
  admin: SpawnedPlatform['admin'],
  users: readonly string[],
  tasks: readonly string[],
): Promise<Json> {
  const some = Array.from({ length: random.pick([2, 5, 8]) }, () =>
    random.chance(0.3) && tasks.length > 0
      ? {
          subject: `User:${random.pick(users)}`,
          relation: 'reader',
          resource: `Task:${random.pick(tasks)}`,
        }
      : randomTuple(users),
  );
  const each = [...new Map(some.map((one) => [keyOf(one), one])).values()];
  const deletes = each.filter(() => random.chance(0.5));
  return admin.post('/authorization/relations/write', {
    writes: each.filter((one) => !deletes.includes(one)),
    deletes: deletes.map(bare),
  });
}

await describeWithPostgres15('the stream of changes over two nodes, as a model', () => {
  let both: TwoNodes;
  const nodes: SpawnedPlatform[] = [];
  beforeAll(async () => {
    both = await startTwoNodes({ redis: false });
    nodes.push(both.first, both.second);
    await defineAll(both.first);
  }, 120_000);
  afterAll(async () => {
    await nodes[1]?.dispose();
    await both?.close();
  }, 60_000);

  it(`is complete, however often it is cut (seed ${seed})`, async () => {
    const [first] = nodes as [SpawnedPlatform];
    const position = (await first.admin.get('/authorization/changes')).body.next;
    const follower = follow(nodes, await listed(first), position);
    const records = { Project: [], Task: [], Note: [], Company: [] };
    const world: World = { nodes, users: [(await first.registerUser()).userId], records };
    for (let step = 0; step < STEPS; step += AT_ONCE) {
      const steps = Array.from({ length: AT_ONCE }, () => takeStep(world));
      if (step === STEPS / 2) await both.second.kill();
      await Promise.all(steps);
      if (step !== STEPS / 2) continue;
      const env = { DATABASE_URL: both.databaseUrl, REDIS_URL: '' };
      nodes[1] = await spawnPlatform({ env });
    }
    let inLists: readonly string[] = [];
    await waitFor(async () => {
      inLists = lasting(await listed(first));
      return JSON.stringify(inLists) === JSON.stringify(lasting(follower.relations));
    }).catch(() => expect(lasting(follower.relations)).toEqual(inLists));
    await follower.stop();
    expect(follower.gaps()).toBe(0);
    expect(inLists.length).toBeGreaterThan(0);
  }, 300_000);
});
