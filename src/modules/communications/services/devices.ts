/** Devices of users, and the topics that users follow. */
import { createHash } from 'node:crypto';
import type { Kernel } from '../../../host/kernel.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import type { WebKeys } from '../push-queries.ts';
import {
  countTopicsOf,
  type DeviceFilter,
  type DeviceRow,
  deleteDevice,
  deleteDevicesOf,
  deleteDevicesOfSessions,
  deviceById,
  devicesOf,
  type EndedSessions,
  listDevices,
  type NewDevice,
  saveDevice,
  subscribeTopic,
  unsubscribeTopic,
} from '../push-queries.ts';
import { lockKey } from '../queries.ts';
import { areWebKeys } from './push/web-push.ts';

export const platforms = [
  'WEB',
  'ANDROID',
  'IOS',
  'IPADOS',
  'WINDOWS',
  'MACOS',
  'LINUX',
  'CLI',
] as const;

export interface DeviceInput {
  readonly token?: string | undefined;
  readonly platform: string;
  readonly deviceId?: string | undefined;
  readonly locale?: string | undefined;
  readonly appVersion?: string | undefined;
  readonly environment?: string | undefined;
  readonly subscription?: { readonly endpoint: string; readonly keys: WebKeys } | undefined;
}

export interface Devices {
  /**
   * A token that is known already moves to this user. Throws 400, 503 while the channel is off, 401 where the session of
   * the caller has ended, and 403 for an operator who acts as the user: the device would hear of them ever after.
   */
  register(caller: UserCaller, input: DeviceInput): Promise<DeviceRow>;
  /** Forgets what was registered in sessions that somebody ends, in the transaction that ends them. */
  endSessions(transaction: Transaction, ended: EndedSessions): Promise<void>;
  /** Forgets the user's devices: all, those of a platform, or the one with a token. */
  unregister(userId: string, platform?: string, token?: string): Promise<void>;
  subscribe(userId: string, topic: string): Promise<void>;
  unsubscribe(userId: string, topic: string): Promise<void>;
  list(
    filter: DeviceFilter,
  ): Promise<{ readonly rows: readonly DeviceRow[]; readonly count: number }>;
  ofUser(userId: string): Promise<readonly DeviceRow[]>;
  /** Throws DEVICE_NOT_FOUND. */
  get(id: string): Promise<DeviceRow>;
  remove(id: string): Promise<void>;
}

/** Topics that one user may follow. */
const maxTopics = 1000;

/** In the form that it is stored in. Throws 400 for another word. */
export function platformOf(text: string): string {
  const name = text.toUpperCase();
  if ((platforms as readonly string[]).includes(name)) return name;
  throw invalid('platform', 'enum', `must be one of ${platforms.join(', ')}`);
}

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Throws 400 where a user follows as many as may be. */
const follow = (database: Kernel['database'], userId: string, topic: string): Promise<void> =>
  database.transaction(async (transaction) => {
    // One after the other: each counts what those before it have added.
    await lockKey(transaction, `topics of ${userId}`);
    const isNew = await subscribeTopic(transaction, userId, topic);
    if (isNew && (await countTopicsOf(transaction, userId)) > maxTopics)
      throw invalid('topic', 'maxItems', `a user follows at most ${maxTopics} topics`);
  });

export function createDevices({
  database,
  identity,
  config,
}: Pick<Kernel, 'database' | 'identity'> & {
  readonly config: () => CommunicationsConfig;
}): Devices {
  const requireActive = (): void => {
    if (!config().pushNotifications.active) throw messageErrors.CHANNEL_DISABLED();
  };
  return {
    async register(caller, input) {
      requireActive();
      if (caller.impersonatedBy !== undefined) throw errors.FORBIDDEN();
      const device = deviceOf(caller, input);
      return database.transaction(async (transaction) => {
        // Whoever ends the session at this moment waits, and finds the device.
        await identity.client?.holdSession?.(transaction, caller);
        return saveDevice(transaction, device, config().pushNotifications.maxDevices);
      });
    },
    async unregister(userId, platform, token) {
      await deleteDevicesOf(database, userId, {
        platform: platform === undefined ? null : platformOf(platform),
        tokenHash: token === undefined ? null : hashOf(token),
      });
    },
    endSessions: async (transaction, ended) =>
      void (await deleteDevicesOfSessions(transaction, ended)),
    async subscribe(userId, topic) {
      requireActive();
      await follow(database, userId, topic);
    },
    async unsubscribe(userId, topic) {
      await unsubscribeTopic(database, userId, topic);
    },
    list: (filter) =>
      listDevices(database, {
        ...filter,
        ...(filter.platform === undefined ? {} : { platform: platformOf(filter.platform) }),
      }),
    ofUser: (userId) => devicesOf(database, userId, null),
    async get(id) {
      const device = await deviceById(database, id);
      if (!device) throw messageErrors.DEVICE_NOT_FOUND();
      return device;
    },
    async remove(id) {
      if (!(await deleteDevice(database, id))) throw messageErrors.DEVICE_NOT_FOUND();
    },
  };
}

/** Throws 400. */
function deviceOf({ userId, sessionId }: UserCaller, input: DeviceInput): NewDevice {
  const { token, webKeys } = targetOf(input);
  return {
    id: newId(),
    userId,
    sessionId,
    token,
    tokenHash: hashOf(token),
    platform: platformOf(input.platform),
    deviceId: input.deviceId ?? null,
    locale: input.locale ?? null,
    appVersion: input.appVersion ?? null,
    environment: input.environment ?? null,
    webKeys,
  };
}

/** A browser's subscription is reached at its endpoint; as text (`JSON.stringify(subscription)`) it may stand in `token` too. */
function targetOf({ token, subscription }: DeviceInput): {
  readonly token: string;
  readonly webKeys: WebKeys | null;
} {
  const given = subscription ?? subscriptionIn(token);
  if (!given) {
    if (token === undefined) throw invalid('token', 'required', 'give the token of the device');
    return { token, webKeys: null };
  }
  const { endpoint, keys } = given;
  if (!/^https?:\/\/[^\s]+$/.test(endpoint) || !URL.canParse(endpoint))
    throw invalid('subscription.endpoint', 'url', 'must be the address of a push service');
  if (!areWebKeys(keys))
    throw invalid('subscription.keys', 'format', 'these are not the keys of a subscription');
  return { token: endpoint, webKeys: { p256dh: keys.p256dh, auth: keys.auth } };
}

function subscriptionIn(token: string | undefined): DeviceInput['subscription'] {
  if (!token?.startsWith('{')) return undefined;
  try {
    const { endpoint, keys } = JSON.parse(token) as Record<string, unknown>;
    const { p256dh, auth } = (keys ?? {}) as Record<string, unknown>;
    return typeof endpoint === 'string' && typeof p256dh === 'string' && typeof auth === 'string'
      ? { endpoint, keys: { p256dh, auth } }
      : undefined;
  } catch {
    return undefined;
  }
}
