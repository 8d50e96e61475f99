/** Background work of chat. */
import Type from 'typebox';
import { system } from '../../kernel/caller.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { purgeInvitations } from './queries/invitations.ts';
import { purgeMessages } from './queries/messages.ts';
import { purgeSilences } from './queries/moderation.ts';
import { purgePresence } from './queries/presence.ts';
import { emptyRooms } from './queries/rooms.ts';
import type { ChatParts } from './services/chat-parts.ts';
import { pushJob } from './services/push.ts';
import type { Rooms } from './services/rooms.ts';

const BATCH = 1_000;

export const chatJobs = (parts: ChatParts, rooms: Rooms): readonly JobDefinition[] => [
  tidy(parts, rooms),
  pushJob(parts),
];

/** Deletes what is too old, invitations that have expired, and rooms whose members' accounts are gone. */
const tidy = ({ database, config }: ChatParts, rooms: Rooms): JobDefinition =>
  defineJob({
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
    },
  });
