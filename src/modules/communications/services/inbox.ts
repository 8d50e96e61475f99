/** The inbox of each user: what was notified, whether it was read, and the word to open sockets. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { chainsReadBy } from '../chain-queries.ts';
import { messageErrors } from '../errors.ts';
import {
  afterLatest,
  countInbox,
  deleteNotification,
  type InboxCounts,
  type InboxFilter,
  insertNotifications,
  listInbox,
  markNotifications,
  markSome,
  type NewNotification,
  ownNotifications,
} from '../inbox-queries.ts';

export interface InboxPage extends InboxCounts {
  /** As JSON texts. */
  readonly entries: readonly string[];
}

/** What to mark: some entries, those older than a time, or all. */
export type Marked =
  | { readonly ids: readonly string[] }
  | { readonly before: Date }
  | { readonly all: true };

export interface Inbox {
  /** Newest first. `total` and `unread` count whatever `read` says. */
  page(userId: string, filter: InboxFilter): Promise<InboxPage>;
  counts(userId: string): Promise<InboxCounts>;
  /** Answers how many entries changed. Throws NOTIFICATION_NOT_FOUND for ids that are not the user's. */
  mark(userId: string, marked: Marked, read: boolean): Promise<number>;
  /** Whoever deletes an entry has seen it: a chain that waits for that goes no further. Throws NOTIFICATION_NOT_FOUND. */
  remove(userId: string, id: string): Promise<void>;
  /** Adds entries with the change that causes them; sockets hear of them after the commit. */
  add(transaction: Queryable, entries: readonly NewNotification[]): Promise<void>;
}

/** Entries that one statement marks: longer ones would hold their locks for as long. */
const batch = 5000;
/** Between nodes one word has at most 8,000 bytes. */
const usersPerSignal = 50;
/** Sockets of this namespace of the realtime surface hear about the inbox. */
const namespace = '/communications/';
const unreadCount = 'unread-count';

interface Dependencies extends Pick<Kernel, 'database' | 'signals' | 'events'> {
  /** Told when something was read that a chain waits for. Never throws. */
  readonly moved: (chainId: string) => Promise<void>;
}

export function createInbox({ database, signals, events, moved }: Dependencies): Inbox {
  const { tell, tellUnread } = createInboxSignals({ database, signals });
  const tellChains = async (ids: readonly string[]): Promise<void> => {
    for (const id of ids) await moved(id);
  };
  return {
    async page(userId, filter) {
      const [entries, counts] = await Promise.all([
        listInbox(database, userId, filter),
        countInbox(database, userId, filter),
      ]);
      return { entries, ...counts };
    },
    counts: (userId) => countInbox(database, userId, {}),
    async mark(userId, marked, read) {
      const changed =
        'ids' in marked
          ? await markIds(database, userId, { ids: [...new Set(marked.ids)], read })
          : await markAll(database, userId, {
              before: 'before' in marked ? marked.before : null,
              read,
            });
      if (changed > 0) {
        database.afterCommit(() => events.wake());
        tell([userId], 'notification:read', {
          read,
          ...('before' in marked ? { before: marked.before.toISOString() } : marked),
        });
        tellUnread(userId);
        if (read) await tellChains(await chainsReadBy(database, userId));
      }
      return changed;
    },
    async remove(userId, id) {
      const waiting = await chainsReadBy(database, userId, id);
      if (waiting.length > 0) {
        await markNotifications(database, userId, [id], true);
        await tellChains(waiting);
      }
      if (!(await deleteNotification(database, userId, id)))
        throw messageErrors.NOTIFICATION_NOT_FOUND();
      tellUnread(userId);
    },
    async add(transaction, entries) {
      if (entries.length === 0) return;
      await insertNotifications(transaction, entries);
      const createdAt = new Date().toISOString();
      for (const [text, group] of Map.groupBy(entries, contentOf))
        tell(
          group.map(({ userId }) => userId),
          'notification',
          {
            ...(JSON.parse(text) as object),
            ...(group.length === 1 ? { _id: group[0]?.id } : {}),
            createdAt,
          },
        );
    },
  };
}

/** Sockets hear of changes after the commit. */
function createInboxSignals({ database, signals }: Pick<Kernel, 'database' | 'signals'>) {
  const tell = (userIds: readonly string[], event: string, data: unknown): void =>
    database.afterCommit(() => {
      for (let from = 0; from < userIds.length; from += usersPerSignal)
        signals.send({
          namespace,
          userIds: userIds.slice(from, from + usersPerSignal),
          event,
          data,
        });
    });

  signals.find({ namespace, event: unreadCount }, async (userId) => {
    const { unread } = await database.outside(() => countInbox(database, userId, {}));
    return { unreadCount: unread };
  });
  const tellUnread = (userId: string): void => tell([userId], unreadCount, {});

  return { tell, tellUnread };
}

/** The same for all who get the same. */
const contentOf = ({ title, body, data, platform, category }: NewNotification): string =>
  JSON.stringify({ title, body, data, platform, category });

const markIds = (
  database: Kernel['database'],
  userId: string,
  { ids, read }: { readonly ids: readonly string[]; readonly read: boolean },
): Promise<number> =>
  database.transaction(async (transaction) => {
    const own = await ownNotifications(transaction, userId, ids);
    const missing = ids.find((id) => !own.has(id.toLowerCase()));
    if (missing !== undefined)
      throw messageErrors.NOTIFICATION_NOT_FOUND({
        message: `There is no notification ${missing}`,
      });
    return markNotifications(transaction, userId, ids, read);
  });

async function markAll(
  database: Kernel['database'],
  userId: string,
  { before, read }: { readonly before: Date | null; readonly read: boolean },
): Promise<number> {
  // What arrives meanwhile is not meant.
  const until = before ?? (await afterLatest(database));
  let total = 0;
  for (let changed = batch; changed >= batch; total += changed)
    changed = await markSome(database, userId, { before: until, read, limit: batch });
  return total;
}
