/** Messages that wait to be written, by room: rooms take turns, and each gives its messages in their order. */
import type { MessageType } from '../schemas.ts';

/** A message that was checked. */
export interface OutgoingMessage {
  readonly id: string;
  readonly sender: string | null;
  /** Refused unless the sender is in the room and may write. */
  readonly asMember: boolean;
  readonly type: MessageType;
  readonly content: string | null;
  readonly files: readonly string[];
  readonly mentions: readonly string[];
  readonly nonce: string | null;
  readonly threadRoot: string | null;
  /** `callerKey` of who sends it. */
  readonly actor: string;
}

export interface SentMessage {
  readonly id: string;
  readonly seq: number;
  readonly createdAt: Date;
  /** The nonce was known: this is the message that it came with first. */
  readonly duplicate: boolean;
}

export interface Waiting {
  readonly room: string;
  readonly message: OutgoingMessage;
  readonly resolve: (sent: SentMessage) => void;
  readonly reject: (error: unknown) => void;
}

export interface RoomQueues {
  add(waiting: Waiting): void;
  /** The next ones. Their rooms give nothing more until they are done. */
  take(max: number): readonly Waiting[];
  done(rooms: readonly string[]): void;
  /** Messages that could be taken. */
  count(): number;
}

export function createRoomQueues(): RoomQueues {
  const queues = new Map<string, Waiting[]>();
  /** Rooms with something to take, in the order in which it is their turn. */
  const ready = new Set<string>();
  let count = 0;
  return {
    add(waiting) {
      const queue = queues.get(waiting.room);
      if (queue) queue.push(waiting);
      else {
        queues.set(waiting.room, [waiting]);
        ready.add(waiting.room);
      }
      if (ready.has(waiting.room)) count += 1;
    },
    take(max) {
      const taken: Waiting[] = [];
      for (const room of ready) {
        if (taken.length >= max) break;
        ready.delete(room);
        const queue = queues.get(room) ?? [];
        count -= queue.length;
        taken.push(...takeDistinct(queue, max - taken.length));
      }
      return taken;
    },
    done(rooms) {
      for (const room of new Set(rooms)) {
        const queue = queues.get(room);
        if (queue?.length === 0) queues.delete(room);
        else if (queue && !ready.has(room)) {
          ready.add(room);
          count += queue.length;
        }
      }
    },
    count: () => count,
  };
}

/** The first ones of a room; what repeats one of them waits until that is written, and is then a duplicate of it. */
function takeDistinct(queue: Waiting[], max: number): readonly Waiting[] {
  const marks = new Set<string>();
  let count = 0;
  for (const { message } of queue) {
    if (count >= max) break;
    if (message.nonce !== null) {
      const mark = `${message.sender} ${message.nonce}`;
      if (marks.has(mark)) break;
      marks.add(mark);
    }
    count += 1;
  }
  return queue.splice(0, count);
}
