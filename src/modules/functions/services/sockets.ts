/** Socket functions: namespaces made from what each function declares (specification functions.md section 5.2). */
import Type from 'typebox';
import type { AnonymousCaller, UserCaller } from '../../../kernel/caller.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import { newId } from '../../../kernel/ids.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import type {
  SocketConnection,
  SocketEvent,
  SocketNamespace,
  SocketNamespaces,
  SocketReply,
} from '../../../kernel/sockets/socket-namespace.ts';
import { reservedSocketEvents, type StoredFunction } from '../definition/definition.ts';
import { placeShape, ReturnError, returnedBody } from '../definition/inputs.ts';
import { isReservedName } from './published-routes.ts';
import { runFor } from './routes.ts';
import type { RunAnswer } from './run-request.ts';
import type { FunctionRunner } from './runner.ts';
import type { FunctionStore } from './store.ts';

export interface FunctionSocketParts {
  readonly runner: FunctionRunner;
  readonly store: Pick<FunctionStore, 'byId'>;
  readonly sockets: SocketNamespaces;
  readonly bus: Pick<Bus, 'publish' | 'subscribe'>;
  /** Of one socket. */
  readonly maxRooms: () => number;
}

type Note = (one: StoredFunction, error: unknown) => void;

export interface FunctionSockets {
  /** Serves the namespaces of these functions and no others. What did not change keeps its sockets. `note` hears of those that cannot be. */
  publish(all: readonly StoredFunction[], note: Note): void;
  close(): void;
}

/** What an answer sends, and to whom. With neither users nor rooms it goes to the socket that asked. */
interface Emission {
  readonly event: string;
  readonly data?: unknown;
  /** Ids of users. */
  readonly receivers: readonly string[];
  readonly rooms: readonly string[];
  /** Characters of what the function answered. */
  readonly size: number;
}

type SocketAnswer =
  | { readonly emission: Emission }
  | { readonly emission?: undefined; readonly reply: SocketReply };

/** Between nodes: what goes to sockets of others. */
interface Delivery extends Emission {
  readonly names: readonly string[];
}

const TOPIC = 'functions-sockets';
const MAX_ARGUMENTS = 100;
const MAX_TARGETS = 1_000;
const LONGEST_NAME = 200;
/** Characters that wait for the bus while it is busy. */
const MAX_WAITING = 4_000_000;

export function createFunctionSockets(parts: FunctionSocketParts): FunctionSockets {
  const { sockets, bus } = parts;
  const served = new Map<string, readonly (() => void)[]>();

  const deliver = ({ names, event, data, receivers, rooms }: Delivery): void => {
    const channels = [...rooms.map(roomChannel), ...receivers.map(userChannel)];
    for (const name of names)
      for (const channel of channels) sockets.broadcast(name, channel, event, data);
  };
  const unhear = bus.subscribe(TOPIC, (payload) => deliver(payload as Delivery));
  let waiting = 0;
  const send = (delivery: Delivery): void => {
    deliver(delivery);
    const { size } = delivery;
    // Like every message to a socket it may be lost with a node, and with a bus that does not keep up.
    if (waiting + size > MAX_WAITING) return;
    waiting += size;
    const sent = (): void => {
      waiting -= size;
    };
    bus.publish(TOPIC, delivery).then(sent, sent);
  };

  /** In all its forms or, where that fails, in none. */
  const serve = (key: string, one: StoredFunction, note: Note): void => {
    const stops: (() => void)[] = [];
    try {
      const names = namesOf(one, sockets);
      for (const name of names)
        stops.push(sockets.register(namespaceOf(parts, one, { name, names, send })));
      served.set(key, stops);
    } catch (error) {
      for (const stop of stops) stop();
      note(one, error);
    }
  };

  return {
    close: unhear,
    publish(all, note) {
      const mine = all.filter(({ functionType, enabled }) => functionType === 'socket' && enabled);
      const current = new Map(mine.map((one) => [keyOf(one), one]));
      for (const [key, stops] of served) {
        if (current.has(key)) continue;
        served.delete(key);
        for (const stop of stops) stop();
      }
      for (const [key, one] of current) {
        if (!served.has(key)) serve(key, one, note);
      }
    },
  };
}

/** What of a function makes its namespace: another text is taken in without it. */
const keyOf = ({ _id, name, inputs }: StoredFunction): string =>
  JSON.stringify([_id, name, inputs.event, inputs.auth === true, inputs.bodyParams ?? null]);

/** The short form only where nothing else has it. */
function namesOf({ name }: StoredFunction, sockets: SocketNamespaces): readonly string[] {
  const short = `/${name}`;
  const isTaken = isReservedName(name) || sockets.all().some((other) => other.name === short);
  return isTaken ? [`/functions/${name}`] : [`/functions/${name}`, short];
}

interface Served {
  readonly name: string;
  /** Of the same function. */
  readonly names: readonly string[];
  readonly send: (delivery: Delivery) => void;
}

const roomChannel = (room: string): string => `room:${room}`;
const userChannel = (userId: string): string => `user:${userId}`;

function namespaceOf(
  parts: FunctionSocketParts,
  one: StoredFunction,
  { name, names, send }: Served,
): SocketNamespace {
  const { _id, inputs } = one;
  const roomsOf = new WeakMap<SocketConnection, Set<string>>();
  const body = placeShape(inputs, 'bodyParams');
  const any = Type.Object({ params: Type.Array(Type.Unknown(), { maxItems: MAX_ARGUMENTS }) });
  const event: SocketEvent = {
    name: inputs.event ?? one.name,
    summary: `Run the function ${one.name}`,
    input: body ?? any,
    ...(!body && { allArguments: true }),
    async handler(connection, input: Readonly<Record<string, unknown>>) {
      const params = body ? [input] : (input.params as readonly unknown[]);
      const current = parts.store.byId(_id) ?? one;
      const answer = await askFunction(parts, current, { connection, params, roomsOf });
      if (!answer.emission) return answer.reply;
      apply(answer.emission, { connection, send, names });
      return {};
    },
  };
  return {
    name,
    summary: `The function ${one.name}`,
    visitors: inputs.auth !== true,
    errorEvent: 'conduit_error',
    events: [event],
    sends: [],
    admit: async (connection) => ({
      connected() {
        if (connection.userId !== '') connection.join(userChannel(connection.userId));
      },
      closed: () => undefined,
    }),
  };
}

/* One event. */

type RoomsOf = WeakMap<SocketConnection, Set<string>>;

interface Asked {
  readonly connection: SocketConnection;
  readonly params: readonly unknown[];
  readonly roomsOf: RoomsOf;
}

async function askFunction(
  { runner, maxRooms }: FunctionSocketParts,
  one: StoredFunction,
  { connection, params, roomsOf }: Asked,
): Promise<SocketAnswer> {
  const caller = await connection.anyCaller();
  const { event } = one.inputs;
  const req = { event, socketId: connection.id, params, context: contextOf(caller) };
  // Rooms are entered as soon as the answer is there: what other answers have brought meanwhile counts.
  const read = ({ text }: RunAnswer): SocketAnswer => {
    const answer = answerOf(one, text);
    if (answer.emission) moveRooms(answer.emission, { connection, roomsOf, max: maxRooms() });
    return answer;
  };
  return runFor(runner, one, { caller, requestId: newId() }, { req, read });
}

const contextOf = (caller: UserCaller | AnonymousCaller) =>
  caller.kind === 'user' ? { clientId: caller.clientId, user: { _id: caller.userId } } : {};

/** Throws `ReturnError`, and enters none of them, where the socket would be in too many. */
function moveRooms(
  { event, rooms }: Emission,
  { connection, roomsOf, max }: Omit<Asked, 'params'> & { readonly max: number },
): void {
  if (!isRoomEvent(event)) return;
  const mine = roomsOf.get(connection) ?? new Set<string>();
  roomsOf.set(connection, mine);
  if (event === 'leave-room')
    for (const room of rooms) {
      mine.delete(room);
      connection.leave(roomChannel(room));
    }
  else if (mine.union(new Set(rooms)).size > max)
    throw new ReturnError('rooms: a socket is in at most realtime.roomsPerSocket rooms');
  else
    for (const room of rooms) {
      mine.add(room);
      connection.join(roomChannel(room));
    }
}

function apply(
  emission: Emission,
  { connection, send, names }: Pick<Served, 'send' | 'names'> & Pick<Asked, 'connection'>,
): void {
  const { event, data, receivers, rooms } = emission;
  if (isRoomEvent(event)) return;
  if (receivers.length + rooms.length === 0) connection.emit(event, data);
  else send({ ...emission, names });
}

/* What a function answered. */

const isRoomEvent = (event: string): boolean => event === 'join-room' || event === 'leave-room';
const emissionKeys: ReadonlySet<string> = new Set(['event', 'data', 'receivers', 'rooms']);

/** Throws `ReturnError` for what cannot be sent. */
function answerOf({ returns }: StoredFunction, text: string): SocketAnswer {
  if (text.includes('"event"')) {
    const value = parseBoundedJson(text, 'The result');
    if (isEmission(value)) return { emission: { ...checked(value), size: text.length } };
  }
  return { reply: parseBoundedJson(returnedBody(text, returns), 'The result') as SocketReply };
}

const isEmission = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { readonly event?: unknown }).event === 'string' &&
  Object.keys(value).every((key) => emissionKeys.has(key));

function checked(value: Readonly<Record<string, unknown>>): Omit<Emission, 'size'> {
  const event = String(value.event);
  if (event === '' || event.length > LONGEST_NAME || reservedSocketEvents.has(event))
    throw new ReturnError(`event cannot be "${event.slice(0, LONGEST_NAME)}"`);
  const receivers = namesIn(value.receivers, 'receivers');
  const rooms = namesIn(value.rooms, 'rooms');
  return { event, receivers, rooms, ...(value.data !== undefined && { data: value.data }) };
}

function namesIn(value: unknown, path: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isName = (one: unknown): one is string =>
    typeof one === 'string' && one !== '' && one.length <= LONGEST_NAME;
  if (Array.isArray(value) && value.length <= MAX_TARGETS && value.every(isName))
    return [...new Set(value)];
  throw new ReturnError(`${path} must be a list of at most ${MAX_TARGETS} names`);
}
