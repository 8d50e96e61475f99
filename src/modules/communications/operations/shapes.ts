/** What the operations of messages share. */
import Type from 'typebox';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { messageErrors } from '../errors.ts';
import type { DeviceRow } from '../push-queries.ts';

export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
export const userFacts = { surface: 'client', access: 'user', limit: standardLimit } as const;

/** Values of one mail with all its variables: more than a template may look at. */
export const maxBodyValues = 50_000;

export const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const Id = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });
export const Timestamp = Type.String({ format: 'date-time' });
export const Acknowledged = { result: Type.String(), message: Type.String() };

export const ChannelName = Type.Union(
  [Type.Literal('email'), Type.Literal('sms'), Type.Literal('push')],
  { description: 'How it gets to people' },
);

export const Paging = {
  ...pagingQuery(),
};

export const Sent = Type.Object({
  message: Type.String(),
  messageId: Type.String({ format: 'uuid' }),
});

/** To whom and what kind; what a message says may hold codes and links that open accounts. */
export const withoutContent = (sent: unknown): object => {
  const { email, to, templateName, sender, from } = sent as Readonly<Record<string, unknown>>;
  const recipients = email ?? to;
  return {
    recipient: Array.isArray(recipients) ? `${recipients.length} recipients` : recipients,
    templateName,
    sender: sender ?? from,
  };
};

/** The user of an operation with user access. */
export function userOf({ caller }: OperationContext): UserCaller {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return caller;
}

export const Platform = Type.String({
  minLength: 1,
  maxLength: 20,
  description: 'WEB, ANDROID, IOS, IPADOS, WINDOWS, MACOS, LINUX or CLI, in any case',
});

export const Topic = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^[A-Za-z0-9\\-_.~%]+$',
  description: 'Whom it reaches: all devices that follow it',
});

export const DeviceDocument = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  userId: Type.String({ format: 'uuid', description: 'Id of the user' }),
  token: Type.String(),
  platform: Type.String(),
  deviceId: nullable(Type.String()),
  locale: nullable(Type.String()),
  appVersion: nullable(Type.String()),
  environment: nullable(Type.String()),
  createdAt: Timestamp,
  updatedAt: Timestamp,
});

export const deviceOnWire = (row: DeviceRow): Type.Static<typeof DeviceDocument> => ({
  _id: row.id,
  userId: row.userId,
  token: row.token,
  platform: row.platform,
  deviceId: row.deviceId,
  locale: row.locale,
  appVersion: row.appVersion,
  environment: row.environment,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

/** What can go wrong with templates at a mail provider. */
export const providerErrors = [
  messageErrors.PROVIDER_REFUSED,
  messageErrors.PROVIDER_AUTH,
  messageErrors.PROVIDER_TEMPLATES_UNSUPPORTED,
  messageErrors.CHANNEL_DISABLED,
];
