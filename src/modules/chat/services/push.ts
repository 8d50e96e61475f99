/** Pushes to members who are not there: one for what was written in a room within some seconds. */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { cutText } from '../../../kernel/text.ts';
import { type PushRow, stillToPush, takePush } from '../queries/presence.ts';
import type { ChatParts } from './chat-parts.ts';

const jobName = 'chat.push';
/** Seconds for which messages of a room are gathered into one push. */
const GATHER_SECONDS = 3;
/** By which users choose, and wait for the end of their quiet hours. */
const pushCategory = 'chat';
/** Characters of a message that a push shows. */
const SHOWN = 140;

/** One push for a room, to those who are not there. */
export const pushJob = ({ database, communications }: ChatParts): JobDefinition =>
  defineJob({
    name: jobName,
    data: Type.Object({ room: Type.String({ format: 'uuid' }) }),
    async handler({ room }) {
      await database.transaction(async (transaction) => {
        const found = await takePush(transaction, room);
        if (!found || found.receivers.length === 0) return;
        const receivers = found.receivers.filter((user) => user !== found.sender);
        if (receivers.length === 0) return;
        await communications.notifier.broadcast(
          { userIds: receivers },
          {
            module: 'chat',
            ...wordsOf(found),
            data: { room, messageId: found.messageId },
            about: found.messageId,
            collapseKey: room,
            category: pushCategory,
            doNotStore: true,
          },
        );
      });
    },
  });

/** A push may wait, for quiet hours or for its provider: whom the message concerns is asked again. */
export const answerForPushes = ({
  communications,
  database,
}: Pick<ChatParts, 'communications' | 'database'>): void =>
  communications.relevance.register('chat', (messageId, users) =>
    stillToPush(database, messageId, users),
  );

function wordsOf({ roomName, isDirect, senderName, content }: PushRow) {
  const text = content === null ? 'New message' : cutText(content, SHOWN);
  const title = isDirect ? (senderName ?? 'New message') : roomName;
  const body = isDirect || senderName === null ? text : `${senderName}: ${text}`;
  return { title: cutText(title, SHOWN), body };
}

/** Asks for a push about a room, once for all that is written within some seconds. */
export function createPushRequests({
  jobs,
  config,
  log,
}: Pick<ChatParts, 'jobs' | 'config' | 'log'>): (room: string) => void {
  const asked = new Set<string>();
  const ask = async (room: string): Promise<void> => {
    asked.add(room);
    setTimeout(() => asked.delete(room), GATHER_SECONDS * 1_000).unref();
    const options = { singletonKey: room, startAfterSeconds: GATHER_SECONDS };
    await jobs.enqueue(jobName, { room }, options);
  };
  return (room) => {
    if (!config().offlinePush.enabled || asked.has(room)) return;
    ask(room).catch((error: unknown) => log.warn({ err: error }, 'A push could not be asked for'));
  };
}
