/** For each room that somebody on this node hears: up to which change it was delivered, and how gaps are filled. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { changesAfter } from '../queries/messages.ts';
import { type Emitted, eventOf } from './wire.ts';

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
}

export interface RoomFeeds {
  /** Once per socket. The first one says from where on is delivered. */
  open(room: string, place: Place): void;
  close(room: string): void;
  isOpen(room: string): boolean;
  /** Rooms that somebody on this node hears. */
  count(): number;
  /** Changes in their order. */
  offer(room: string, changes: readonly StoredChange[]): void;
  /** The room has got so far. */
  reached(room: string, change: number): void;
  /** Was stored by this node: tells everybody. */
  stored(room: string, changes: readonly StoredChange[]): void;
}

/** Changes of one read, and reads after which listeners are told to load the room again. */
const PAGE = 500;
const PAGES = 4;

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly log: Logger;
  readonly emit: Emit;
}

/** `of`: the number of the earlier message that it is about. */
export type Emit = (room: string, event: string, data: unknown, of?: number) => void;

export function createRoomFeeds({ database, log, emit }: Dependencies): RoomFeeds {
  const feeds = new Map<string, Feed>();
  const startFilling = (room: string, feed: Feed): void => {
    if (feed.filling) return;
    feed.filling = true;
    const done = (): void => {
      feed.filling = false;
    };
    fill({ database, emit }, room, feed, done).catch((error: unknown) => {
      done();
      log.warn({ err: error, room }, 'A gap could not be filled yet');
    });
  };
  const advance = (
    room: string,
    feed: Feed,
    { change, seq, event, data, of }: StoredChange,
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
  const offer = (room: string, changes: readonly StoredChange[]): void => {
    const feed = feeds.get(room);
    if (feed) for (const change of changes) advance(room, feed, change);
  };

  return {
    open(room, place) {
      const feed = feeds.get(room);
      if (feed) feed.listeners += 1;
      else feeds.set(room, { ...place, listeners: 1, filling: false, known: place.change });
    },
    close(room) {
      const feed = feeds.get(room);
      if (!feed) return;
      feed.listeners -= 1;
      if (feed.listeners === 0) feeds.delete(room);
    },
    isOpen: (room) => feeds.has(room),
    count: () => feeds.size,
    offer,
    stored: offer,
    reached(room, change) {
      const feed = feeds.get(room);
      if (!feed || change <= feed.change) return;
      feed.known = Math.max(feed.known, change);
      startFilling(room, feed);
    },
  };
}

/** Tells what is stored behind the place of the feed, page by page. */
async function fill(
  { database, emit }: Pick<Dependencies, 'database' | 'emit'>,
  room: string,
  feed: Feed,
  done: () => void,
): Promise<void> {
  for (let page = 0; feed.known > feed.change; page += 1) {
    const rows = await database.outside(() => changesAfter(database, room, feed.change, PAGE));
    const last = rows.at(-1);
    if (!last) {
      feed.change = feed.known;
      break;
    }
    if (page >= PAGES) {
      emit(room, 'gap', { room, afterSeq: feed.seq });
      feed.seq = Math.max(feed.seq, ...rows.map(({ seq }) => seq));
      feed.change = Math.max(last.change, feed.known);
      break;
    }
    const fresh = rows.filter(({ seq }) => seq > feed.seq).sort((a, b) => a.seq - b.seq);
    const changed = rows.filter(({ seq }) => seq <= feed.seq);
    for (const row of [...fresh, ...changed]) {
      const isNew = row.seq > feed.seq;
      const told = eventOf(row, isNew);
      if (told) emit(room, told.event, told.data, isNew ? undefined : row.seq);
      feed.seq = Math.max(feed.seq, row.seq);
    }
    feed.change = last.change;
    feed.known = Math.max(feed.known, last.change);
  }
  done();
}
