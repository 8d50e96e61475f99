/**
 * Writes messages. Those that wait, of whatever rooms, are written together: one transaction, one flush to the disk, each
 * room in the order in which its messages came. Sockets hear of them after the commit, the sender last.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Kernel } from '../../../host/kernel.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { chatErrors } from '../errors.ts';
import { indexWords } from '../queries/messages.ts';
import type { ChatMetrics } from './chat-metrics.ts';
import type { Hub } from './hub.ts';
import type { StoredChange } from './room-feeds.ts';
import {
  createRoomQueues,
  type OutgoingMessage,
  type SentMessage,
  type Waiting,
} from './room-queues.ts';
import { messageEvent } from './wire.ts';

export interface Sending {
  /** Throws CHAT_ROOM_NOT_FOUND, CHAT_WRITING_DENIED, CHAT_MESSAGE_NOT_FOUND (the message that it answers), FILE_REFUSED. */
  send(room: string, message: OutgoingMessage): Promise<SentMessage>;
}

interface Outcome {
  readonly n: number;
  readonly outcome: 'sent' | 'duplicate' | 'busy' | 'noRoom' | 'silenced' | 'noRoot' | 'noFile';
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
 * second one begins beside the first when a whole batch waits, or when the first one is held up. Two that begin earlier
 * are smaller each: more is spent on statements, and on writes to sockets, each of which then hears of less at a time.
 */
const AT_ONCE = 2;
const HELD_UP_MS = 25;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly hub: Pick<Hub, 'stored'>;
  readonly nonceWindowSeconds: () => number;
  readonly metrics: ChatMetrics;
  /** Told of rooms with new messages. */
  readonly onSent: (room: string) => void;
  readonly log: Pick<Logger, 'warn'>;
}

interface SendingParts extends Dependencies {
  /** So much was written. */
  readonly indexing: (characters: number) => void;
}

/** Characters of messages after which their words go into the index, and what counts beside the text of each. */
const INDEXED_AFTER = 200_000;
const BESIDE_TEXT = 20;

/**
 * PostgreSQL puts the words of new rows on a list, and whoever writes when that is 4 MB moves all of them into the index:
 * every 25,000 short messages a batch took 0.2 s of processor time more, with everybody behind it. So they are moved
 * before, beside the batches, by a fifth of that at a time: it costs more for each when there are few. Where it fails,
 * it is as it was.
 */
function createWordIndexing({
  database,
  log,
}: Pick<Dependencies, 'database' | 'log'>): (characters: number) => void {
  let waiting = 0;
  let running = false;
  return (characters) => {
    waiting += characters;
    if (running || waiting < INDEXED_AFTER) return;
    waiting = 0;
    running = true;
    indexWords(database)
      .catch((error: unknown) => log.warn({ err: error }, 'Words of messages were not indexed yet'))
      .finally(() => {
        running = false;
      });
  };
}

export function createSending(dependencies: Dependencies): Sending {
  const parts: SendingParts = { ...dependencies, indexing: createWordIndexing(dependencies) };
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
    return writing < AT_ONCE && (waiting >= BATCH || performance.now() - began > HELD_UP_MS);
  };
  const work = async (batch: readonly Waiting[]): Promise<void> => {
    let isOpen = true;
    const end = (busy: Left): void => {
      if (!isOpen) return;
      isOpen = false;
      writing -= 1;
      queues.done(batch.map(({ room }) => room).filter((room) => !busy.has(room)));
      plan();
    };
    const busy = await write(parts, batch, false, end);
    end(busy);
    // Who holds a room keeps only its own messages waiting.
    for (const [room, waiting] of busy)
      void write(parts, waiting, true).then(() => {
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

/** What is left of a batch, by room. */
type Left = ReadonlyMap<string, readonly Waiting[]>;
const none: Left = new Map();

/**
 * Writes and answers them. What is left waits for a room that somebody else holds; nothing, when it is `patient`.
 * `onCommitted` hears of those rooms before anybody is told anything: the next batch is on its way to the database when
 * what is told goes out to sockets, at the end of the same turn.
 */
async function write(
  parts: SendingParts,
  batch: readonly Waiting[],
  patient: boolean,
  onCommitted: (busy: Left) => void = () => undefined,
): Promise<Left> {
  const started = performance.now();
  try {
    const outcomes = await store(parts, batch, patient);
    parts.metrics.persisted((performance.now() - started) / 1_000);
    const busy = busyOf(batch, outcomes);
    onCommitted(busy);
    answer(parts, batch, outcomes);
    return busy;
  } catch (error) {
    const [first] = batch;
    if (batch.length === 1 || asksForPatience(error)) for (const { reject } of batch) reject(error);
    // One that cannot be stored must not take the others with it; the halves stay in order.
    else if (first) {
      const middle = Math.ceil(batch.length / 2);
      await write(parts, batch.slice(0, middle), true);
      await write(parts, batch.slice(middle), true);
    }
    return none;
  }
}

/** The database is not there, or has no time: nothing is wrong with any of the messages. */
const asksForPatience = (error: unknown): boolean =>
  error instanceof PenstockError && error.status >= 503;

async function store(
  { database, nonceWindowSeconds }: SendingParts,
  batch: readonly Waiting[],
  patient: boolean,
): Promise<readonly Outcome[]> {
  const rooms = [...new Set(batch.map(({ room }) => room))];
  const items = batch.map(({ room, message }, n) => ({ ...message, room, n }));
  const { rows } = await database.query<Outcome>({
    text: `select n, outcome, id, seq, change, created_at as "createdAt" from penstock.chat_send_batch($1::uuid[], $2::jsonb, $3::integer, $4::boolean)`,
    values: [rooms, JSON.stringify(items), nonceWindowSeconds(), patient],
    name: 'chat_send_batch',
    ...(patient ? {} : { class: 'short' as const, gathered: true }),
  });
  return rows;
}

/** Those of rooms that somebody else holds. */
function busyOf(batch: readonly Waiting[], outcomes: readonly Outcome[]): Left {
  const busy = new Map<string, Waiting[]>();
  for (const { n, outcome } of outcomes) {
    const one = outcome === 'busy' ? batch[n] : undefined;
    if (one) listOf(busy, one.room).push(one);
  }
  return busy;
}

/** Tells everybody what became of them. */
function answer(
  parts: SendingParts,
  batch: readonly Waiting[],
  outcomes: readonly Outcome[],
): void {
  tellRooms(parts, batch, outcomes);
  for (const { n, outcome, id, seq, createdAt } of outcomes) {
    const one = batch[n];
    if (!one || outcome === 'busy') continue;
    if (outcome === 'sent' || outcome === 'duplicate')
      one.resolve({ id, seq, createdAt, duplicate: outcome === 'duplicate' });
    else one.reject(refusals[outcome]());
  }
}

function tellRooms(
  { hub, events, metrics, onSent, indexing }: SendingParts,
  batch: readonly Waiting[],
  outcomes: readonly Outcome[],
): void {
  const started = performance.now();
  const stored = new Map<string, StoredChange[]>();
  let [sent, characters] = [0, 0];
  for (const outcome of outcomes) {
    const one = batch[outcome.n];
    if (!one || outcome.outcome !== 'sent') continue;
    listOf(stored, one.room).push(storedChange(one, outcome));
    sent += 1;
    characters += BESIDE_TEXT + (one.message.content?.length ?? 0);
  }
  if (sent === 0) return;
  // Sockets hear of them at once, on other nodes too (`hub.stored`).
  events.wakeLater();
  for (const [room, changes] of stored) {
    hub.stored(room, changes);
    onSent(room);
  }
  indexing(characters);
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
  noFile: () => chatErrors.FILE_REFUSED({ message: 'files: one of them has been deleted' }),
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
