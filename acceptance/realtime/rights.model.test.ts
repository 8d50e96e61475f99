/**
 * Live clients of every kind while rights change in every way there is, through two nodes: relations of users, teams
 * and everybody, references in fields, rules over values and over roles, exclusions, definitions, and the time that
 * passes. After each few steps every client has what the list of that moment answers it. The same steps for the same seed.
 * `RIGHTS_MODEL_STEPS=200 RIGHTS_MODEL_SEED=7 npm test -- acceptance/realtime/rights.model.test.ts` is the long form.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { randomOf } from '../../test/support/random-numbers.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import type { SpawnedPlatform } from '../../test/support/spawn.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { type ListRequest, listClient, type ModelClient } from './model-clients.ts';
import { streamListener, subscriptionListener } from './model-listeners.ts';

const seed = Number(process.env.RIGHTS_MODEL_SEED ?? 3);
const STEPS = Number(process.env.RIGHTS_MODEL_STEPS ?? 16);
const random = randomOf(seed);
const docs = (schema: string) => `/database/schemas/${schema}/docs`;

const everybody = { enabled: true, authenticated: false };
const signedIn = { enabled: true, authenticated: true };
const optionsOf = (...fields: readonly string[]) => ({
  authorization: { enabled: true },
  cms: {
    enabled: true,
    crudOperations: { create: signedIn, read: everybody, update: signedIn, delete: signedIn },
    query: { enabled: true, fields: ['title', ...fields] },
  },
});
const project = {
  name: 'Project',
  relations: {
    owner: ['User', 'Team'],
    reader: ['User', 'User:*', 'Team#member', '*'],
    editor: ['User'],
  },
  permissions: {
    read: [
      'edit',
      'reader',
      {
        rule: "record.open == true || 'auditor' in caller.roles || record.team in caller.teams",
      },
    ],
    edit: ['owner', 'editor'],
    delete: ['owner'],
  },
};
/** What may be read by whom, with or without the authors of tasks. */
const taskFor = (authors: boolean) => ({
  relations: {
    owner: ['User', 'Team'],
    reader: ['User', 'User:*', '*', 'Team#member', 'User with late'],
    project: { from: 'project' },
    other: { from: 'others' },
    author: { from: 'author' },
    banned: ['User'],
  },
  conditions: { late: { params: { until: 'timestamp' }, rule: 'now < until' } },
  permissions: {
    read: {
      exclusion: {
        base: [
          ...['owner', 'reader', 'project->read', 'other->edit', ...(authors ? ['author'] : [])],
          { rule: "record.status == 'published' || record.opens < now" },
        ],
        subtract: ['banned'],
      },
    },
    edit: ['owner'],
    delete: ['owner'],
  },
});

async function createSchemas(node: SpawnedPlatform): Promise<void> {
  await node.createSchema({
    name: 'Project',
    fields: { title: 'String', open: 'Boolean', team: 'String' } as never,
    conduitOptions: optionsOf(),
  });
  const toProject = { type: 'Relation', model: 'Project' } as const;
  await node.createSchema({
    name: 'Task',
    fields: {
      ...({ title: 'String', status: 'String', opens: 'Date' } as object),
      project: { ...toProject, onDelete: 'setNull' },
      others: [toProject],
      author: { type: 'Relation', model: 'User' },
    },
    conduitOptions: optionsOf('status', 'project.open'),
  });
  const permissions = permissionsApi(node.admin);
  await permissions.define({ ...project, version: 1 });
  await permissions.define({ name: 'Task', version: 1, ...taskFor(true) });
}

/** A client, and what it shows according to the list of the moment. */
interface Watched {
  readonly client: ModelClient;
  readonly user: TestUser | undefined;
  readonly request: ListRequest;
  /** Names of the fields that it asked for; all unless set. */
  readonly fields?: readonly string[];
}

const requests: readonly ListRequest[] = [
  { schema: 'Task' },
  { schema: 'Task', populate: ['project'] },
  { schema: 'Task', sort: ['-createdAt'], limit: 4 },
  { schema: 'Task', query: { 'project.open': true } },
  { schema: 'Project' },
];
const FIELDS = ['_id', 'title', 'status'];

function openClients(nodes: readonly SpawnedPlatform[], users: readonly TestUser[]): Watched[] {
  const at = (n: number) => () => (nodes[n % 2] as SpawnedPlatform).addresses;
  const [task, own] = [{ schema: 'Task' }, { schema: 'Project' }];
  const heard = (user: TestUser | undefined, n: number): Watched[] => [
    { user, request: task, client: streamListener(at(n), user, 'Task') },
    {
      ...{ user, request: task, fields: FIELDS },
      client: subscriptionListener(at(n + 1), user, 'Task', FIELDS),
    },
  ];
  return [
    ...users.flatMap((user, i) => [
      ...requests.map((request, n) => ({
        ...{ user, request },
        client: listClient(at(i + n), user, request, true),
      })),
      ...heard(user, i),
    ]),
    ...heard(undefined, 0),
    { user: undefined, request: own, client: streamListener(at(1), undefined, 'Project') },
  ];
}

interface World {
  readonly nodes: readonly SpawnedPlatform[];
  readonly users: readonly TestUser[];
  readonly team: string;
  readonly role: string;
  readonly projects: string[];
  readonly tasks: string[];
}

/** The list of the moment, through some node. */
async function listOf({ nodes }: World, { user, request, fields }: Watched): Promise<Json[]> {
  const { client } = random.pick(nodes);
  const api = user ? client.with({ authorization: `Bearer ${user.accessToken}` }) : client;
  const { schema, query, sort = [], limit = 25, populate = [] } = request;
  const page = new URLSearchParams({ limit: `${limit}` });
  for (const one of sort) page.append('sort', one);
  for (const one of populate) page.append('populate', one);
  const answer = query
    ? await api.post(`/database/${schema}/query?${page}`, { query })
    : await api.get(`/database/${schema}?${page}`);
  const records = expectStatus(answer, 200, schema).body.documents as Json[];
  if (!fields) return records;
  return records.map((one) => Object.fromEntries(fields.map((name) => [name, one[name] ?? null])));
}

/** Deletes what `path` names; makes it where there is nothing to delete. */
async function toggle(
  { admin }: SpawnedPlatform,
  path: string,
  body: Json,
  more: Json = {},
): Promise<void> {
  const gone = await admin.delete(path, { query: body });
  if (gone.status !== 200 || gone.body.deleted === 0) await admin.post(path, { ...body, ...more });
}

/** One thing that changes what somebody sees, through some node. Some of them do so only after a moment. */
async function takeStep(world: World): Promise<void> {
  const { users, team, role, projects, tasks } = world;
  const node = random.pick(world.nodes);
  const user = random.pick(users);
  const task = random.pick(tasks);
  const container = random.pick(projects);
  const anybody = random.pick([`User:${user.userId}`, '*', 'User:*', `Team:${team}#member`]);
  const soon = new Date(Date.now() + 700).toISOString();
  const relate = (subject: string, relation: string, resource: string, more: Json = {}) =>
    toggle(node, '/authorization/relations', { subject, relation, resource }, more);
  const change = (schema: string, id: string, changedDocument: Json) =>
    node.admin.put(`${docs(schema)}/${id}`, { changedDocument });
  const own = `User:${user.userId}`;
  const until = { condition: 'late', attributes: { until: soon } };
  const steps: readonly (() => Promise<unknown>)[] = [
    () => addTask(world),
    () => addProject(world),
    () => relate(anybody, 'reader', `Task:${task}`),
    () => relate(own, 'reader', `Task:${task}`, { expiresAt: soon }),
    () => relate(own, 'reader', `Task:${task}`, until),
    () => change('Task', task, { opens: random.pick([soon, null]) }),
    () => relate(own, 'banned', `Task:${task}`),
    () => relate(anybody, 'reader', `Project:${container}`),
    () => relate(own, 'editor', `Project:${container}`),
    () => member(node, team, user.userId),
    () => assign(node, role, user.userId),
    () => node.admin.put(`/authorization/roles/${role}`, { name: random.pick(['auditor', 'x']) }),
    () => change('Project', container, { open: random.chance(0.5) }),
    () => change('Project', container, { team: random.pick([team, null]) }),
    () => change('Task', task, { project: random.pick([container, null]) }),
    () => change('Task', task, { others: projects.filter(() => random.chance(0.4)) }),
    () => change('Task', task, { author: random.pick([user.userId, null]) }),
    () => change('Task', task, { status: random.pick(['draft', 'published']) }),
    () => node.admin.patch('/authorization/resources/Task', taskFor(random.chance(0.5))),
    () => remove(node, 'Project', projects, container),
    () => remove(node, 'Task', tasks, task),
  ];
  await random.pick(steps)();
}

async function addTask({ users, projects, tasks }: World): Promise<void> {
  const status = random.pick(['draft', 'draft', 'published']);
  const record = { title: `t${tasks.length}`, status, project: random.pick(projects) };
  const made = await random.pick(users).api.post('/database/Task', record);
  if (made.status === 200) tasks.push(made.body._id);
}

async function addProject({ users, team, projects }: World): Promise<void> {
  const record = { title: 'p', open: random.chance(0.3), ...(random.chance(0.3) && { team }) };
  const made = await random.pick(users).api.post('/database/Project', record);
  projects.push(expectStatus(made, 200, 'a project').body._id);
}

async function member({ admin }: SpawnedPlatform, team: string, user: string): Promise<void> {
  const path = `/authentication/teams/${team}/members`;
  const gone = await admin.delete(path, { query: { members: user } });
  if (gone.status !== 200) await admin.post(path, { members: [user] });
}

async function assign({ admin }: SpawnedPlatform, role: string, user: string): Promise<void> {
  const path = `/authorization/users/${user}/roles`;
  const gone = await admin.delete(`${path}/${role}`);
  if (gone.status !== 200) await admin.post(path, { role: 'auditor' });
}

async function remove(
  { admin }: SpawnedPlatform,
  schema: string,
  ids: string[],
  id: string,
): Promise<void> {
  if (ids.length < 4) return;
  const gone = await admin.delete(`${docs(schema)}/${id}`);
  if (gone.status === 200) ids.splice(ids.indexOf(id), 1);
}

/** Waits until each client shows the list of the moment. */
async function settle(world: World, watched: readonly Watched[]): Promise<void> {
  let late = watched;
  let differences: Json[] = [];
  await waitFor(
    async () => {
      const compared = await Promise.all(
        late.map(async (one) => {
          const expected = await listOf(world, one);
          const { ready, records } = one.client.state();
          const same = ready && isDeepStrictEqual(records, expected);
          return { one, same, shown: { client: one.client.name, ready, records }, expected };
        }),
      );
      differences = compared.filter(({ same }) => !same);
      late = differences.map(({ one }) => one);
      return late.length === 0;
    },
    { everyMs: 60 },
  ).catch((error: unknown) => {
    for (const { shown, expected } of differences)
      expect(shown).toEqual({ ...shown, ready: true, records: expected });
    throw error;
  });
}

await describeWithPostgres15('live clients while rights change, as a model', () => {
  let both: TwoNodes;
  let watched: Watched[] = [];
  let world: World;
  beforeAll(async () => {
    both = await startTwoNodes({ redis: false });
    const { first, second } = both;
    const teams = { teams: { enabled: true, memberAccess: 'read' } };
    await first.admin.patch('/config/authentication', { config: teams });
    await createSchemas(first);
    const users = await Promise.all(Array.from({ length: 3 }, () => first.registerUser()));
    const team = await users[0]?.api.post('/authentication/teams', { name: 'x' });
    const role = await first.admin.post('/authorization/roles', { name: 'auditor' });
    world = {
      ...{ nodes: [first, second], users, projects: [], tasks: [] },
      ...{ team: team?.body._id, role: role.body._id },
    };
    for (let i = 0; i < 4; i += 1) await addProject(world);
    for (let i = 0; i < 6; i += 1) await addTask(world);
    watched = openClients(world.nodes, users);
  }, 120_000);
  afterAll(async () => {
    for (const { client } of watched) client.close();
    await both?.close();
  });

  it(`show what the lists answer (seed ${seed})`, async () => {
    await settle(world, watched);
    for (let step = 0; step < STEPS; step += 1) {
      const atOnce = random.pick([1, 1, 2, 4]);
      for (let i = 0; i < atOnce; i += 1) await takeStep(world);
      await settle(world, watched);
    }
    expect(watched.some(({ client }) => client.state().records.length > 0)).toBe(true);
  }, 300_000);
});
