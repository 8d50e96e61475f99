/**
 * One message to many. A job writes it page by page: who is on a page, what their inbox says, their messages and how far
 * the broadcast is are one transaction of a few statements, so that a crash neither loses nor doubles anybody, memory is
 * bounded by a page, and a stop takes effect between two pages.
 */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import {
  type Audience,
  type BroadcastRow,
  broadcastById,
  cancelSome,
  countUsers,
  insertBroadcast,
  insertListed,
  type Listed,
  listBroadcasts,
  listedAfter,
  lockBroadcast,
  moveBroadcast,
  type Subject,
  stopBroadcast,
  usersAfter,
} from '../broadcast-queries.ts';
import { messageErrors } from '../errors.ts';
import { countSubscribers, subscribersAfter } from '../push-queries.ts';
import {
  anybody,
  type BroadcastContent,
  type PageParts,
  writePage,
  writerOf,
} from './broadcast-pages.ts';

/** Whom a broadcast goes to: ids of users, addresses of the channel, all who follow a topic, or all users. */
export type Audiences =
  | { readonly topic: string }
  | { readonly everybody: true }
  | { readonly userIds: readonly string[]; readonly addresses?: readonly string[] };

export type BroadcastView = Omit<BroadcastRow, 'contentSealed' | 'position' | 'place'>;

export interface Broadcasts {
  /** Stores it; a job does the work. Throws 404 and 503 for what cannot be written. */
  start(
    to: Audiences,
    content: BroadcastContent,
  ): Promise<Pick<BroadcastView, 'id' | 'recipients'> & { readonly skipped: number }>;
  list(page: { readonly skip: number; readonly limit: number }): Promise<{
    readonly broadcasts: readonly BroadcastView[];
    readonly count: number;
  }>;
  /** Throws BROADCAST_NOT_FOUND. */
  get(id: string): Promise<BroadcastView>;
  /** Whom it has not reached yet it does not reach: what waits in the queue is taken back by a job. Throws BROADCAST_NOT_FOUND. */
  stop(id: string): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies extends PageParts, Pick<Kernel, 'jobs' | 'secrets'> {}

const jobName = 'communications.broadcast';
/** Recipients per transaction, at most. */
const pageSize = 200;
/** Messages that one statement takes back. */
const cancelBatch = 2000;

const contextOf = (id: string): string => `communications:broadcast:${id}`;

export function createBroadcasts(dependencies: Dependencies): Broadcasts {
  const { database, jobs, secrets } = dependencies;
  const viewOf = ({
    contentSealed: _content,
    position: _position,
    place: _place,
    ...view
  }: BroadcastRow): BroadcastView => view;

  return {
    async start(to, content) {
      // Said now, not by a job later.
      const writer = await writerOf(dependencies, content);
      const id = newId();
      const asked = 'userIds' in to ? to.userIds.length + (to.addresses?.length ?? 0) : 0;
      const recipients = await database.transaction(async (transaction) => {
        await writer.write(transaction, { to: anybody, choices: undefined });
        const about = await audienceOf(dependencies, to);
        const contentSealed = secrets.seal(JSON.stringify(content), contextOf(id));
        const row = { id, channel: content.channel, ...about, contentSealed };
        await insertBroadcast(transaction, row, subjectOf(content));
        const listed =
          'userIds' in to
            ? await insertListed(transaction, id, {
                userIds: dependencies.schemas.get('User') ? to.userIds : [],
                addresses: to.addresses ?? [],
              })
            : about.recipients;
        await enqueuePages(dependencies, transaction, { id, content });
        return listed;
      });
      return { id, recipients, skipped: 'userIds' in to ? asked - recipients : 0 };
    },
    async list(page) {
      const { rows, count } = await listBroadcasts(database, page);
      return { broadcasts: rows.map(viewOf), count };
    },
    async get(id) {
      const found = await broadcastById(database, id);
      if (!found) throw messageErrors.BROADCAST_NOT_FOUND();
      return viewOf(found);
    },
    async stop(id) {
      if (!(await broadcastById(database, id))) throw messageErrors.BROADCAST_NOT_FOUND();
      await database.transaction(async (transaction) => {
        if (await stopBroadcast(transaction, id))
          await jobs.enqueue(jobName, { id }, { transaction });
      });
    },
    job: broadcastJob(dependencies),
  };
}

function subjectOf(content: BroadcastContent): Subject | undefined {
  const { module, about } = 'devices' in content ? content.devices : {};
  return module !== undefined && about !== undefined ? { module, about } : undefined;
}

/**
 * Seconds until a message to devices may be written: its entry of the inbox is read as soon as it is there. What is
 * written without one waits in the queue.
 */
function secondsUntil(content: BroadcastContent): number {
  const sendAt = content.channel === 'push' && 'message' in content ? content.sendAt : undefined;
  return sendAt === undefined ? 0 : Math.max(0, (Date.parse(sendAt) - Date.now()) / 1000);
}

const enqueuePages = (
  { jobs }: Pick<Dependencies, 'jobs'>,
  transaction: Transaction,
  { id, content }: { readonly id: string; readonly content: BroadcastContent },
): Promise<unknown> => {
  const startAfterSeconds = Math.ceil(secondsUntil(content));
  return jobs.enqueue(jobName, { id }, { transaction, startAfterSeconds, singletonKey: id });
};

const broadcastJob = (dependencies: Dependencies): JobDefinition =>
  defineJob({
    name: jobName,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    retries: 20,
    // Each page is a transaction: whoever goes on later goes on behind the last one.
    async handler({ id }, { signal }) {
      for (let size = pageSize; !signal.aborted; ) {
        const taken = await dependencies.database.transaction((transaction) =>
          nextPage(dependencies, transaction, { id, size }),
        );
        if (taken === 'all') return;
        // No more is read than is written where the messages are long.
        size = Math.min(pageSize, taken * 2);
      }
      throw new Error('The broadcast was interrupted');
    },
  });

async function audienceOf(
  { database, schemas }: Dependencies,
  to: Audiences,
): Promise<{
  readonly audience: Audience;
  readonly topic: string | null;
  readonly recipients: number;
}> {
  if ('topic' in to)
    return {
      audience: 'topic',
      topic: to.topic,
      recipients: await countSubscribers(database, to.topic),
    };
  if ('everybody' in to) {
    const recipients = schemas.get('User') ? await countUsers(database) : 0;
    return { audience: 'users', topic: null, recipients };
  }
  return { audience: 'listed', topic: null, recipients: 0 };
}

/** One page of a broadcast, or of taking one back. Answers how many it was, or that there are no more. */
async function nextPage(
  dependencies: Dependencies,
  transaction: Transaction,
  { id, size }: { readonly id: string; readonly size: number },
): Promise<number | 'all'> {
  const broadcast = await lockBroadcast(transaction, id);
  if (broadcast?.status === 'stopped') {
    const cancelled = await cancelSome(transaction, id, cancelBatch);
    return cancelled === cancelBatch ? cancelled : 'all';
  }
  if (broadcast?.status !== 'running') return 'all';
  const content = JSON.parse(
    dependencies.secrets.open(broadcast.contentSealed, contextOf(id)),
  ) as BroadcastContent;
  if (secondsUntil(content) > 0) {
    await enqueuePages(dependencies, transaction, { id, content });
    return 'all';
  }
  const recipients = await recipientsAfter(transaction, broadcast, size);
  const page = recipients.map(({ recipient }) => recipient);
  const { audience } = broadcast;
  const whole = { id, content, page, audience };
  const { taken, queued } = await writePage(dependencies, transaction, whole);
  const last = recipients[taken - 1];
  const done = taken === recipients.length && taken < size;
  await moveBroadcast(transaction, id, {
    position: last?.position ?? null,
    place: last?.place ?? null,
    queued,
    skipped: taken - queued,
    done,
  });
  return done ? 'all' : taken;
}

/** Somebody a broadcast goes to, and where it stands behind them. */
interface Next {
  readonly recipient: Listed;
  readonly position?: string;
  readonly place?: string;
}

async function recipientsAfter(
  transaction: Transaction,
  { id, audience, topic, position, place }: BroadcastRow,
  limit: number,
): Promise<readonly Next[]> {
  if (audience === 'listed') {
    const listed = await listedAfter(transaction, id, { place, limit });
    return listed.map(({ place: at, ...recipient }) => ({ recipient, place: at }));
  }
  const behind = { after: position, limit };
  const ids =
    audience === 'topic'
      ? await subscribersAfter(transaction, topic ?? '', behind)
      : await usersAfter(transaction, behind);
  return ids.map((userId) => ({ recipient: { userId, address: null }, position: userId }));
}
