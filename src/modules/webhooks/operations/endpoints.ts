/** Endpoints as operators keep them. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { webhookErrors } from '../errors.ts';
import type { Endpoints, GivenEndpoint, NewEndpoint } from '../services/endpoints.ts';
import {
  adminFacts,
  Endpoint,
  EndpointChangeShape,
  EndpointParams,
  endpointOnWire,
  NewEndpointShape,
  Paging,
} from './shapes.ts';

export const endpointOperations = (endpoints: Endpoints): readonly Operation[] => [
  list(endpoints),
  get(endpoints),
  create(endpoints),
  update(endpoints),
  remove(endpoints),
  switching(endpoints, true),
  switching(endpoints, false),
  rotate(endpoints),
];

const { WEBHOOK_EXISTS, WEBHOOK_INVALID, WEBHOOK_NOT_FOUND, WEBHOOKS_EXCEEDED } = webhookErrors;
const path = '/webhooks/endpoints';
/** What a credential may hear of is asked for each schema and module that an endpoint names. */
const about = { endpointId: 'inside' } as const;

const list = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'webhooks.endpoints.list',
    method: 'GET',
    path,
    input: {
      query: Type.Object({
        ...Paging,
        search: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 100,
            description: 'A part of the name or of the address',
          }),
        ),
      }),
    },
    output: Type.Object({ endpoints: Type.Array(Endpoint), count: Type.Integer() }),
    summary: 'List endpoints of webhooks',
    handler: async (_context, { query }) => {
      const { endpoints: rows, count } = await endpoints.list(query);
      return { endpoints: rows.map(endpointOnWire), count };
    },
  });

const get = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.endpoints.get',
    method: 'GET',
    path: `${path}/:endpointId`,
    input: { params: EndpointParams },
    output: Endpoint,
    errors: [WEBHOOK_NOT_FOUND],
    summary: 'Read an endpoint of webhooks',
    handler: async (_context, { params }) => endpointOnWire(await endpoints.get(params.endpointId)),
  });

const create = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    about: { schemas: 'schema' },
    id: 'webhooks.endpoints.create',
    method: 'POST',
    path,
    answersSecret: true,
    idempotency: false,
    openWorld: true,
    strict: true,
    input: { body: NewEndpointShape },
    output: Type.Object({
      ...Endpoint.properties,
      secret: Type.String({ description: 'Signs the deliveries; shown this once' }),
    }),
    errors: [WEBHOOK_INVALID, WEBHOOK_EXISTS, WEBHOOKS_EXCEEDED],
    summary: 'Create an endpoint of webhooks',
    description:
      'It gets what is committed from now on. Addresses in private networks are refused unless `allowInternal` is set.',
    handler: async ({ caller }, { body }) => {
      const { endpoint, secret } = await endpoints.create(caller, body as NewEndpoint);
      return { ...endpointOnWire(endpoint), secret };
    },
  });

const update = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    about: { ...about, schemas: 'schema' },
    id: 'webhooks.endpoints.update',
    method: 'PATCH',
    path: `${path}/:endpointId`,
    openWorld: true,
    strict: true,
    input: { params: EndpointParams, body: EndpointChangeShape },
    output: Endpoint,
    errors: [WEBHOOK_NOT_FOUND, WEBHOOK_INVALID, WEBHOOK_EXISTS],
    summary: 'Change an endpoint of webhooks',
    description: 'What is left out stays. Deliveries that wait go to the new address.',
    handler: async ({ caller }, { params, body }) =>
      endpointOnWire(await endpoints.update(caller, params.endpointId, body as GivenEndpoint)),
  });

const remove = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.endpoints.delete',
    method: 'DELETE',
    path: `${path}/:endpointId`,
    input: { params: EndpointParams },
    output: Type.Object({ message: Type.String() }),
    errors: [WEBHOOK_NOT_FOUND],
    summary: 'Delete an endpoint of webhooks, with its deliveries',
    handler: async ({ caller }, { params }) => {
      await endpoints.remove(caller, params.endpointId);
      return { message: 'Endpoint deleted' };
    },
  });

const switching = (endpoints: Endpoints, enabled: boolean): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: `webhooks.endpoints.${enabled ? 'enable' : 'disable'}`,
    method: 'POST',
    path: `${path}/:endpointId/${enabled ? 'enable' : 'disable'}`,
    input: { params: EndpointParams },
    output: Endpoint,
    errors: [WEBHOOK_NOT_FOUND, WEBHOOK_INVALID],
    summary: `Switch an endpoint of webhooks ${enabled ? 'on' : 'off'}`,
    description: enabled
      ? 'What was held is sent. What happened while it was off is not.'
      : 'What waits is held. What happens while it is off is not delivered, not even later.',
    handler: async ({ caller }, { params }) =>
      endpointOnWire(await endpoints.switch(caller, params.endpointId, enabled)),
  });

const DAY_SECONDS = 86_400;

const rotate = (endpoints: Endpoints): Operation =>
  defineOperation({
    ...adminFacts,
    about,
    id: 'webhooks.endpoints.rotateSecret',
    method: 'POST',
    path: `${path}/:endpointId/secret`,
    answersSecret: true,
    idempotency: false,
    input: {
      params: EndpointParams,
      body: Type.Object({
        overlapSeconds: Type.Optional(
          Type.Integer({
            default: DAY_SECONDS,
            minimum: 0,
            maximum: 30 * DAY_SECONDS,
            description:
              'For so long deliveries carry signatures by both secrets. 0: the old one ends now',
          }),
        ),
      }),
    },
    output: Type.Object({
      secret: Type.String({ description: 'Shown this once' }),
      previousUntil: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
    }),
    errors: [WEBHOOK_NOT_FOUND],
    summary: 'Give an endpoint of webhooks a new secret',
    handler: async ({ caller }, { params, body }) => {
      const { secret, previousUntil } = await endpoints.rotate(
        caller,
        params.endpointId,
        body.overlapSeconds ?? DAY_SECONDS,
      );
      return { secret, previousUntil: previousUntil?.toISOString() ?? null };
    },
  });
