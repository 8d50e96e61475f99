/** What requests and answers about webhooks look like. */
import Type from 'typebox';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import type { ItemRow } from '../../../kernel/queue/durable-queue.ts';
import { type EndpointRow, payloads } from '../queries.ts';

export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Uuid = Type.String({ format: 'uuid' });
const Time = Type.String({ format: 'date-time' });

/** Ids that cannot be one are 404 like those that nothing has. */
const Id = Type.String({ minLength: 1, maxLength: 100, description: 'Its id' });
export const EndpointParams = Type.Object({ endpointId: Id });
export const DeliveryParams = Type.Object({ deliveryId: Id });

export const Paging = {
  ...pagingQuery({ maxLimit: 200 }),
};

const Name = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '\\S',
  description: 'What people call it',
});
const Url = Type.String({ minLength: 1, maxLength: 2_000, description: 'Where deliveries go' });
const EventPattern = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9_.-]*\\*?$',
});
const Events = Type.Array(EventPattern, {
  minItems: 1,
  maxItems: 50,
  description:
    'Types such as `record.created`, `record.updated`, `record.deleted`, `authentication.register.user`; a star at the end stands for anything',
});

const settings = {
  description: Type.String({ maxLength: 1_000, description: 'For people' }),
  schemas: Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
    maxItems: 100,
    description: 'Records of these schemas only; empty: of all',
  }),
  condition: orNull(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Only records that fit, in the language of filters: `{"total": {"$gt": 100}}`. Deletions are not asked about',
    }),
  ),
  payload: Type.Enum([...payloads], {
    description: '`full`: the record as it is when the event is passed on; `ids`: its id alone',
  }),
  ordered: Type.Boolean({
    description:
      'Deliveries about one record arrive in order: the next waits until the one before it has arrived or was given up',
  }),
};

export const NewEndpointShape = Type.Object({
  name: Name,
  url: Url,
  events: Events,
  ...Type.Partial(Type.Object(settings)).properties,
  enabled: Type.Optional(Type.Boolean({ description: 'false: nothing is delivered' })),
});

export const EndpointChangeShape = Type.Partial(NewEndpointShape);

export const Endpoint = Type.Object({
  _id: Uuid,
  name: Name,
  url: Url,
  events: Events,
  ...settings,
  enabled: Type.Boolean(),
  disabledReason: orNull(
    Type.String({ description: 'Why the platform switched it off; null when an operator did' }),
  ),
  failingSince: orNull(Time),
  problem: orNull(Type.String({ description: 'Why its condition could not be asked last time' })),
  createdAt: Time,
  updatedAt: Time,
});

export const endpointOnWire = ({ id, ...row }: EndpointRow) => ({
  _id: id,
  ...row,
  condition: row.condition === null ? null : { ...row.condition },
  events: [...row.events],
  schemas: [...row.schemas],
  failingSince: row.failingSince?.toISOString() ?? null,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

const states = ['waiting', 'held', 'done', 'dead'] as const;

export const DeliveryQuery = Type.Object({
  ...Paging,
  state: Type.Optional(
    Type.Enum([...states], {
      description: '`held`: its endpoint is off; `dead`: given up, can be replayed',
    }),
  ),
});

const Try = Type.Object({
  at: Time,
  durationMs: Type.Integer(),
  outcome: Type.Enum(['done', 'failed', 'lost']),
  status: Type.Optional(Type.Integer({ description: 'What the receiver answered' })),
  answer: Type.Optional(Type.String({ description: 'The beginning of its answer' })),
  error: Type.Optional(Type.String()),
});

export const Delivery = Type.Object({
  _id: Type.String({ format: 'uuid', description: 'The header `webhook-id` of every try' }),
  target: Type.String({ description: 'The endpoint' }),
  type: Type.String(),
  state: Type.Enum([...states]),
  attempts: Type.Integer(),
  nextTryAt: orNull(Time),
  body: Type.Record(Type.String(), Type.Unknown()),
  tries: Type.Array(Try),
  createdAt: Time,
  finishedAt: orNull(Time),
});

export const deliveryOnWire = (row: ItemRow) => ({
  _id: row.id,
  target: row.target,
  type: String(row.data.type),
  state: row.state,
  attempts: row.attempts,
  nextTryAt: row.state === 'waiting' && !row.running ? row.dueAt.toISOString() : null,
  body: { ...row.data },
  tries: row.tries.map(({ note, ...attempt }) => ({ ...attempt, ...note })),
  createdAt: row.createdAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
});
