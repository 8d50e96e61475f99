/** What was sent to endpoints, what became of it, and sending it again. */
import Type from 'typebox';
import { requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { ItemRow } from '../../../kernel/queue/durable-queue.ts';
import { webhookErrors } from '../errors.ts';
import type { Endpoints } from '../services/endpoints.ts';
import type { WebhookParts } from '../services/parts.ts';
import {
  adminFacts,
  Delivery,
  DeliveryParams,
  DeliveryQuery,
  deliveryOnWire,
  EndpointParams,
} from './shapes.ts';

const { DELIVERY_NOT_FOUND, WEBHOOK_DISABLED, WEBHOOK_NOT_FOUND } = webhookErrors;
const about = { endpointId: 'inside' } as const;
/** Deliveries that one call replays. */
const MAX_REPLAYED = 1_000;

export interface DeliveryParts
  extends Pick<WebhookParts, 'queue' | 'database' | 'schemas' | 'wake'> {
  readonly endpoints: Endpoints;
}

export const deliveryOperations = (parts: DeliveryParts): readonly Operation[] => [
  list(parts),
  get(parts),
  test(parts),
  replay(parts),
  replayFailed(parts),
];

/** A delivery holds what its event was about: a narrow token reads it where it might read that itself. */
function requireContent(
  { schemas }: DeliveryParts,
  caller: Caller,
  rows: readonly Pick<ItemRow, 'data'>[],
): void {
  const origins = new Set(rows.map(({ data }) => originOf(data)));
  for (const { module, schema } of [...origins].map(readOrigin)) {
    const known = schema === undefined ? [] : schemaObject(schemas.get(schema));
    requireAuthority(caller, ...(known.length > 0 ? known : [{ kind: 'module', module } as const]));
  }
}

/** Of one text, so that each is asked once. */
const originOf = ({ type, data }: ItemRow['data']): string => {
  const [word = ''] = String(type).split('.');
  const { schema } = (data ?? {}) as { readonly schema?: unknown };
  return word === 'record' ? `database ${String(schema)}` : word;
};

const readOrigin = (origin: string): { readonly module: string; readonly schema?: string } => {
  const [module = '', schema] = origin.split(' ');
  return { module, ...(schema !== undefined && { schema }) };
};

const list = (parts: DeliveryParts): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.deliveries.list',
    method: 'GET',
    path: '/webhooks/endpoints/:endpointId/deliveries',
    input: { params: EndpointParams, query: DeliveryQuery },
    output: Type.Object({ deliveries: Type.Array(Delivery), count: Type.Integer() }),
    errors: [WEBHOOK_NOT_FOUND],
    summary: 'List deliveries to an endpoint, with their tries, newest first',
    handler: async ({ caller }, { params, query }) => {
      const { id } = await parts.endpoints.get(params.endpointId);
      const { items, count } = await parts.queue.list({ target: id, state: query.state }, query);
      requireContent(parts, caller, items);
      return { deliveries: items.map(deliveryOnWire), count };
    },
  });

const get = (parts: DeliveryParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'webhooks.deliveries.get',
    method: 'GET',
    path: '/webhooks/deliveries/:deliveryId',
    input: { params: DeliveryParams },
    output: Delivery,
    errors: [DELIVERY_NOT_FOUND],
    summary: 'Read a delivery, with its tries',
    handler: async ({ caller }, { params }) => {
      const row = await parts.queue.get(params.deliveryId);
      if (!row) throw DELIVERY_NOT_FOUND();
      requireContent(parts, caller, [row]);
      return deliveryOnWire(row);
    },
  });

const test = ({ queue, endpoints, database, wake }: DeliveryParts): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.endpoints.test',
    method: 'POST',
    path: '/webhooks/endpoints/:endpointId/test',
    openWorld: true,
    input: { params: EndpointParams },
    output: Delivery,
    errors: [WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED],
    summary: 'Send a test event to an endpoint',
    description: 'An event of type `webhooks.test`. Read the delivery to see what became of it.',
    handler: async (_context, { params }) => {
      const { id, enabled, name } = await endpoints.get(params.endpointId);
      if (!enabled) throw WEBHOOK_DISABLED();
      const timestamp = new Date().toISOString();
      const data = { type: 'webhooks.test', timestamp, data: { endpoint: name } };
      const dedupe = `test:${newId()}`;
      await queue.add(database, [{ target: id, dedupe, data }]);
      wake();
      const added = await queue.find(id, dedupe);
      if (!added) throw DELIVERY_NOT_FOUND();
      return deliveryOnWire(added);
    },
  });

const replay = (parts: DeliveryParts): Operation => {
  const { queue, database, wake } = parts;
  return defineOperation({
    ...adminFacts,
    id: 'webhooks.deliveries.replay',
    method: 'POST',
    path: '/webhooks/deliveries/:deliveryId/replay',
    openWorld: true,
    input: { params: DeliveryParams },
    output: Delivery,
    errors: [DELIVERY_NOT_FOUND],
    summary: 'Send a delivery once more',
    description:
      'Under the same `webhook-id`, whatever became of it. While its endpoint is off it is held.',
    handler: async ({ caller }, { params }) => {
      const row = await queue.get(params.deliveryId);
      if (!row) throw DELIVERY_NOT_FOUND();
      requireContent(parts, caller, [row]);
      await queue.repeat(database, row.id);
      wake();
      return deliveryOnWire((await queue.get(row.id)) ?? row);
    },
  });
};

const replayFailed = ({ queue, database, endpoints, wake }: DeliveryParts): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.deliveries.replayFailed',
    method: 'POST',
    path: '/webhooks/endpoints/:endpointId/replay',
    openWorld: true,
    input: {
      params: EndpointParams,
      body: Type.Object({
        since: Type.String({
          format: 'date-time',
          description: 'Those that were given up since this time',
        }),
      }),
    },
    output: Type.Object({
      replayed: Type.Integer({ description: `At most ${MAX_REPLAYED}: call again for more` }),
    }),
    errors: [WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED],
    summary: 'Send all deliveries again that were given up since a time',
    handler: async ({ caller }, { params, body }) => {
      const endpoint = await endpoints.get(params.endpointId);
      requireAuthority(caller, ...endpoints.touchedBy(endpoint));
      const { id, enabled } = endpoint;
      if (!enabled) throw WEBHOOK_DISABLED();
      const which = { target: id, since: new Date(body.since), max: MAX_REPLAYED };
      const replayed = await queue.repeatDead(database, which);
      wake();
      return { replayed };
    },
  });
