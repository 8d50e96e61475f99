/**
 * Writes messages. Those of one room that wait while others are being written are written together: one transaction,
 * one flush to the disk, in the order in which they came. Sockets hear of them after the commit, the sender last.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Kernel } from '../../../host/kernel.ts';
import { chatErrors } from '../errors.ts';
import type { MessageType } from '../schemas.ts';
import type { ChatMetrics } from './chat-metrics.ts';
import type { Hub } from './hub.ts';
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
  readonly message: OutgoingMessage;
  readonly resolve: (sent: SentMessage) => void;
  readonly reject: (error: unknown) => void;
}

interface Outcome {
  readonly n: number;
  readonly outcome: 'sent' | 'duplicate' | 'noRoom' | 'silenced' | 'noRoot';
  readonly id: string;
  readonly seq: number;
  readonly change: number;
  readonly createdAt: Date;
}

/** Messages of one transaction: what one failure takes with it, and how long the room is locked. */
const BATCH = 50;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly hub: Pick<Hub, 'stored'>;
  readonly nonceWindowSeconds: () => number;
  readonly metrics: ChatMetrics;
  /** Told of rooms with new messages. */
  readonly onSent: (room: string) => void;
}

export function createSending(dependencies: Dependencies): Sending {
  const rooms = new Map<string, Waiting[]>();
  // A batch is nobody's request: what it costs is not on the account of the one who began it.
  const outside = AsyncLocalStorage.snapshot();

  const work = async (room: string, waiting: Waiting[]): Promise<void> => {
    while (waiting.length > 0) await write(dependencies, room, waiting.splice(0, BATCH));
    rooms.delete(room);
  };

  return {
    send(room, message) {
      const { promise, resolve, reject } = Promise.withResolvers<SentMessage>();
      const known = rooms.get(room);
      const waiting = known ?? [];
      waiting.push({ message, resolve, reject });
      if (!known) {
        rooms.set(room, waiting);
        outside(() => void work(room, waiting));
      }
      return promise;
    },
  };
}

async function write(
  dependencies: Dependencies,
  room: string,
  batch: readonly Waiting[],
): Promise<void> {
  const started = performance.now();
  try {
    const outcomes = await store(dependencies, room, batch);
    dependencies.metrics.persisted((performance.now() - started) / 1_000);
    settle(dependencies, room, batch, outcomes);
  } catch (error) {
    // One that cannot be stored must not take the others with it.
    if (batch.length === 1) batch[0]?.reject(error);
    else for (const one of batch) await write(dependencies, room, [one]);
  }
}

async function store(
  { database, nonceWindowSeconds }: Dependencies,
  room: string,
  batch: readonly Waiting[],
): Promise<readonly Outcome[]> {
  const items = batch.map(({ message }, n) => ({ ...message, n }));
  const { rows } = await database.query<Outcome>({
    text: `select n, outcome, id, seq, change, created_at as "createdAt" from penstock.chat_send($1::uuid, $2::jsonb, $3::integer)`,
    values: [room, JSON.stringify(items), nonceWindowSeconds()],
    name: 'chat_send',
    class: 'short',
  });
  return rows;
}

function settle(
  { hub, events, metrics, onSent }: Dependencies,
  room: string,
  batch: readonly Waiting[],
  outcomes: readonly Outcome[],
): void {
  const sent = outcomes.filter(({ outcome }) => outcome === 'sent');
  const started = performance.now();
  if (sent.length > 0) {
    events.wake();
    hub.stored(
      room,
      sent.flatMap((outcome) => {
        const message = batch[outcome.n]?.message;
        return message ? [storedChange(room, message, outcome)] : [];
      }),
    );
    metrics.sent(sent.length, (performance.now() - started) / 1_000);
    onSent(room);
  }
  for (const { n, outcome, id, seq, createdAt } of outcomes) {
    const one = batch[n];
    if (outcome === 'sent' || outcome === 'duplicate')
      one?.resolve({ id, seq, createdAt, duplicate: outcome === 'duplicate' });
    else one?.reject(refusals[outcome]());
  }
}

const refusals = {
  noRoom: chatErrors.CHAT_ROOM_NOT_FOUND,
  silenced: chatErrors.CHAT_WRITING_DENIED,
  noRoot: () => chatErrors.CHAT_MESSAGE_NOT_FOUND({ message: 'There is no message to answer' }),
} as const;

const storedChange = (
  room: string,
  { sender, type, content, files, mentions, nonce, threadRoot }: OutgoingMessage,
  { id, seq, change, createdAt }: Outcome,
) => ({
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
