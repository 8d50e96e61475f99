/** The services of this module, as its operations, sockets and jobs use them. */
import type { ChatMetrics } from './chat-metrics.ts';
import type { ChatParts } from './chat-parts.ts';
import { createInvitations, type Invitations } from './invitations.ts';
import { createMessages, type Messages } from './messages.ts';
import { createModeration, type Moderation } from './moderation.ts';
import type { Presence } from './presence.ts';
import { createPushRequests } from './push.ts';
import { createReads, type Reads } from './reads.ts';
import { createRoomEntry } from './room-entry.ts';
import { createRooms, type Rooms } from './rooms.ts';
import { createSending } from './sending.ts';

export interface ChatServices {
  readonly parts: ChatParts;
  readonly rooms: Rooms;
  readonly messages: Messages;
  readonly invitations: Invitations;
  readonly reads: Reads;
  readonly presence: Presence;
  readonly moderation: Moderation;
}

export function createChatServices(
  parts: ChatParts,
  { measures, presence }: { readonly measures: ChatMetrics; readonly presence: Presence },
): ChatServices {
  const entry = createRoomEntry(parts);
  const invitations = createInvitations(parts, entry);
  const rooms = createRooms(parts, entry, invitations);
  const sending = createSending({
    ...parts,
    metrics: measures,
    nonceWindowSeconds: () => parts.config().nonceWindowSeconds,
    onSent: createPushRequests(parts),
  });
  return {
    parts,
    rooms,
    invitations,
    presence,
    messages: createMessages(parts, sending),
    reads: createReads(parts),
    moderation: createModeration(parts, rooms),
  };
}
