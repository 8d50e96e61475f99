/**
 * Writes messages. Those that wait, of whatever rooms, are written together: one transaction, one flush to the disk, each
 * room in the order in which its messages came. Sockets hear of them after the commit, the sender last.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Kernel } from '../../../host/kernel.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { chatErrors } from '../errors.ts';
import type { MessageType } from '../schemas.ts';
import type { ChatMetrics } from './chat-metrics.ts';
import type { Hub } from './hub.ts';
import type { StoredChange } from './room-feeds.ts';
import { messageEvent } from './wire.ts';

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

export interface Sending {
  /** Throws CHAT_ROOM_NOT_FOUND, CHAT_WRITING_DENIED, CHAT_MESSAGE_NOT_FOUND (the message that it answers). */
  send(room: string, message: OutgoingMessage): Promise<SentMessage>;
}

interface Waiting {
  readonly room: string;
  readonly message: OutgoingMessage;
  readonly resolve: (sent: SentMessage) => void;
  readonly reject: (error: unknown) => void;
}

interface Outcome {
  readonly n: number;
  readonly outcome: 'sent' | 'duplicate' | 'busy' | 'noRoom' | 'silenced' | 'noRoot';
  readonly id: string;
  readonly seq: number;
  readonly change: number;
  readonly createdAt: Date;
}

/** Messages of one transaction: what one failure takes with it, and how long their rooms are locked. */
const BATCH = 100;
/**
 * Batches that are written at a time. One is, and what comes until it is committed goes with the next: a message that
 * comes alone waits for nobody, and where many come batches are as large as the disk and the processor make them. A
 * second one begins beside the first when so many messages wait that it is worth what a batch costs before its first
 * message (as much as eight messages), or when the first one is held up.
 */
const AT_ONCE = 2;
const SECOND_FROM = 32;
const HELD_UP_MS = 25;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly hub: Pick<Hub, 'stored'>;
  readonly nonceWindowSeconds: () => number;
  readonly metrics: ChatMetrics;
  /** Told of rooms with new messages. */
  readonly onSent: (room: string) => void;
}

export function createSending(dependencies: Dependencies): Sending {
  const queues = createRoomQueues();
  // A batch is nobody's request: what it costs is not on the account of the one who began it.
  const outside = AsyncLocalStorage.snapshot();
  let writing = 0;
  let planned = false;
  /** When the last batch began, on the clock of `performance.now()`. */
  let began = 0;

  const isTime = (): boolean => {
    const waiting = queues.count();
    if (writing === 0 || waiting === 0) return waiting > 0;
    return writing < AT_ONCE && (waiting >= SECOND_FROM || performance.now() - began > HELD_UP_MS);
  };
  const work = async (batch: readonly Waiting[]): Promise<void> => {
    const busy = await write(dependencies, batch, false);
    writing -= 1;
    queues.done(batch.map(({ room }) => room).filter((room) => !busy.has(room)));
    plan();
    // Who holds a room keeps only its own messages waiting.
    for (const [room, waiting] of busy)
      void write(dependencies, waiting, true).then(() => {
        queues.done([room]);
        plan();
      });
  };
  const begin = (): void => {
    planned = false;
    const batch = isTime() ? queues.take(BATCH) : [];
    if (batch.length === 0) return;
    writing += 1;
    began = performance.now();
    void work(batch);
    plan();
  };
  // What comes in the same turn goes together.
  const plan = (): void => {
    if (planned || !isTime()) return;
    planned = true;
    outside(() => setImmediate(begin));
  };

  return {
    send(room, message) {
      const { promise, resolve, reject } = Promise.withResolvers<SentMessage>();
      queues.add({ room, message, resolve, reject });
      plan();
      return promise;
    },
  };
}

interface RoomQueues {
  add(waiting: Waiting): void;
  /** The next ones. Their rooms give nothing more until they are done. */
  take(most: number): readonly Waiting[];
  done(rooms: readonly string[]): void;
  /** Messages that could be taken. */
  count(): number;
}

/** Messages by room; rooms take turns. */
function createRoomQueues(): RoomQueues {
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
    take(most) {
      const taken: Waiting[] = [];
      for (const room of ready) {
        if (taken.length >= most) break;
        ready.delete(room);
        const queue = queues.get(room) ?? [];
        count -= queue.length;
        taken.push(...takeDistinct(queue, most - taken.length));
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
function takeDistinct(queue: Waiting[], most: number): readonly Waiting[] {
  const marks = new Set<string>();
  let count = 0;
  for (const { message } of queue) {
    if (count >= most) break;
    if (message.nonce !== null) {
      const mark = `${message.sender} ${message.nonce}`;
      if (marks.has(mark)) break;
      marks.add(mark);
    }
    count += 1;
  }
  return queue.splice(0, count);
}

const none: ReadonlyMap<string, readonly Waiting[]> = new Map();

/** Writes and answers them. What is left waits for a room that somebody else holds; nothing, when it is `patient`. */
async function write(
  dependencies: Dependencies,
  batch: readonly Waiting[],
  patient: boolean,
): Promise<ReadonlyMap<string, readonly Waiting[]>> {
  const started = performance.now();
  try {
    const outcomes = await store(dependencies, batch, patient);
    dependencies.metrics.persisted((performance.now() - started) / 1_000);
    return answer(dependencies, batch, outcomes);
  } catch (error) {
    const [first] = batch;
    if (batch.length === 1 || asksForPatience(error)) for (const { reject } of batch) reject(error);
    // One that cannot be stored must not take the others with it; the halves stay in order.
    else if (first) {
      const middle = Math.ceil(batch.length / 2);
      await write(dependencies, batch.slice(0, middle), true);
      await write(dependencies, batch.slice(middle), true);
    }
    return none;
  }
}

/** The database is not there, or has no time: nothing is wrong with any of the messages. */
const asksForPatience = (error: unknown): boolean =>
  error instanceof PenstockError && error.status >= 503;

async function store(
  { database, nonceWindowSeconds }: Dependencies,
  batch: readonly Waiting[],
  patient: boolean,
): Promise<readonly Outcome[]> {
  const rooms = [...new Set(batch.map(({ room }) => room))];
  const items = batch.map(({ room, message }, n) => ({ ...message, room, n }));
  const { rows } = await database.query<Outcome>({
    text: `select n, outcome, id, seq, change, created_at as "createdAt" from penstock.chat_send_batch($1::uuid[], $2::jsonb, $3::integer, $4::boolean)`,
    values: [rooms, JSON.stringify(items), nonceWindowSeconds(), patient],
    name: 'chat_send_batch',
    ...(patient ? {} : { class: 'short' as const }),
  });
  return rows;
}

/** Tells everybody what became of them. Those of rooms that are busy are handed back, by room. */
function answer(
  dependencies: Dependencies,
  batch: readonly Waiting[],
  outcomes: readonly Outcome[],
): ReadonlyMap<string, readonly Waiting[]> {
  const busy = new Map<string, Waiting[]>();
  tellRooms(dependencies, batch, outcomes);
  for (const { n, outcome, id, seq, createdAt } of outcomes) {
    const one = batch[n];
    if (!one) continue;
    if (outcome === 'busy') listOf(busy, one.room).push(one);
    else if (outcome === 'sent' || outcome === 'duplicate')
      one.resolve({ id, seq, createdAt, duplicate: outcome === 'duplicate' });
    else one.reject(refusals[outcome]());
  }
  return busy;
}

function tellRooms(
  { hub, events, metrics, onSent }: Dependencies,
  batch: readonly Waiting[],
  outcomes: readonly Outcome[],
): void {
  const started = performance.now();
  const stored = new Map<string, StoredChange[]>();
  let sent = 0;
  for (const outcome of outcomes) {
    const one = batch[outcome.n];
    if (!one || outcome.outcome !== 'sent') continue;
    listOf(stored, one.room).push(storedChange(one, outcome));
    sent += 1;
  }
  if (sent === 0) return;
  events.wake();
  for (const [room, changes] of stored) {
    hub.stored(room, changes);
    onSent(room);
  }
  metrics.sent(sent, (performance.now() - started) / 1_000);
}

function listOf<T>(lists: Map<string, T[]>, key: string): T[] {
  const known = lists.get(key);
  if (known) return known;
  const list: T[] = [];
  lists.set(key, list);
  return list;
}

const refusals = {
  noRoom: chatErrors.CHAT_ROOM_NOT_FOUND,
  silenced: chatErrors.CHAT_WRITING_DENIED,
  noRoot: () => chatErrors.CHAT_MESSAGE_NOT_FOUND({ message: 'There is no message to answer' }),
} as const;

const storedChange = (
  { room, message: { sender, type, content, files, mentions, nonce, threadRoot } }: Waiting,
  { id, seq, change, createdAt }: Outcome,
): StoredChange => ({
  change,
  seq,
  event: 'message',
  data: messageEvent({
    ...{ id, room, sender, type, content, files, mentions, nonce, threadRoot, seq, change },
    ...{ changeKind: 'sent', replyCount: 0, deleted: false, removed: false, editedAt: null },
    createdAt,
    updatedAt: createdAt,
  }),
});
