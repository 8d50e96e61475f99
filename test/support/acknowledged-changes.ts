/** Changes of every kind that take something away, each with the request that must not work any more. */
import { randomUUID } from 'node:crypto';
import type { Answer } from './api.ts';
import { expectStatus, type TestNode, type TestUser } from './node.ts';

export interface AcknowledgedChange {
  readonly kind: string;
  /** A GET request that answers 200 before the change, and one of `after` from its acknowledgement on. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly after: readonly number[];
  /** Makes the change at the first node. */
  apply(): Promise<Answer>;
}

const bearer = ({ accessToken }: TestUser) => ({ authorization: `Bearer ${accessToken}` });
const newName = (): string => `Kept${randomUUID().slice(0, 8)}`;
const forEverybody = {
  cms: { enabled: true, crudOperations: { read: { enabled: true, authenticated: false } } },
};
const read = (rule: object) => ({
  conduitOptions: { cms: { enabled: true, crudOperations: { read: rule } } },
});

/** Makes what the changes will take away. */
export async function prepareChanges(node: TestNode): Promise<readonly AcknowledgedChange[]> {
  return [
    ...(await ofSessions(node)),
    ...(await ofSchemas(node)),
    await ofConfiguration(node),
    await ofPermissions(node),
  ];
}

async function ofSessions(node: TestNode): Promise<readonly AcknowledgedChange[]> {
  const [leaving, blocked] = [await node.registerUser(), await node.registerUser()];
  const path = '/authentication/user';
  return [
    {
      kind: 'session',
      path,
      headers: bearer(leaving),
      after: [401],
      apply: () => leaving.api.post('/authentication/logout'),
    },
    {
      kind: 'block',
      path,
      headers: bearer(blocked),
      after: [401, 403],
      apply: () => node.admin.post(`/authentication/users/${blocked.userId}/block`),
    },
  ];
}

async function ofSchemas({
  admin,
  createSchema,
}: TestNode): Promise<readonly AcknowledgedChange[]> {
  const make = async () => {
    const name = newName();
    const { _id } = await createSchema({
      name,
      fields: { text: 'String' },
      conduitOptions: forEverybody,
    });
    return {
      name,
      path: `/database/${name}`,
      change: (body: object) => admin.patch(`/database/schemas/${_id}`, body),
    };
  };
  const [closed, withdrawn, guarded, queried] = [
    await make(),
    await make(),
    await make(),
    await make(),
  ];
  const definition = {
    name: `of${queried.name}`,
    operation: 0,
    selectedSchemaName: queried.name,
    query: {},
  };
  const endpoint = expectStatus(
    await admin.post('/database/customEndpoints', definition),
    200,
    'endpoint',
  ).body;
  const query = { path: guarded.path, action: 'GET' };
  const { middlewares } = expectStatus(
    await admin.get('/router/route-middlewares', { query }),
    200,
    'middlewares',
  ).body;
  return [
    {
      kind: 'schema',
      path: closed.path,
      headers: {},
      after: [401],
      apply: () => closed.change(read({ enabled: true, authenticated: true })),
    },
    {
      kind: 'route',
      path: withdrawn.path,
      headers: {},
      after: [404, 405],
      apply: () => withdrawn.change(read({ enabled: false })),
    },
    {
      kind: 'middleware',
      path: guarded.path,
      headers: {},
      after: [401],
      apply: () =>
        admin.patch(
          '/router/patch-middleware',
          { middlewares: [...middlewares, 'authMiddleware'] },
          { query },
        ),
    },
    {
      kind: 'endpoint',
      path: `/database/function/${definition.name}`,
      headers: {},
      after: [404],
      apply: () => admin.delete(`/database/customEndpoints/${endpoint._id}`),
    },
  ];
}

/** GraphQL is switched off; switch it on again before the next round. */
async function ofConfiguration({ admin }: TestNode): Promise<AcknowledgedChange> {
  const graphql = (on: boolean) => admin.patch('/config/router', { transports: { graphql: on } });
  expectStatus(await graphql(true), 200, 'GraphQL on');
  return {
    kind: 'config',
    path: '/graphql?query={__typename}',
    headers: {},
    after: [404, 503],
    apply: () => graphql(false),
  };
}

async function ofPermissions(node: TestNode): Promise<AcknowledgedChange> {
  const name = newName();
  await node.createSchema({
    name,
    fields: { text: 'String' },
    conduitOptions: { authorization: { enabled: true } },
  });
  const [owner, reader] = [await node.registerUser(), await node.registerUser()];
  const { _id } = expectStatus(
    await owner.api.post(`/database/${name}`, { text: 'mine' }),
    200,
    'record',
  ).body;
  const relation = {
    subject: `User:${reader.userId}`,
    relation: 'reader',
    resource: `${name}:${_id}`,
  };
  const granted = expectStatus(
    await node.admin.post('/authorization/relations', relation),
    200,
    'grant',
  ).body;
  return {
    kind: 'permission',
    path: `/database/${name}/${_id}`,
    headers: bearer(reader),
    after: [403, 404],
    apply: () => node.admin.delete(`/authorization/relations/${granted._id}`),
  };
}
