/** Background work of chat. */
import Type from 'typebox';
import { system } from '../../kernel/caller.ts';
import type { Transaction } from '../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { purgeInvitations } from './queries/invitations.ts';
import { purgeMessages } from './queries/messages.ts';
import { purgeSilences } from './queries/moderation.ts';
import { purgePresence } from './queries/presence.ts';
import { emptyRooms, ownerlessRooms, roomsOwnedBy } from './queries/rooms.ts';
import type { ChatParts } from './services/chat-parts.ts';
import { pushJob } from './services/push.ts';
import { giveOwners } from './services/room-departures.ts';
import type { Rooms } from './services/rooms.ts';

const BATCH = 1_000;

export const chatJobs = (parts: ChatParts, rooms: Rooms): readonly JobDefinition[] => [
  tidy(parts, rooms),
  heirs(parts),
  pushJob(parts),
];

/**
 * Deletes what is too old, invitations that have expired, and rooms whose members' accounts are gone. Rooms that have lost
 * their owner while nobody saw to it get another.
 */
const tidy = (parts: ChatParts, rooms: Rooms): JobDefinition => {
  const { database, config } = parts;
  return defineJob({
    name: 'chat.tidy',
    data: Type.Object({}),
    schedule: '17 * * * *',
    async handler(_data, { signal }) {
      const { days } = config().retention;
      for (let gone = BATCH; days > 0 && gone === BATCH && !signal.aborted; )
        gone = await purgeMessages(database, days, BATCH);
      for (let gone = BATCH; gone === BATCH && !signal.aborted; )
        gone = await purgeInvitations(database, BATCH);
      await purgePresence(database);
      await purgeSilences(database);
      const empty = await emptyRooms(database, BATCH);
      await rooms.removeRooms(
        system('chat.tidy'),
        empty.map(({ id }) => id),
      );
      await giveOwners(parts, await ownerlessRooms(database, BATCH));
    },
  });
};

const heirsJobName = 'chat.heirs';

/** Gives rooms another owner, when the account of theirs is gone. */
const heirs = (parts: ChatParts): JobDefinition =>
  defineJob({
    name: heirsJobName,
    data: Type.Object({ rooms: Type.Array(Type.String({ format: 'uuid' })) }),
    handler: ({ rooms }) => giveOwners(parts, rooms),
  });

/**
 * Rooms that these users alone own get another owner once the users are gone. Not in this transaction: it holds the users,
 * for whom somebody who writes into such a room may wait.
 */
export async function leaveToHeirs(
  { database, jobs }: Pick<ChatParts, 'database' | 'jobs'>,
  transaction: Transaction,
  users: readonly string[],
): Promise<void> {
  for (let after: string | null = null; ; ) {
    const rooms = await roomsOwnedBy(database, users, { after, limit: BATCH });
    if (rooms.length > 0) await jobs.enqueue(heirsJobName, { rooms }, { transaction });
    if (rooms.length < BATCH) return;
    after = rooms.at(-1) ?? null;
  }
}
