/** What a client has missed of a room, page by page. */
import type { UserCaller } from '../../../kernel/caller.ts';
import { changesAfter, messagesOf } from '../queries/messages.ts';
import { type ChatParts, hiddenBefore, requireMember } from './chat-parts.ts';
import { eventOf, messageEvent } from './wire.ts';

export interface MessageSync {
  /** What happened after a message, or after a change; `more`: ask again from the last one. */
  sync(
    caller: UserCaller,
    roomId: string,
    from: { readonly afterSeq?: number | undefined; readonly afterChange?: number | undefined },
  ): Promise<SyncAnswer>;
}

interface SyncAnswer {
  readonly messages: readonly unknown[];
  readonly changes: readonly { readonly event: string; readonly data: unknown }[];
  readonly lastSeq: number;
  readonly lastChange: number;
  readonly more: boolean;
}

const SYNC_PAGE = 200;

export function createSync(parts: ChatParts): MessageSync['sync'] {
  const { database } = parts;
  return async (caller, roomId, { afterSeq, afterChange }) => {
    const member = await requireMember(parts, roomId, caller.userId);
    const hidden = hiddenBefore(parts, member);
    const from = Math.max(hidden, afterSeq ?? 0);
    const messages =
      afterChange === undefined
        ? await messagesOf(database, {
            room: roomId,
            from,
            after: from,
            skip: 0,
            limit: SYNC_PAGE,
          })
        : [];
    const changes =
      afterChange === undefined ? [] : await changesAfter(database, roomId, afterChange, SYNC_PAGE);
    return {
      messages: messages.map(messageEvent),
      changes: changes.flatMap((row) => {
        const isNew = row.seq > (afterSeq ?? 0);
        const told = row.seq > hidden ? eventOf(row, isNew) : undefined;
        return told ? [told] : [];
      }),
      lastSeq: messages.at(-1)?.seq ?? Math.max(from, ...changes.map(({ seq }) => seq)),
      lastChange: changes.at(-1)?.change ?? afterChange ?? 0,
      more: messages.length === SYNC_PAGE || changes.length === SYNC_PAGE,
    };
  };
}
