/** Notifying users: an entry of the inbox and a message to the devices, for one user or for many. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import { countDevices, existingUsers } from '../push-queries.ts';
import type { DeviceNote } from './broadcast-pages.ts';
import type { Broadcasts } from './broadcasts.ts';
import type { DeliverNow } from './delivery.ts';
import { platformOf } from './devices.ts';
import type { Inbox } from './inbox.ts';
import type { MessageStore } from './messages.ts';
import type { OfModule } from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';
import { PartlyDelivered } from './push/delivery.ts';

/** What an operator or a module wants users to be told. */
export interface NotificationInput extends Partial<OfModule> {
  readonly title?: string | undefined;
  readonly body?: string | undefined;
  /** Numbers and booleans become texts. */
  readonly data?: Readonly<Record<string, unknown>> | undefined;
  readonly platform?: string | undefined;
  readonly category?: string | undefined;
  readonly isSilent?: boolean | undefined;
  readonly doNotStore?: boolean | undefined;
  readonly badge?: number | undefined;
  readonly sound?: string | undefined;
  readonly image?: string | undefined;
  readonly collapseKey?: string | undefined;
  readonly ttl?: number | undefined;
  /** Of a module that has told how to ask whether it is still to go out (`Relevance`): what it is about. For broadcasts. */
  readonly about?: string | undefined;
}

interface Sent {
  readonly messageId: string;
  readonly devices: number;
  /** Devices whose provider took it while the caller waited. */
  readonly delivered: number;
}

export interface Notifier {
  /** Makes the first attempt at once. Throws RECIPIENT_NOT_FOUND, PUSH_DEVICE_MISSING (nothing is stored either), RATE_LIMIT, CHANNEL_DISABLED. */
  send(userId: string, input: NotificationInput): Promise<Sent>;
  /** To all who follow a topic, or to these users; a job does the work. Answers the broadcast. */
  broadcast(
    to: { readonly topic: string } | { readonly userIds: readonly string[] },
    input: NotificationInput,
  ): ReturnType<Broadcasts['start']>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'schemas'> {
  readonly messages: MessageStore;
  readonly broadcasts: Broadcasts;
  readonly preferences: Pick<Preferences, 'choices'>;
  readonly inbox: Inbox;
  readonly config: () => CommunicationsConfig;
  readonly deliverNow: DeliverNow;
}

/** How long a caller waits for providers at most; the attempt goes on without them. Milliseconds. */
const waitMs = 10_000;

/** Bytes of title, body and data together: what every provider takes. */
const maxBytes = 3500;

export function createNotifier(dependencies: Dependencies): Notifier {
  const { database, config, messages, broadcasts } = dependencies;
  const requireActive = (): void => {
    if (!config().pushNotifications.active) throw messageErrors.CHANNEL_DISABLED();
  };
  const users = async (ids: readonly string[]): Promise<readonly string[]> =>
    dependencies.schemas.get('User') ? existingUsers(database, ids) : [];

  return {
    async send(userId, input) {
      requireActive();
      const order = orderOf(input);
      if ((await users([userId])).length === 0) throw messageErrors.RECIPIENT_NOT_FOUND();
      const devices = await countDevices(database, userId, order.platform ?? null);
      if (devices === 0 && !order.stores) throw messageErrors.PUSH_DEVICE_MISSING();
      await messages.requireWilling('push', userId, { category: order.category, userId });
      const messageId = await database.transaction((transaction) =>
        sendOne(dependencies, transaction, userId, order),
      );
      if (messageId === undefined)
        throw errors.RATE_LIMIT({
          message: 'This user got too many messages in this hour',
          retryAfter: 3600,
        });
      return { messageId, devices, delivered: await deliveredNow(dependencies, messageId) };
    },
    async broadcast(to, input) {
      requireActive();
      return broadcasts.start(to, { channel: 'push', devices: orderOf(input) });
    },
  };
}

async function deliveredNow({ deliverNow }: Dependencies, messageId: string): Promise<number> {
  const waited = new AbortController();
  const { signal } = waited;
  const outcome = await Promise.race([
    deliverNow(messageId).finally(() => waited.abort()),
    sleep(waitMs, undefined, { signal }).catch(() => undefined),
  ]);
  if (outcome instanceof PartlyDelivered) return outcome.devices;
  if (outcome === undefined || outcome instanceof Error) return 0;
  return outcome.outcome === 'accepted' ? (outcome.devices ?? 0) : 0;
}

/** Throws 400 for what no device could be told. */
function orderOf(input: NotificationInput): DeviceNote {
  const { title, body, isSilent: silent = false, doNotStore = false, platform, category } = input;
  const data = input.data && textsOf(input.data);
  if (silent && (title || body))
    throw invalid(title ? 'title' : 'body', 'silent', 'a silent message shows nothing');
  if (silent && (!data || Object.keys(data).length === 0))
    throw invalid('data', 'required', 'a silent message carries data');
  if (!silent && !title) throw invalid('title', 'required', 'give a title, or isSilent');
  if (Buffer.byteLength(JSON.stringify({ title, body, data })) > maxBytes)
    throw invalid(
      'data',
      'maxLength',
      `title, body and data have at most ${maxBytes} bytes together`,
    );
  const { badge, sound, image, collapseKey, ttl } = input;
  return {
    note: { title, body, data, silent, badge, sound, image, collapseKey, ttl },
    platform: platform === undefined ? undefined : platformOf(platform),
    category,
    stores: !silent && !doNotStore,
    ...(input.module && { module: input.module, about: input.about }),
  };
}

function textsOf(data: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      if (value === null || typeof value === 'object')
        throw invalid(`data.${key}`, 'type', 'must be a text, a number or a boolean');
      return [key, String(value)];
    }),
  );
}

const entryOf = (userId: string, { note, platform, category }: DeviceNote) => ({
  id: newId(),
  userId,
  title: note.title ?? '',
  body: note.body ?? null,
  data: note.data ?? null,
  platform: platform ?? null,
  category: category ?? null,
});

async function sendOne(
  { messages, inbox, preferences }: Dependencies,
  transaction: Transaction,
  userId: string,
  order: DeviceNote,
): Promise<string | undefined> {
  const { note, platform, category, stores, module } = order;
  const choices =
    category === undefined
      ? undefined
      : (await preferences.choices(transaction, [userId])).get(userId);
  const id = await messages.sendPush(
    transaction,
    { userId, note, platform, ...(module && { module }) },
    { category, choices, firstAttempt: true },
  );
  const inInbox =
    choices === undefined || category === undefined || isEnabled(choices, category, 'inbox');
  if (id !== undefined && stores && inInbox) await inbox.add(transaction, [entryOf(userId, order)]);
  return id;
}
