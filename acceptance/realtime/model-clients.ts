/** Clients of the model: they follow the guides, on whatever node lives, and keep what they are told. */
import { io, type Socket } from 'socket.io-client';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { applyChanges } from './clients.ts';

/** Where a client may connect now: addresses of some node that lives. */
export type Place = () => { readonly realtime?: string | undefined; readonly client: string };

export interface ModelClient {
  readonly name: string;
  /** Its connection is lost, without a word to the server. */
  drop(): void;
  close(): void;
  /** What it has, and whether it was told that this may not be all. */
  state(): { readonly records: readonly Json[]; readonly gap: boolean; readonly ready: boolean };
}

/** A connection that is opened again, on some node, whenever it is lost. */
function connection(
  place: Place,
  { accessToken }: TestUser,
  namespace: string,
  connected: (socket: Socket) => void,
) {
  let closed = false;
  let socket: Socket | undefined;
  const open = (): void => {
    if (closed) return;
    const opened = io(`${place().realtime}${namespace}`, {
      path: '/realtime',
      transports: ['websocket'],
      reconnection: false,
      forceNew: true,
      timeout: 2_000,
      auth: { token: accessToken },
    });
    socket = opened;
    const again = (): void => {
      if (socket === opened) setTimeout(open, 50);
    };
    opened.on('connect_error', () => {
      opened.disconnect();
      again();
    });
    opened.on('disconnect', again);
    opened.on('connect', () => connected(opened));
  };
  open();
  return {
    current: () => socket,
    drop: () => socket?.io.engine?.close(),
    close() {
      closed = true;
      socket?.disconnect();
    },
  };
}

export interface ListRequest {
  readonly schema: string;
  readonly query?: object;
  readonly sort?: readonly string[];
  readonly limit?: number;
  readonly populate?: readonly string[];
  readonly documentId?: string;
}

/** `asksAgain`: after a gap; else it stays with what it was told, and with that. */
export function listClient(
  place: Place,
  user: TestUser,
  request: ListRequest,
  asksAgain: boolean,
): ModelClient {
  let [watch, position]: (string | undefined)[] = [];
  let records: Json[] = [];
  let [gap, ready] = [false, false];
  const apply = ({ position: next, changes }: Json): void => {
    applyChanges(records, changes);
    position = next;
  };
  const begin = async (socket: Socket): Promise<void> => {
    const answer: Json = await socket
      .timeout(10_000)
      .emitWithAck('watch', { ...request, ...(position !== undefined && { since: position }) })
      .catch(() => ({ ok: false }));
    if (line.current() !== socket || !socket.connected) return;
    if (!answer.ok) {
      setTimeout(() => void begin(socket), 200);
      return;
    }
    watch = answer.watch;
    if (answer.missed) for (const { data } of answer.missed) apply(data);
    else {
      records = answer.records;
      position = answer.position;
    }
    ready = true;
  };
  const line = connection(place, user, '/database/', (socket) => {
    ready = false;
    socket.on('records', (message: Json) => {
      if (message.watch === watch) apply(message);
    });
    socket.on('gap', (message: Json) => {
      if (message.watch !== watch) return;
      position = undefined;
      ready = asksAgain ? false : ready;
      if (asksAgain) void begin(socket);
      else gap = true;
    });
    if (!gap) void begin(socket);
  });
  return {
    name: `${user.userId} ${JSON.stringify(request)}`,
    drop: line.drop,
    close: line.close,
    state: () => ({ records, gap, ready: ready && line.current()?.connected === true }),
  };
}

/** Rooms of a user, with the texts of their messages; loads a room when it comes into it, and after a loss. */
export function chatClient(place: Place, user: TestUser): ModelClient {
  let rooms = new Map<string, Room>();
  let ready = false;
  const hear = (roomId: string, change: (texts: Map<string, string>) => void): void => {
    const room = rooms.get(roomId);
    if (room?.loading) room.loading.push(change);
    else if (room) change(room.texts);
  };
  const load = async (socket: Socket, roomId: string): Promise<void> => {
    const room: Room = { texts: new Map(), loading: [] };
    rooms.set(roomId, room);
    let answer: Json = { lastSeq: 0, more: true };
    while (answer.more) {
      answer = await syncPage(socket, roomId, answer.lastSeq);
      // It is no member any more, or the connection is gone: both are told.
      if (!answer.ok) return;
      for (const { _id, content } of answer.messages) room.texts.set(_id, content);
    }
    for (const change of room.loading ?? []) change(room.texts);
    room.loading = undefined;
  };
  const line = connection(place, user, '/chat/', (socket) => {
    rooms = new Map();
    ready = false;
    socket.on('message', ({ room, _id, content }: Json) =>
      hear(room, (texts) => void texts.set(_id, content)),
    );
    socket.on('message-edited', ({ room, messageId, message }: Json) =>
      hear(room, (texts) => void (texts.has(messageId) && texts.set(messageId, message))),
    );
    socket.on('message-deleted', ({ room, messageId }: Json) =>
      hear(room, (texts) => void texts.delete(messageId)),
    );
    socket.on('room-joined', ({ room }: Json) => void load(socket, room));
    socket.on('gap', ({ room }: Json) => void load(socket, room));
    socket.on('room-left', ({ room }: Json) => void rooms.delete(room));
    socket.on('room-deleted', ({ room }: Json) => void rooms.delete(room));
    void loadAll(socket);
  });
  const loadAll = async (socket: Socket): Promise<void> => {
    const listed = await fetch(`${place().client}/chat/rooms?limit=100`, {
      headers: { authorization: `Bearer ${user.accessToken}` },
    }).catch(() => undefined);
    if (line.current() !== socket || !socket.connected) return;
    if (!listed?.ok) {
      setTimeout(() => void loadAll(socket), 200);
      return;
    }
    const found = (await listed.json()) as Json;
    await Promise.all(found.rooms.map(({ _id }: Json) => load(socket, _id)));
    ready = line.current() === socket;
  };
  return {
    name: `chat of ${user.userId}`,
    drop: line.drop,
    close: line.close,
    state: () => ({
      records: [...rooms].map(([room, { texts }]) => ({ room, texts: Object.fromEntries(texts) })),
      gap: false,
      ready,
    }),
  };
}

/** Tries again when too much is asked for. */
async function syncPage(socket: Socket, roomId: string, afterSeq: number): Promise<Json> {
  while (true) {
    const answer: Json = await socket
      .timeout(10_000)
      .emitWithAck('sync', { roomId, afterSeq })
      .catch(() => ({ ok: false }));
    if (answer.ok || answer.error?.status !== 429) return answer;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

interface Room {
  readonly texts: Map<string, string>;
  /** What was told while the room is loaded. */
  loading: ((texts: Map<string, string>) => void)[] | undefined;
}
