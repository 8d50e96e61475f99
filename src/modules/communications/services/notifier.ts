/** Notifying users: an entry of the inbox and a message to the devices, for one user or for many. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import {
  type BroadcastRow,
  broadcastById,
  countDevices,
  countSubscribers,
  existingUsers,
  insertBroadcast,
  lockBroadcast,
  moveBroadcast,
  stopBroadcast,
  subscribersAfter,
  usersWithDevices,
} from '../push-queries.ts';
import type { PushNote } from './content.ts';
import { platformOf } from './devices.ts';
import type { Inbox } from './inbox.ts';
import type { Messages } from './messages.ts';

/** What an operator or a module wants users to be told. */
export interface NotificationInput {
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
}

interface Sent {
  readonly messageId: string;
  readonly devices: number;
}

export interface Broadcast extends Omit<BroadcastRow, 'contentSealed' | 'userIds' | 'position'> {}

export interface Notifier {
  /** Throws RECIPIENT_NOT_FOUND, PUSH_DEVICE_MISSING (nothing is stored either), RATE_LIMIT, CHANNEL_DISABLED. */
  send(userId: string, input: NotificationInput): Promise<Sent>;
  /** To all who follow a topic, or to these users; a job does the work. Answers the broadcast. */
  broadcast(
    to: { readonly topic: string } | { readonly userIds: readonly string[] },
    input: NotificationInput,
  ): Promise<Pick<Broadcast, 'id' | 'recipients' | 'skipped'>>;
  /** Throws BROADCAST_NOT_FOUND. */
  get(id: string): Promise<Broadcast>;
  /** Whom it has not reached yet it does not reach. */
  stop(id: string): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies extends Pick<Kernel, 'database' | 'jobs' | 'secrets' | 'schemas'> {
  readonly messages: Messages;
  readonly inbox: Inbox;
  readonly config: () => CommunicationsConfig;
}

const jobName = 'communications.broadcast';
/** Users per transaction. */
const pageSize = 200;
/** Bytes of title, body and data together: what every provider takes. */
const maxBytes = 3500;

export function createNotifier(dependencies: Dependencies): Notifier {
  const { database, jobs, secrets, config } = dependencies;
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
      const messageId = await database.transaction((transaction) =>
        sendOne(dependencies, transaction, userId, order),
      );
      if (messageId === undefined)
        throw errors.RATE_LIMIT({
          message: 'This user got too many messages in this hour',
          retryAfter: 3600,
        });
      return { messageId, devices };
    },
    async broadcast(to, input) {
      requireActive();
      const order = orderOf(input);
      const id = newId();
      const requested = 'topic' in to ? undefined : [...new Set(to.userIds)];
      const userIds = requested === undefined ? null : [...(await users(requested))].sort();
      const recipients =
        'topic' in to ? await countSubscribers(database, to.topic) : (userIds?.length ?? 0);
      await database.transaction(async (transaction) => {
        await insertBroadcast(transaction, {
          id,
          topic: 'topic' in to ? to.topic : null,
          userIds,
          contentSealed: secrets.seal(JSON.stringify(order), contextOf(id)),
          recipients,
        });
        await jobs.enqueue(jobName, { id }, { transaction });
      });
      return { id, recipients, skipped: (requested?.length ?? recipients) - recipients };
    },
    async get(id) {
      const found = await broadcastById(database, id);
      if (!found) throw messageErrors.BROADCAST_NOT_FOUND();
      const { contentSealed: _content, userIds: _users, position: _position, ...view } = found;
      return view;
    },
    async stop(id) {
      if (!(await broadcastById(database, id))) throw messageErrors.BROADCAST_NOT_FOUND();
      await stopBroadcast(database, id);
    },
    job: broadcastJob(dependencies),
  };
}

const broadcastJob = (dependencies: Dependencies): JobDefinition =>
  defineJob({
    name: jobName,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    retries: 20,
    async handler({ id }, { signal }) {
      while (!signal.aborted) {
        const more = await dependencies.database.transaction((transaction) =>
          nextPage(dependencies, transaction, id),
        );
        if (!more) return;
      }
      // Another worker goes on from where this one stopped.
      throw new Error('The broadcast was interrupted');
    },
  });

const contextOf = (id: string): string => `communications:broadcast:${id}`;

/** An input that was checked, as it is stored. */
interface Order {
  readonly note: PushNote;
  readonly platform?: string | undefined;
  readonly category?: string | undefined;
  readonly stores: boolean;
}

/** Throws 400 for what no device could be told. */
function orderOf(input: NotificationInput): Order {
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

const entryOf = (userId: string, { note, platform, category }: Order) => ({
  id: newId(),
  userId,
  title: note.title ?? '',
  body: note.body ?? null,
  data: note.data ?? null,
  platform: platform ?? null,
  category: category ?? null,
});

async function sendOne(
  { messages, inbox }: Dependencies,
  transaction: Transaction,
  userId: string,
  order: Order,
): Promise<string | undefined> {
  const id = await messages.sendPush(transaction, {
    userId,
    note: order.note,
    platform: order.platform,
  });
  if (id !== undefined && order.stores) await inbox.add(transaction, [entryOf(userId, order)]);
  return id;
}

/** One page of a broadcast, its progress with it: a crash neither loses nor doubles anybody. Answers whether there is more. */
async function nextPage(
  dependencies: Dependencies,
  transaction: Transaction,
  id: string,
): Promise<boolean> {
  const { secrets, messages, inbox } = dependencies;
  const broadcast = await lockBroadcast(transaction, id);
  if (broadcast?.status !== 'running') return false;
  const page = await pageOf(transaction, broadcast);
  const order = JSON.parse(secrets.open(broadcast.contentSealed, contextOf(id))) as Order;
  const reachable = await usersWithDevices(transaction, page);
  let queued = 0;
  for (const userId of page) {
    if (!reachable.has(userId)) continue;
    const sent = await messages.sendPush(transaction, {
      userId,
      note: order.note,
      platform: order.platform,
    });
    if (sent !== undefined) queued += 1;
  }
  // Who has no device finds it in the inbox.
  if (order.stores)
    await inbox.add(
      transaction,
      page.map((userId) => entryOf(userId, order)),
    );
  const done = page.length < pageSize;
  await moveBroadcast(transaction, id, {
    position: page.at(-1) ?? null,
    queued,
    skipped: page.length - queued,
    done,
  });
  return !done;
}

async function pageOf(
  transaction: Transaction,
  { topic, userIds, position }: BroadcastRow,
): Promise<readonly string[]> {
  if (topic !== null)
    return subscribersAfter(transaction, topic, { after: position, limit: pageSize });
  return (userIds ?? []).filter((id) => position === null || id > position).slice(0, pageSize);
}
