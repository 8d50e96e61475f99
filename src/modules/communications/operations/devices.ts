/** Devices and topics, as the user whose they are sees them. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { Devices } from '../services/devices.ts';
import {
  Acknowledged,
  DeviceDocument,
  deviceOnWire,
  Platform,
  Topic,
  userFacts,
  userOf,
} from './shapes.ts';

export const deviceOperations = (devices: Devices): readonly Operation[] => [
  registerOperation(devices),
  unregisterOperation(devices),
  subscribeOperation(devices),
  unsubscribeOperation(devices),
];

const optional = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

const registerOperation = (devices: Devices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.devices.register',
    method: 'POST',
    path: '/token',
    aliases: [{ method: 'POST', path: '/pushNotifications/token' }],
    input: {
      body: Type.Object({
        token: optional(
          4096,
          'What the provider of push messages calls the device; not needed with a subscription',
        ),
        platform: Platform,
        deviceId: optional(200, 'Your own name for the device: its older token is forgotten'),
        locale: optional(35, 'Language of the device, such as en-GB'),
        appVersion: optional(50, 'Version of the app'),
        environment: Type.Optional(
          Type.Union([Type.Literal('production'), Type.Literal('sandbox')], {
            description: "Which of Apple's two services the token is for",
          }),
        ),
        subscription: Type.Optional(
          Type.Object(
            {
              endpoint: Type.String({ minLength: 1, maxLength: 2000 }),
              keys: Type.Object({
                p256dh: Type.String({ minLength: 1, maxLength: 200 }),
                auth: Type.String({ minLength: 1, maxLength: 100 }),
              }),
            },
            { description: "What a browser's PushManager.subscribe answers" },
          ),
        ),
      }),
    },
    output: Type.Object({ message: Type.String(), newTokenDocument: DeviceDocument }),
    errors: [messageErrors.CHANNEL_DISABLED],
    summary: 'Register a device for push messages',
    description:
      'A user has many devices. A token that is known already moves to the user who registers it. The device is forgotten when its session is ended: by a logout, a new password, a block, or in the list of sessions. Register it again after each sign-in.',
    handler: async (context, { body }) => ({
      message: 'Push notification token created',
      newTokenDocument: deviceOnWire(await devices.register(userOf(context), body)),
    }),
  });

const unregisterOperation = (devices: Devices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.devices.unregister',
    method: 'DELETE',
    path: '/token',
    aliases: [{ method: 'DELETE', path: '/pushNotifications/token' }],
    input: {
      query: Type.Object({
        platform: Type.Optional(Platform),
        token: optional(4096, 'Only the device with this token'),
      }),
    },
    output: Type.Object(Acknowledged),
    summary: 'Forget devices',
    description: 'All of the user, those of a platform, or the one with a token.',
    handler: async (context, { query }) => {
      await devices.unregister(userOf(context).userId, query.platform, query.token);
      return { result: 'OK', message: 'Push notification token deleted' };
    },
  });

const TopicBody = Type.Object({ topic: Topic });
const TopicAnswer = Type.Object({ message: Type.String(), topic: Type.String() });

const subscribeOperation = (devices: Devices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.topics.subscribe',
    method: 'POST',
    path: '/notifications/topics/subscribe',
    aliases: [{ method: 'POST', path: '/pushNotifications/subscribe' }],
    input: { body: TopicBody },
    output: TopicAnswer,
    errors: [messageErrors.CHANNEL_DISABLED],
    summary: 'Follow a topic',
    description: 'Again and again is the same as once.',
    handler: async (context, { body }) => {
      await devices.subscribe(userOf(context).userId, body.topic);
      return { message: 'Subscribed', topic: body.topic };
    },
  });

const unsubscribeOperation = (devices: Devices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.topics.unsubscribe',
    method: 'POST',
    path: '/notifications/topics/unsubscribe',
    aliases: [{ method: 'POST', path: '/pushNotifications/unsubscribe' }],
    input: { body: TopicBody },
    output: TopicAnswer,
    summary: 'Follow a topic no more',
    handler: async (context, { body }) => {
      await devices.unsubscribe(userOf(context).userId, body.topic);
      return { message: 'Unsubscribed', topic: body.topic };
    },
  });
