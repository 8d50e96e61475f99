/** For each room that somebody on this node hears: up to which change it was delivered, and how gaps are filled. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { changesAfter } from '../queries/messages.ts';
import { type ChangedMessage, type Emitted, eventOf } from './wire.ts';

/** Something that was stored in a room, with what is told of it. */
export interface StoredChange extends Emitted {
  readonly change: number;
  /** Of a new message. */
  readonly seq?: number | undefined;
  /** Number of the message that changed. */
  readonly of?: number | undefined;
}

interface Place {
  seq: number;
  change: number;
}

interface Feed extends Place {
  /** Sockets that hear it. */
  listeners: number;
  filling: boolean;
  /** Up to where it is known to go. */
  known: number;
  /** The last message before the latest of its listeners joined. */
  latestJoin: number;
}

export interface RoomFeeds {
  /** Once per socket, whose user joined after message `joinedSeq`. The first one says from where on is delivered. */
  open(room: string, place: Place, joinedSeq: number): void;
  close(room: string): void;
  isOpen(room: string): boolean;
  /** Whether a listener may have joined after this message. */
  hasJoinedAfter(room: string, seq: number): boolean;
  /** Rooms that somebody on this node hears. */
  count(): number;
  /** Changes in their order. */
  offer(room: string, changes: readonly StoredChange[]): void;
  /** The room has got so far. */
  reached(room: string, change: number): void;
}

/** Changes of one read, and reads after which listeners are told to load the room again. */
const PAGE = 500;
const PAGES = 4;
/** Milliseconds after which a gap that could not be filled is tried again. */
const AGAIN_MS = 1_000;

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly log: Pick<Logger, 'warn'>;
  readonly emit: Emit;
}

/** `of`: the number of the message that it is about. */
export type Emit = (room: string, event: string, data: unknown, of?: number) => void;

export function createRoomFeeds(dependencies: Dependencies): RoomFeeds {
  const { emit } = dependencies;
  const feeds = new Map<string, Feed>();
  const isCurrent = (room: string, feed: Feed): boolean => feeds.get(room) === feed;
  const startFilling = createFilling(dependencies, isCurrent);
  const advance = (
    room: string,
    feed: Feed,
    { change, seq, event, data, of = seq }: StoredChange,
  ): void => {
    if (change <= feed.change) return;
    feed.known = Math.max(feed.known, change);
    const isNext = change === feed.change + 1 && (seq === undefined || seq === feed.seq + 1);
    if (!isNext || feed.filling) {
      startFilling(room, feed);
      return;
    }
    feed.change = change;
    feed.seq = seq ?? feed.seq;
    emit(room, event, data, of);
  };

  return {
    open(room, place, joinedSeq) {
      const known = feeds.get(room);
      const feed = known ?? { ...place, listeners: 0, filling: false, known: 0, latestJoin: 0 };
      feed.listeners += 1;
      feed.latestJoin = Math.max(feed.latestJoin, joinedSeq);
      if (known) return;
      feed.known = place.change;
      feeds.set(room, feed);
    },
    close(room) {
      const feed = feeds.get(room);
      if (!feed) return;
      feed.listeners -= 1;
      if (feed.listeners === 0) feeds.delete(room);
    },
    isOpen: (room) => feeds.has(room),
    hasJoinedAfter: (room, seq) => (feeds.get(room)?.latestJoin ?? seq) >= seq,
    count: () => feeds.size,
    offer(room, changes) {
      const feed = feeds.get(room);
      if (feed) for (const change of changes) advance(room, feed, change);
    },
    reached(room, change) {
      const feed = feeds.get(room);
      if (!feed || change <= feed.change) return;
      feed.known = Math.max(feed.known, change);
      startFilling(room, feed);
    },
  };
}

type IsCurrent = (room: string, feed: Feed) => boolean;

/** One filling of a feed at a time; it is tried again until it went well, as long as somebody listens. */
function createFilling(
  { database, log, emit }: Dependencies,
  isCurrent: IsCurrent,
): (room: string, feed: Feed) => void {
  const attempt = (room: string, feed: Feed, isFirst: boolean): void => {
    fill({ database, emit, isCurrent }, room, feed).catch((error: unknown) => {
      if (isFirst) log.warn({ err: error, room }, 'A gap could not be filled yet');
      const again = (): void => {
        if (isCurrent(room, feed)) attempt(room, feed, false);
      };
      setTimeout(again, AGAIN_MS).unref();
    });
  };
  return (room, feed) => {
    if (feed.filling) return;
    feed.filling = true;
    attempt(room, feed, true);
  };
}

interface Filling extends Pick<Dependencies, 'database' | 'emit'> {
  /** False when all have left meanwhile: whoever comes after that is told by another feed. */
  readonly isCurrent: IsCurrent;
}

/**
 * Tells what is stored behind the place of the feed. It is read to its end before anything of it is told: a message stands
 * where it was last changed, so that one of the first may come on the last page, and messages are told in their order.
 */
async function fill(
  { database, emit, isCurrent }: Filling,
  room: string,
  feed: Feed,
): Promise<void> {
  for (let isBehind = true; isBehind; isBehind = feed.known > feed.change) {
    const found = new Map<string, ChangedMessage>();
    let { change } = feed;
    let isWhole = false;
    for (let page = 0; !isWhole && page < PAGES; page += 1) {
      const rows = await database.outside(() => changesAfter(database, room, change, PAGE));
      if (!isCurrent(room, feed)) return;
      for (const row of rows) found.set(row.id, row);
      change = rows.at(-1)?.change ?? Math.max(change, feed.known);
      isWhole = rows.length < PAGE;
    }
    if (isWhole) tellAll(emit, room, feed, [...found.values()]);
    else emit(room, 'gap', { room, afterSeq: feed.seq });
    feed.seq = Math.max(feed.seq, ...[...found.values()].map(({ seq }) => seq));
    feed.change = isWhole ? change : Math.max(change, feed.known);
    feed.known = Math.max(feed.known, change);
  }
  feed.filling = false;
}

/** New messages first, in their order, then what became of earlier ones. */
function tellAll(
  emit: Emit,
  room: string,
  { seq: before }: Place,
  rows: readonly ChangedMessage[],
): void {
  const fresh = rows.filter(({ seq }) => seq > before).sort((a, b) => a.seq - b.seq);
  const changed = rows.filter(({ seq }) => seq <= before).sort((a, b) => a.change - b.change);
  for (const row of [...fresh, ...changed]) {
    const told = eventOf(row, row.seq > before);
    if (told) emit(room, told.event, told.data, row.seq);
  }
}
