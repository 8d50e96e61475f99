/**
 * Storing messages for the job that sends them, one or as many as there are: each step of it is one statement for all.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { mapInSlices } from '../../../kernel/time-slices.ts';
import type { CommunicationsConfig } from '../config.ts';
import type { ChoicesRow } from '../preference-queries.ts';
import { type Channel, insertMessages, lockKey, messageByKey, putContent } from '../queries.ts';
import { isLarge, type MessageContent, sealContent, sealLargeContent } from './content.ts';
import { lostAfterSeconds } from './delivery.ts';
import { enqueueDeliveries } from './delivery-lanes.ts';
import type { Storing } from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';

/** Whether messages of this channel are switched on, and how many one recipient gets. */
export const channelSettings = (
  { email, sms, pushNotifications: push }: CommunicationsConfig,
  channel: Channel,
): { readonly active: boolean; readonly maxPerRecipient: number } =>
  ({ email, sms, push })[channel];

/** A message that is written and addressed. */
export interface Prepared {
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly template: string | null;
  readonly essential?: boolean;
  readonly content: MessageContent;
}

export interface Storage {
  /** The id, also where it was stored before under the same key; nothing where its recipient opted out, or got too many. */
  one(transaction: Queryable, message: Prepared, storing?: Storing): Promise<string | undefined>;
  /** The same for many, in their order. */
  keyed(
    transaction: Queryable,
    messages: readonly (readonly [Prepared, Storing])[],
  ): Promise<readonly (string | undefined)[]>;
  /** The same, where keys of callers are not looked at. */
  all(
    transaction: Queryable,
    messages: readonly (readonly [Prepared, Storing])[],
  ): Promise<readonly (string | undefined)[]>;
}

interface Dependencies
  extends Pick<Kernel, 'database' | 'events' | 'jobs' | 'durableLimits' | 'metrics' | 'secrets'> {
  readonly preferences: Pick<Preferences, 'choices' | 'waitsUntil'>;
  readonly config: () => CommunicationsConfig;
  readonly log: Logger;
}

type Given = readonly [Prepared, Storing];

export function createStorage(dependencies: Dependencies): Storage {
  const { database, events, jobs } = dependencies;
  const mayReceive = createQuota(dependencies);

  const all: Storage['all'] = async (transaction, messages) => {
    const choices = await choicesFor(dependencies, transaction, messages);
    const due = messages.map(([message, storing]) =>
      dueTime(dependencies, message, { choices: choices.get(message.userId ?? ''), ...storing }),
    );
    const willing = messages.flatMap((given, place) =>
      due[place] === 'optedOut' ? [] : [{ given, place }],
    );
    const allowed = await mayReceive(willing.map(({ given: [message] }) => message));
    const rows = await sealed(
      dependencies,
      willing.flatMap(({ given, place }, index) => {
        const at = due[place];
        return allowed[index] && at !== 'optedOut' ? [{ given, place, at }] : [];
      }),
    );
    if (rows.length > 0) {
      await insertMessages(
        transaction,
        rows.map(({ row }) => row),
      );
      for (const { row, content } of rows)
        if (isLarge(content)) await putLarge(dependencies, transaction, { id: row.id, content });
      database.afterCommit(() => events.wake());
    }
    await enqueueDeliveries(
      jobs,
      rows.map(({ row: { id }, wait }) => ({ id, startAfterSeconds: wait })),
      transaction,
    );
    const ids = new Map(rows.map(({ place, row: { id } }) => [place, id]));
    return messages.map((_message, place) => ids.get(place));
  };
  const keyed: Storage['keyed'] = async (transaction, messages) => {
    const earlier = await earlierMessages(transaction, messages);
    const fresh = messages.flatMap((message, place) => (earlier.has(place) ? [] : [message]));
    const ids = [...(fresh.length === 0 ? [] : await all(transaction, fresh))];
    return messages.map((_message, place) => earlier.get(place) ?? ids.shift());
  };
  return {
    all,
    async one(transaction, message, storing = {}) {
      const [id] = await keyed(transaction, [[message, storing]]);
      return id;
    },
    keyed,
  };
}

/** As they are stored. What they say may be megabytes together: other requests have their turn between them. */
function sealed(
  dependencies: Dependencies,
  messages: readonly {
    readonly given: Given;
    readonly place: number;
    readonly at: Date | undefined;
  }[],
) {
  return mapInSlices(messages, ({ given: [message, storing], place, at }) => ({
    place,
    content: message.content,
    wait: waitSeconds(at, storing),
    row: rowOf(dependencies, message, { ...storing, at }),
  }));
}

/** One after the other: of each of them there is more than one copy while it is sealed. */
async function putLarge(
  { secrets }: Dependencies,
  transaction: Queryable,
  { id, content }: { readonly id: string; readonly content: MessageContent },
): Promise<void> {
  await putContent(transaction, id, await sealLargeContent(secrets, id, content));
}

function rowOf(
  { secrets }: Dependencies,
  { channel, recipient, userId, template, content }: Prepared,
  { at, ...storing }: Storing & { readonly at: Date | undefined },
) {
  const id = newId();
  const { idempotency, category, critical, chainId, broadcastId, resentFrom } = storing;
  const { from, mail } = content;
  return {
    id,
    channel,
    recipient,
    userId,
    template,
    contentSealed: isLarge(content) ? '' : sealContent(secrets, id, content),
    idempotencyKey: idempotency?.key ?? null,
    requestHash: idempotency?.hash ?? null,
    sender: from ?? null,
    copies: mail?.cc ?? null,
    replyTo: mail?.replyTo ?? null,
    category: category ?? null,
    critical: critical ?? category === undefined,
    dueAt: at ?? null,
    resentFrom: resentFrom ?? null,
    chainId: chainId ?? null,
    broadcastId: broadcastId ?? null,
  };
}

/** Until the job comes, if it does not come at once. */
function waitSeconds(
  dueAt: Date | undefined,
  { firstAttempt = false }: Storing,
): number | undefined {
  // A little later rather than too early: the queue counts from the beginning of the transaction. Not in whole seconds:
  // what is due at one time would come over a second.
  if (dueAt) return Math.max(1, (Math.ceil((dueAt.getTime() - Date.now()) / 100) + 2) / 10);
  return firstAttempt ? lostAfterSeconds : undefined;
}

/** What users chose, where it matters and is not known. */
async function choicesFor(
  { preferences }: Dependencies,
  transaction: Queryable,
  messages: readonly Given[],
): Promise<ReadonlyMap<string, ChoicesRow>> {
  const unknown = messages.flatMap(([{ userId }, { category, critical = false, choices }]) =>
    userId === null || category === undefined || critical || choices ? [] : [userId],
  );
  return unknown.length === 0 ? new Map() : preferences.choices(transaction, [...new Set(unknown)]);
}

/** When a message goes out, if not now; `optedOut` where its user said no to this kind. */
function dueTime(
  { preferences }: Dependencies,
  { channel, userId }: Pick<Prepared, 'channel' | 'userId'>,
  { category, critical = false, sendAt, choices }: Storing,
): Date | 'optedOut' | undefined {
  const later = sendAt && sendAt.getTime() > Date.now() ? sendAt : undefined;
  if (category === undefined || critical || userId === null || !choices) return later;
  if (!isEnabled(choices, category, channel)) return 'optedOut';
  return preferences.waitsUntil(choices, later) ?? later;
}

/** Counts what one recipient gets in an hour; answers for each whether it may have one more. */
function createQuota({
  durableLimits,
  metrics,
  config,
  log,
}: Dependencies): (messages: readonly Prepared[]) => Promise<readonly boolean[]> {
  const dropped = metrics.counter(
    'messages_dropped_total',
    'Messages that were not sent because the recipient got too many',
    ['channel'],
  );
  return async (messages) => {
    const counted = messages
      .map(({ channel, recipient, essential }, place) => ({
        place,
        channel,
        essential,
        key: sha256(recipient.toLowerCase()),
        bucket: {
          name: `communications.${channel}`,
          requests: channelSettings(config(), channel).maxPerRecipient,
          seconds: 3600,
        },
      }))
      .filter(({ essential }) => essential !== true)
      // In one order for all who count, so that none waits for another in a circle.
      .sort((one, other) => (one.key < other.key ? -1 : 1));
    const states = counted.length === 0 ? [] : await durableLimits.consumeAll(counted);
    const refused = counted.filter((_one, index) => states[index]?.allowed !== true);
    for (const { channel, bucket } of refused) {
      dropped.inc({ channel });
      log.warn(
        { channel, perHour: bucket.requests },
        'A message was dropped: its recipient got too many in this hour',
      );
    }
    const places = new Set(refused.map(({ place }) => place));
    return messages.map((_message, place) => !places.has(place));
  };
}

/** What was stored before under the keys of these, by their place. In one order for all, so that none waits in a circle. */
async function earlierMessages(
  transaction: Queryable,
  messages: readonly Given[],
): Promise<ReadonlyMap<number, string>> {
  const keyed = messages.flatMap(([, { idempotency }], place) =>
    idempotency ? [{ idempotency, place }] : [],
  );
  keyed.sort((one, other) => (one.idempotency.key < other.idempotency.key ? -1 : 1));
  const found = new Map<number, string>();
  for (const { idempotency, place } of keyed) {
    const id = await earlierMessage(transaction, idempotency);
    if (id !== undefined) found.set(place, id);
  }
  return found;
}

/** The message that was stored under this key. Others with the same key wait meanwhile. Throws 409 for another request. */
async function earlierMessage(
  transaction: Queryable,
  { key, hash }: { readonly key: string; readonly hash: string },
): Promise<string | undefined> {
  await lockKey(transaction, key);
  const earlier = await messageByKey(transaction, key);
  if (earlier && earlier.requestHash !== hash) throw errors.IDEMPOTENCY_KEY_REUSED();
  return earlier?.id;
}
