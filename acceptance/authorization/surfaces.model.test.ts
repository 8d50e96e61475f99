/**
 * Every way to records gives one answer, and the one that the guide gives: lists, counts, single reads, checks, who-can,
 * GraphQL, populate, exports and realtime, beside a naive evaluator, with a change between every two answers; on one node,
 * and on two of which one is told and the other is asked.
 */
import { randomUUID } from 'node:crypto';
import { io, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import {
  definitions,
  mayProject,
  mayTask,
  newWorld,
  options,
  schemas,
  visitor,
  type World,
} from '../../test/support/permission-data/records-world.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform } from '../../test/support/platform.ts';
import { type Random, randomOf } from '../../test/support/random-numbers.ts';
import { startTwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** Changes, with everything asked after each: a few with every test, more with `SURFACES_STEPS=400`. */
const STEPS = Number(process.env.SURFACES_STEPS ?? 60);
const SEED = Number(process.env.SURFACES_SEED ?? 12);
const LIMIT = 60_000 + STEPS * 5_000;

interface Nodes {
  readonly first: TestNode;
  readonly second: TestNode;
  close(): Promise<void>;
}

async function oneNode(): Promise<Nodes> {
  const platform = await createTestPlatform();
  return { first: platform, second: platform, close: () => platform.close() };
}

describe.each([
  { name: 'one node', start: oneNode },
  { name: 'two nodes', start: () => startTwoNodes({ redis: false }) },
])('records on $name', ({ start }) => {
  let nodes: Nodes;
  let world: World;
  let users: readonly TestUser[];
  let auditor: Json;
  const random = randomOf(SEED);
  const sockets: Socket[] = [];

  beforeAll(async () => {
    nodes = await start();
    await liftLimits(nodes.first.admin);
    world = newWorld(randomUUID());
    users = await Promise.all(Array.from({ length: 4 }, () => nodes.first.registerUser()));
    for (const schema of schemas)
      await nodes.first.createSchema({ ...schema, conduitOptions: options });
    for (const definition of definitions)
      await permissionsApi(nodes.first.admin).define(definition);
    const role = await nodes.first.admin.post('/authorization/roles', { name: 'auditor' });
    auditor = expectStatus(role, 200, 'role').body;
    for (let i = 0; i < 3; i += 1) await newProject(users[i] as TestUser);
    const projects = [...world.projects].map(([id, { owner }]) => ({ id, owner }));
    for (const { id, owner } of [...projects, ...projects])
      await createTask(users.find(({ userId }) => userId === owner) as TestUser, id);
  }, LIMIT);
  afterAll(async () => {
    for (const socket of sockets) socket.disconnect();
    await nodes?.close();
  });

  /** The node that is told, and the one that is asked, in turns. */
  let turn = 0;
  const told = (): TestNode => (turn % 2 === 0 ? nodes.first : nodes.second);
  const asked = (): TestNode => (turn % 2 === 0 ? nodes.second : nodes.first);
  const as = (node: TestNode, user: TestUser): Api =>
    node.client.with({ authorization: `Bearer ${user.accessToken}` });

  async function newProject(owner: TestUser): Promise<void> {
    const answer = await owner.api.post('/database/Project', { title: 'p', open: false });
    const { _id } = expectStatus(answer, 200, 'project').body;
    world.projects.set(_id, { owner: owner.userId, open: false });
  }
  async function createTask(user: TestUser, project: string): Promise<void> {
    const body = { title: 't', status: 'draft', project };
    const answer = await as(told(), user).post('/database/Task', body);
    const may = mayProject(world, user.userId, 'edit', project);
    // A project that they may not read is none for them.
    const refused = mayProject(world, user.userId, 'read', project) ? 403 : 400;
    expect(['create', answer.status]).toEqual(['create', may ? 200 : refused]);
    if (!may) return;
    const task = { owner: user.userId, project, others: [], author: undefined };
    world.tasks.set(answer.body._id, { ...task, status: 'draft' });
  }
  const taskIds = (): string[] => [...world.tasks.keys()];
  const projectIds = (): string[] => [...world.projects.keys()];
  const user = (): TestUser => random.pick(users);

  /** A tuple comes, or goes where it is there. */
  async function toggle(subject: string, relation: string, resource: string): Promise<void> {
    const text = `${subject} ${relation} ${resource}`;
    const permissions = permissionsApi(told().admin);
    if (world.tuples.delete(text)) return permissions.unrelate(text);
    await permissions.relate(text);
    world.tuples.add(text);
  }
  async function change(schema: string, id: string, changedDocument: object): Promise<void> {
    const path = `/database/schemas/${schema}/docs/${id}`;
    expectStatus(await told().admin.put(path, { changedDocument }), 200, 'change');
  }

  const steps: readonly ((random: Random) => Promise<unknown>)[] = [
    () => toggle(`User:${user().userId}`, 'reader', `Task:${random.pick(taskIds())}`),
    () => toggle(random.pick(['*', 'User:*']), 'reader', `Task:${random.pick(taskIds())}`),
    () => toggle(`User:${user().userId}`, 'banned', `Task:${random.pick(taskIds())}`),
    () => toggle(`User:${user().userId}`, 'editor', `Project:${random.pick(projectIds())}`),
    () =>
      toggle(
        random.pick([`Team:${world.team.id}#member`, '*', `User:${user().userId}`]),
        'reader',
        `Project:${random.pick(projectIds())}`,
      ),
    async () => {
      const { userId } = user();
      const text = `User:${userId} member Team:${world.team.id}`;
      const permissions = permissionsApi(told().admin);
      if (world.team.members.delete(userId)) return permissions.unrelate(text);
      world.team.members.add(userId);
      return permissions.relate(text);
    },
    async () => {
      const { userId } = user();
      const path = `/authorization/users/${userId}/roles`;
      const { admin } = told();
      if (world.auditors.delete(userId))
        return expectStatus(await admin.delete(`${path}/${auditor._id}`), 200, 'role');
      world.auditors.add(userId);
      return expectStatus(await admin.post(path, { role: 'auditor' }), 200, 'role');
    },
    async () => {
      const id = random.pick(projectIds());
      const project = world.projects.get(id);
      if (!project) return;
      project.open = !project.open;
      await change('Project', id, { open: project.open });
    },
    async () => {
      const id = random.pick(taskIds());
      const task = world.tasks.get(id);
      if (!task) return;
      const next = random.pick([
        { project: random.pick(projectIds()) },
        { others: projectIds().filter(() => random.chance(0.5)) },
        { author: user().userId },
        { status: task.status === 'draft' ? ('published' as const) : ('draft' as const) },
      ]);
      Object.assign(task, next);
      await change('Task', id, next);
    },
    () => createTask(user(), random.pick(projectIds())),
    async () => {
      const [giver, id] = [user(), random.pick(taskIds())];
      const other = random.pick(users.filter((one) => one !== giver));
      const answer = await as(told(), giver).post(`/authorization/shares/Task:${id}`, {
        subject: `User:${other.userId}`,
        relation: 'reader',
      });
      const may = (['share', 'read'] as const).every((one) =>
        mayTask(world, giver.userId, one, id),
      );
      expect(['share', answer.status]).toEqual(['share', may ? 200 : 403]);
      if (may) world.tuples.add(`User:${other.userId} reader Task:${id}`);
    },
    async () => {
      const [id, { userId }] = [random.pick(taskIds()), user()];
      const task = world.tasks.get(id);
      if (!task) return;
      const permissions = permissionsApi(told().admin);
      await permissions.unrelate(`User:${task.owner} owner Task:${id}`);
      await permissions.relate(`User:${userId} owner Task:${id}`);
      task.owner = userId;
    },
    async () => {
      const [editor, id] = [user(), random.pick(taskIds())];
      const answer = await as(told(), editor).patch(`/database/Task/${id}`, { title: 'x' });
      const [reads, edits] = (['read', 'edit'] as const).map((one) =>
        mayTask(world, editor.userId, one, id),
      );
      expect(['edit', answer.status]).toEqual(['edit', edits ? 200 : reads ? 403 : 404]);
    },
  ];

  /** What one of them sees, by every way. */
  async function compare(who: TestUser | undefined): Promise<void> {
    const id = who?.userId ?? visitor;
    const api = who ? as(asked(), who) : asked().client;
    const expected = taskIds().filter((one) => mayTask(world, id, 'read', one));
    const all = taskIds().sort();
    const sort = random.pick(['_id', '-createdAt', 'title']);
    const checks = all.map((task) => ({
      subject: who ? `User:${id}` : '*',
      permission: 'read',
      resource: `Task:${task}`,
    }));
    const list = { permission: 'read', resourceType: 'Task', limit: 100 };
    const [listed, paged, graphql, checked, found, single] = await Promise.all([
      api.get('/database/Task', { query: { limit: 100, sort, populate: 'project' } }),
      api.get('/database/Task', { query: { limit: 100, cursor: 'start' } }),
      api.post('/graphql', {
        query: '{ getDatabaseTask(limit: 100) { count documents { _id } } }',
      }),
      asked().admin.post('/authorization/permissions/check', { checks }),
      asked().admin.post('/authorization/permissions/resources', {
        ...list,
        subject: checks[0]?.subject,
      }),
      api.get(`/database/Task/${all[0]}`),
    ]);
    const ids = (documents: readonly Json[]): string[] => documents.map(({ _id }) => _id).sort();
    const { documents, count } = expectStatus(listed, 200, 'list').body;
    const data = expectStatus(graphql, 200, 'graphql').body.data.getDatabaseTask;
    expect({
      list: ids(documents),
      count,
      paged: ids(expectStatus(paged, 200, 'page').body.documents),
      graphql: ids(data.documents),
      graphqlCount: data.count,
      checks: all.filter((_, i) => expectStatus(checked, 200, 'check').body.results[i].allowed),
      found: expectStatus(found, 200, 'resources').body.resources.map((one: string) =>
        one.slice(5),
      ),
      single: single.status,
    }).toEqual({
      list: expected.sort(),
      count: expected.length,
      paged: expected,
      graphql: expected,
      graphqlCount: expected.length,
      checks: expected,
      found: expected,
      single: all[0] !== undefined && expected.includes(all[0]) ? 200 : 404,
    });
    for (const { _id, project } of documents)
      expect([_id, 'populate', typeof project === 'object']).toEqual([
        _id,
        'populate',
        mayProject(world, id, 'read', world.tasks.get(_id)?.project),
      ]);
  }

  /** Whoever is listed may; whoever may is listed, unless everybody is, or something could not be turned round. */
  async function compareWho(): Promise<void> {
    const task = random.pick(taskIds());
    const query = { permission: 'read', resource: `Task:${task}`, limit: 100 };
    const answer = await asked().admin.get('/authorization/permissions/subjects', { query });
    const { subjects, incomplete } = expectStatus(answer, 200, 'who').body;
    const isWhole = !subjects.includes('User:*') && incomplete !== true;
    for (const { userId } of users) {
      const may = mayTask(world, userId, 'read', task);
      if (subjects.includes(`User:${userId}`))
        expect([task, userId, may]).toEqual([task, userId, true]);
      else if (isWhole) expect([task, userId, may]).toEqual([task, userId, false]);
    }
  }

  /** Operators export everything, whatever anybody may read. */
  async function compareExport(): Promise<void> {
    const { text } = await asked().admin.get('/database/schemas/Task/docs/export');
    const ids = text.split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)._id));
    expect(ids.sort()).toEqual(taskIds().sort());
  }

  interface Listener {
    readonly heard: Set<string>;
    /** Whether the record may be listened to. */
    readonly subscribe: (documentId: string) => Promise<boolean>;
  }

  async function listen(who: TestUser): Promise<Listener> {
    const socket = io(`${asked().addresses.realtime}/database/`, {
      path: '/realtime',
      transports: ['websocket'],
      forceNew: true,
      auth: { token: who.accessToken },
    });
    sockets.push(socket);
    const heard = new Set<string>();
    socket.on('change', ({ documentId }: Json) => heard.add(documentId));
    await new Promise((resolve) => socket.on('connect', () => resolve(undefined)));
    const subscribe = async (documentId: string): Promise<boolean> =>
      (await socket.emitWithAck('subscribe', { schema: 'Task', documentId })).ok;
    return { heard, subscribe };
  }

  it(
    'gives one answer after every change',
    async () => {
      for (turn = 0; turn < STEPS; turn += 1) {
        await random.pick(steps)(random);
        await Promise.all([compare(random.pick(users)), compareWho()]);
        if (turn % 4 === 3) await Promise.all([compare(undefined), compareExport()]);
      }
      for (const one of [...users, undefined]) await compare(one);
    },
    LIMIT,
  );

  /** Everybody asks to hear of every task, which they may exactly where they read it; answers who follows which. */
  async function followAll(
    listeners: readonly Listener[],
    tasks: readonly string[],
  ): Promise<readonly ReadonlySet<string>[]> {
    const followed = users.map(() => new Set<string>());
    for (const id of tasks)
      for (const [i, { subscribe }] of listeners.entries()) {
        const may = mayTask(world, users[i]?.userId ?? '', 'read', id);
        expect([id, i, await subscribe(id)]).toEqual([id, i, may]);
        if (may) followed[i]?.add(id);
      }
    return followed;
  }

  /** A task that everybody hears of: events come in their order, so by then they have heard what is for them. */
  async function tellLast(listeners: readonly Listener[]): Promise<void> {
    const owner = users[0] as TestUser;
    const [own = ''] = [...world.projects].find(([, one]) => one.owner === owner.userId) ?? [];
    await createTask(owner, own);
    const last = taskIds().at(-1) ?? '';
    await toggle('*', 'reader', `Task:${last}`);
    for (const { subscribe } of listeners) expect(await subscribe(last)).toBe(true);
    await change('Task', last, { title: 'last' });
    for (const { heard } of listeners)
      await waitFor(() => heard.has(last), { what: 'the last change' });
  }

  it(
    'tells of changes whoever may read, and nobody else',
    async () => {
      const listeners = await Promise.all(users.map(listen));
      const tasks = taskIds();
      const followed = await followAll(listeners, tasks);
      // Who listens is asked again with each change.
      for (turn = 0; turn < 8; turn += 1) await random.pick(steps)(random);
      for (const { heard } of listeners) heard.clear();
      for (const id of tasks) await change('Task', id, { title: `told ${turn}` });
      await tellLast(listeners);
      for (const [i, { heard }] of listeners.entries())
        expect(tasks.filter((task) => heard.has(task))).toEqual(
          tasks.filter(
            (task) =>
              followed[i]?.has(task) && mayTask(world, users[i]?.userId ?? '', 'read', task),
          ),
        );
    },
    LIMIT,
  );
});
