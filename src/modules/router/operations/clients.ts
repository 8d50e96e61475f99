/** Apps ("security clients"): registered, listed, changed and taken away by operators. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { routerErrors } from '../errors.ts';
import { type ClientRow, platforms } from '../queries.ts';
import type { Clients } from '../services/clients.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const instant = Type.String({ format: 'date-time' });

const fields = {
  _id: Type.String({ format: 'uuid' }),
  clientId: Type.String({ description: 'Header `clientid`' }),
  platform: Type.Enum([...platforms]),
  domain: nullable(Type.String()),
  alias: Type.String(),
  notes: nullable(Type.String({ description: 'For operators' })),
  createdAt: instant,
  updatedAt: instant,
  lastUsedAt: nullable(instant),
};
const Client = Type.Object(fields);
const ClientWithSecret = Type.Object({
  ...fields,
  clientSecret: Type.String({ description: 'Header `clientsecret`; shown this once' }),
});
const Id = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });

const changeable = {
  domain: Type.Optional(
    Type.String({
      maxLength: 260,
      description: 'Of WEB: a host name, `*.` before one for all below it, or `*`',
    }),
  ),
  alias: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'What people call it' }),
  ),
  notes: Type.Optional(Type.String({ maxLength: 2_000, description: 'For operators' })),
};

/** An app as a state document has it: the alias is what it is known by. */
export const NewClientShape = Type.Object({
  platform: Type.Enum([...platforms]),
  ...changeable,
  alias: Type.String({ minLength: 1, maxLength: 200, description: 'What people call it' }),
});

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const path = '/router/security/client';
const alias = '/security/client';
const problems = [routerErrors.DOMAIN_INVALID, routerErrors.CLIENT_EXISTS];

export const clientOperations = (clients: Clients): readonly Operation[] => [
  createOperation(clients),
  listOperation(clients),
  updateOperation(clients),
  rotateOperation(clients),
  deleteOperation(clients),
];

const createOperation = (clients: Clients): Operation =>
  defineOperation({
    ...facts,
    id: 'router.clients.create',
    method: 'POST',
    answersSecret: true,
    path,
    aliases: [{ method: 'POST', path: alias }],
    idempotency: false,
    input: {
      body: Type.Object({
        platform: Type.Enum([...platforms], { description: 'Where the app runs' }),
        ...changeable,
      }),
    },
    output: ClientWithSecret,
    errors: problems,
    summary: 'Register an app',
    description:
      'Answers its secret, this once. Pages (WEB) need a domain; they prove themselves by where they come from.',
    async handler({ caller }, { body }) {
      const { clientSecret, ...client } = await clients.create(caller, body);
      return { ...onWire(client), clientSecret };
    },
  });

const listOperation = (clients: Clients): Operation =>
  defineOperation({
    ...facts,
    id: 'router.clients.list',
    method: 'GET',
    path,
    aliases: [{ method: 'GET', path: alias }],
    input: {
      query: Type.Object({
        ...pagingQuery({ defaultLimit: 1_000 }),
      }),
    },
    output: Type.Object({ clients: Type.Array(Client), count: Type.Integer() }),
    summary: 'List the registered apps',
    async handler(_context, { query }) {
      const { clients: rows, count } = await clients.list(query);
      return { clients: rows.map(onWire), count };
    },
  });

const updateOperation = (clients: Clients): Operation =>
  defineOperation({
    ...facts,
    id: 'router.clients.update',
    method: 'PATCH',
    path: `${path}/:id`,
    aliases: [
      { method: 'PUT', path: `${path}/:id` },
      { method: 'PATCH', path: `${alias}/:id` },
      { method: 'PUT', path: `${alias}/:id` },
    ],
    input: { params: Id, body: Type.Object(changeable) },
    output: Client,
    errors: [routerErrors.CLIENT_NOT_FOUND, ...problems],
    summary: 'Change an app',
    description: 'What is left out stays.',
    handler: async ({ caller }, { params, body }) =>
      onWire(await clients.update(caller, params.id, body)),
  });

const dayMs = 24 * 60 * 60_000;

const rotateOperation = (clients: Clients): Operation =>
  defineOperation({
    ...facts,
    id: 'router.clients.rotateSecret',
    method: 'POST',
    answersSecret: true,
    path: `${path}/:id/secret`,
    destructive: true,
    idempotency: false,
    input: {
      params: Id,
      body: Type.Object({
        keepPreviousMs: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 90 * dayMs,
            description:
              'How long the secret until now stays good, so that apps can be changed over; a day unless given. 0: it ends now',
          }),
        ),
      }),
    },
    output: ClientWithSecret,
    errors: [routerErrors.CLIENT_NOT_FOUND],
    summary: 'Give an app a new secret',
    async handler({ caller }, { params, body: { keepPreviousMs = dayMs } }) {
      const { clientSecret, ...client } = await clients.rotateSecret(
        caller,
        params.id,
        keepPreviousMs,
      );
      return { ...onWire(client), clientSecret };
    },
  });

const deleteOperation = (clients: Clients): Operation =>
  defineOperation({
    ...facts,
    id: 'router.clients.delete',
    method: 'DELETE',
    path: `${path}/:id`,
    aliases: [{ method: 'DELETE', path: `${alias}/:id` }],
    input: { params: Id },
    output: Type.Object({ message: Type.String() }),
    errors: [routerErrors.CLIENT_NOT_FOUND],
    summary: 'Take an app away',
    description:
      'While `security.clientValidation` is on, its requests and the tokens of its users are refused from now on.',
    async handler({ caller }, { params }) {
      await clients.remove(caller, params.id);
      return { message: 'Client deleted' };
    },
  });

const onWire = ({ createdAt, updatedAt, lastUsedAt, ...client }: ClientRow) => ({
  ...client,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
});
