/** Event relays: which events of the platform go to sockets of users, as operators say. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { routerErrors } from '../errors.ts';
import type { Relays } from '../relays/relays.ts';
import type { RelayRow } from '../relays/store.ts';
import { factsOf, MESSAGE_BYTES, renderMessage, templateProblems } from '../relays/template.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const instant = Type.String({ format: 'date-time' });
const name = Type.String({ minLength: 1, maxLength: 64, description: 'What people call it' });
const busEvent = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[a-z]+:[A-Za-z0-9:_.-]*\\*?$',
  description:
    'Topic of the events, such as `database:update:Post`, or the beginning of topics before `*`',
});
const socketEvent = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z][A-Za-z0-9:_.-]*$',
  description: 'Under which name sockets in `/events/` get them',
});
const details = {
  resourceType: nullable(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description: 'Of what `permission` is asked, with the id that the client names',
    }),
  ),
  resourceIdPath: nullable(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description:
        'Where an event says what it is about, such as `payload.room`; unless given, its ids',
    }),
  ),
  permission: nullable(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description:
        'What subscribers must be allowed to do. Without it whoever is signed in may hear it',
    }),
  ),
  messageTemplate: Type.Unknown({
    description:
      'JSON that is sent, 16 KB at most. `{{topic}}`, `{{occurredAt}}`, `{{schema}}`, `{{operation}}`, `{{id}}`, `{{ids}}` and `{{payload.name}}` in its texts stand for what the event says. Unless given: topic, time and id',
  }),
  notes: nullable(Type.String({ maxLength: 2_000, description: 'For operators' })),
};
const active = Type.Boolean({ description: 'Whether it passes anything on; true unless given' });
const Relay = Type.Object({
  ...{ _id: Type.String({ format: 'uuid' }), name, active, busEvent, socketEvent },
  ...{ ...details, createdAt: instant, updatedAt: instant },
});
const Id = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });
const optional = Object.fromEntries(
  Object.entries(details).map(([key, schema]) => [key, Type.Optional(schema)]),
) as { [K in keyof typeof details]: Type.TOptional<(typeof details)[K]> };

/** A relay as a state document has it: the name is what it is known by. */
export const NewRelayShape = Type.Object({
  ...{ name, busEvent, socketEvent, ...optional },
  active: Type.Optional(active),
});

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const path = '/router/event-relays';

const onWire = ({ createdAt, updatedAt, ...relay }: RelayRow) => ({
  ...relay,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

export const relayOperations = (relays: Relays): readonly Operation[] => [
  ...readOperations(relays),
  ...writeOperations(relays),
  previewOperation,
];

const readOperations = (relays: Relays): readonly Operation[] => [
  defineOperation({
    ...{ ...facts, id: 'router.eventRelays.list', method: 'GET', path },
    input: {
      query: Type.Object({
        ...pagingQuery(),
        limit: Type.Integer({
          ...{ default: 100, minimum: 1, maximum: 500, description: 'How many at most' },
        }),
      }),
    },
    output: Type.Object({ relays: Type.Array(Relay), count: Type.Integer() }),
    summary: 'List the event relays',
    async handler(_context, { query }) {
      const { relays: rows, count } = await relays.list(query);
      return { relays: rows.map(onWire), count };
    },
  }),
  defineOperation({
    ...{ ...facts, id: 'router.eventRelays.get', method: 'GET', path: `${path}/:id` },
    input: { params: Id },
    output: Relay,
    errors: [routerErrors.EVENT_RELAY_NOT_FOUND],
    summary: 'Read an event relay',
    handler: async (_context, { params }) => onWire(await relays.get(params.id)),
  }),
];

const writeOperations = (relays: Relays): readonly Operation[] => [
  defineOperation({
    ...{ ...facts, id: 'router.eventRelays.create', method: 'POST', path },
    input: { body: NewRelayShape },
    output: Relay,
    errors: [routerErrors.EVENT_RELAY_EXISTS, routerErrors.EVENT_RELAY_LIMIT_EXCEEDED],
    about: { resourceType: 'open' },
    summary: 'Pass events on to sockets of users',
    description:
      'In the socket namespace `/events/` users subscribe to a relay, and to one resource where it asks for a permission, which is asked again whenever it may have changed.',
    handler: async ({ caller }, { body }) => onWire(await relays.create(caller, body)),
  }),
  defineOperation({
    ...{ ...facts, id: 'router.eventRelays.update', method: 'PATCH', path: `${path}/:id` },
    input: {
      params: Id,
      body: Type.Object({
        name: Type.Optional(name),
        busEvent: Type.Optional(busEvent),
        socketEvent: Type.Optional(socketEvent),
        active: Type.Optional(active),
        ...optional,
      }),
    },
    output: Relay,
    errors: [routerErrors.EVENT_RELAY_NOT_FOUND, routerErrors.EVENT_RELAY_EXISTS],
    about: { resourceType: 'open' },
    summary: 'Change an event relay',
    description: 'What is left out stays.',
    handler: async ({ caller }, { params, body }) =>
      onWire(await relays.update(caller, params.id, body)),
  }),
  defineOperation({
    ...{ ...facts, id: 'router.eventRelays.delete', method: 'DELETE', path: `${path}/:id` },
    input: { params: Id },
    output: Type.Object({ message: Type.String() }),
    errors: [routerErrors.EVENT_RELAY_NOT_FOUND],
    summary: 'Take an event relay away',
    description: 'Its subscribers are told that it has ended.',
    async handler({ caller }, { params }) {
      await relays.remove(caller, params.id);
      return { message: 'Event relay deleted' };
    },
  }),
];

const previewOperation: Operation = defineOperation({
  ...{ ...facts, id: 'router.eventRelays.preview', method: 'POST', path: `${path}/preview` },
  readOnly: true,
  idempotency: false,
  input: {
    body: Type.Object({
      messageTemplate: details.messageTemplate,
      event: Type.Object(
        {
          topic: Type.Optional(Type.String({ maxLength: 200 })),
          schema: Type.Optional(Type.String({ maxLength: 128 })),
          operation: Type.Optional(Type.Enum(['insert', 'update', 'delete'])),
          occurredAt: Type.Optional(Type.String({ maxLength: 64 })),
          ids: Type.Optional(Type.Array(Type.String({ maxLength: 128 }), { maxItems: 100 })),
          payload: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
        },
        { description: 'An event as it might come' },
      ),
    }),
  },
  output: Type.Object({ message: Type.Unknown() }),
  summary: 'See what a template makes of an event',
  async handler(_context, { body: { messageTemplate, event } }) {
    const template = messageTemplate ?? null;
    const problems = templateProblems(template);
    if (problems.length > 0) throw invalidInput(problems);
    const text = renderMessage(template, factsOf(event));
    if (text !== undefined) return { message: JSON.parse(text) as unknown };
    throw invalidInput([
      {
        ...{ path: 'messageTemplate', rule: 'maxLength' },
        message: `makes a message of more than ${MESSAGE_BYTES} bytes`,
      },
    ]);
  },
});
