/**
 * How packets are written to the network: what a socket is sent in one turn of the loop is one write of one piece of memory
 * (docs/decisions/260, 300). The library writes each packet by itself, as a frame of two pieces; in a room where many write
 * at once that is most of what a delivery costs.
 */
import type { Socket } from 'node:net';
import type { Server as SocketServer } from 'socket.io';

type Written = (error?: Error | null) => void;
type Piece = Buffer | string;
/** What an event may hold beside JSON. */
type Bytes = ArrayBuffer | ArrayBufferView<ArrayBuffer>;

/** A packet of the transport, with its whole frame where it is one that goes to many. */
interface Packet {
  readonly options?: { readonly wsPreEncodedFrame?: readonly Buffer[] };
}

/** What of a session of the transport is used; it is not part of the types of the library. */
interface TransportSession {
  flush(): void;
  readonly readyState: string;
  /** What was sent and is not with the transport yet. */
  readonly writeBuffer: readonly unknown[];
  readonly transport: Transport;
}

interface Transport {
  writable: boolean;
  readonly supportsBinary: boolean;
  readonly parser: {
    encodePacket(
      packet: Packet,
      supportsBinary: boolean,
      encoded: (data: string | Bytes) => void,
    ): void;
  };
  /** Of a WebSocket, not of a polling client. */
  readonly socket?: WebSocketParts;
  send(packets: readonly Packet[]): void;
  emit(event: 'drain' | 'ready'): void;
  onError(message: string, description: string | undefined): void;
}

interface WebSocketParts {
  readonly readyState: number;
  readonly OPEN: number;
  readonly extensions: string;
  readonly _socket: Pick<Socket, 'write' | 'cork' | 'uncork'> | null;
}

/** Bytes of one turn beyond which frames are not copied together: what is large is shared by all sockets it goes to. */
const COPIED_BYTES = 32_768;

/** What is sent in one turn goes out at its end, for all sessions that are opened from now on. */
export function gatherPackets({ engine }: Pick<SocketServer, 'engine'>): void {
  let waiting = new Map<TransportSession, () => void>();
  const known = new WeakSet<Transport>();
  const flushAll = (): void => {
    const sessions = waiting;
    waiting = new Map();
    for (const [{ transport }, flush] of sessions) {
      if (!known.has(transport)) {
        known.add(transport);
        writeTogether(transport);
      }
      flush();
    }
  };
  engine.on('connection', (session: TransportSession) => {
    const flush = session.flush.bind(session);
    session.flush = () => {
      // Who changes to a WebSocket while it is closed is closed behind the last word, in the same turn.
      if (session.readyState === 'closing') {
        flush();
        return;
      }
      // It is asked for after each write too, where mostly nothing is left.
      if (session.writeBuffer.length === 0) return;
      if (waiting.size === 0) setImmediate(flushAll);
      waiting.set(session, flush);
    };
  });
}

/** From now on the packets that a WebSocket is given at once are one write. */
function writeTogether(transport: Transport): void {
  const { socket } = transport;
  // What is compressed is the library's.
  if (socket?.extensions !== '') return;
  const send = transport.send.bind(transport);
  const written: Written = (error) => {
    if (error) {
      transport.onError('write error', error.stack);
      return;
    }
    transport.emit('drain');
    transport.writable = true;
    transport.emit('ready');
  };
  transport.send = (packets) => {
    const stream = socket._socket;
    // What comes too late is the library's, too.
    if (!stream || socket.readyState !== socket.OPEN) send(packets);
    else {
      transport.writable = false;
      const shared = packets.length === 1 ? packets[0]?.options?.wsPreEncodedFrame : undefined;
      if (shared) stream.write(wholeFrame(shared), written);
      else write(stream, framesOf(transport, packets), written);
    }
  };
}

/** Frames that go to many, each in one piece that all of them are sent. */
const wholeFrames = new WeakMap<readonly Buffer[], Buffer>();

function wholeFrame(pieces: readonly Buffer[]): Buffer {
  const known = wholeFrames.get(pieces);
  if (known) return known;
  const whole = Buffer.concat(pieces);
  wholeFrames.set(pieces, whole);
  return whole;
}

interface Frames {
  readonly pieces: readonly Piece[];
  readonly bytes: number;
}

/** Frames as pieces; a text is longer in bytes than it has characters. */
function framesOf({ parser, supportsBinary }: Transport, packets: readonly Packet[]): Frames {
  const pieces: Piece[] = [];
  let bytes = 0;
  const add = (data: string | Bytes): void => {
    const length = typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength;
    const header = headerOf(length, typeof data === 'string' ? TEXT : BINARY);
    pieces.push(header, typeof data === 'string' ? data : bufferOf(data));
    bytes += header.length + length;
  };
  for (const packet of packets) {
    const encoded = packet.options?.wsPreEncodedFrame;
    if (!encoded) parser.encodePacket(packet, supportsBinary, add);
    else {
      const frame = wholeFrame(encoded);
      pieces.push(frame);
      bytes += frame.length;
    }
  }
  return { pieces, bytes };
}

const bufferOf = (data: Bytes): Buffer => {
  if (Buffer.isBuffer(data)) return data;
  return ArrayBuffer.isView(data)
    ? Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    : Buffer.from(data);
};

/** First byte of a frame that is a whole message (RFC 6455, section 5.2). */
const TEXT = 0x81;
const BINARY = 0x82;

/** Of a frame that a server sends: not masked. */
function headerOf(length: number, first: number): Buffer {
  const header = Buffer.allocUnsafe(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  header[0] = first;
  header[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (header.length === 4) header.writeUInt16BE(length, 2);
  if (header.length === 10) header.writeBigUInt64BE(BigInt(length), 2);
  return header;
}

function write(
  stream: NonNullable<WebSocketParts['_socket']>,
  { pieces, bytes }: Frames,
  written: Written,
): void {
  if (bytes <= COPIED_BYTES) {
    stream.write(joined(pieces, bytes), written);
    return;
  }
  stream.cork();
  for (const [at, piece] of pieces.entries())
    if (at === pieces.length - 1) stream.write(piece, written);
    else stream.write(piece);
  stream.uncork();
}

function joined(pieces: readonly Piece[], bytes: number): Buffer {
  const whole = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const piece of pieces)
    at += typeof piece === 'string' ? whole.write(piece, at) : piece.copy(whole, at);
  return whole;
}
