/**
 * What one packet of a client may hold, and how often it may ask to be let in. The library hands arguments to functions one
 * by one, which so many exhaust that nobody can catch the error, and it keeps attachments until the last one has come.
 * What is beyond these bounds is no packet: the connection ends, as it does for what cannot be read.
 */
import { EventEmitter } from 'node:events';
import { Decoder, Encoder, type Packet, PacketType } from 'socket.io-parser';

/** Arguments of one event or acknowledgement. */
const MAX_ARGUMENTS = 256;
/** Bytes that are attached to one event, all together. */
export const MAX_ATTACHED_BYTES = 1_000_000;
/** Requests of one connection to be let into a namespace, and the milliseconds that they are counted in. */
const MAX_CONNECTS = 200;
const CONNECTS_MS = 10_000;

const CONNECT = String(PacketType.CONNECT);

/** Throws for what is too much; whoever hands it data closes the connection then. */
class BoundedDecoder extends EventEmitter<{ decoded: [Packet] }> {
  readonly #inner = new Decoder();
  #attached = 0;
  #connects = 0;
  #countedUntil = 0;

  constructor() {
    super();
    this.#inner.on('decoded', (packet) => {
      const { data } = packet as { readonly data?: unknown };
      if (Array.isArray(data) && data.length > MAX_ARGUMENTS) throw new Error('too many arguments');
      this.emit('decoded', packet);
    });
  }

  add(data: unknown): void {
    if (typeof data === 'string') {
      this.#attached = 0;
      if (data.startsWith(CONNECT)) this.#countConnect();
    } else {
      this.#attached += (data as { readonly byteLength?: number }).byteLength ?? 0;
      if (this.#attached > MAX_ATTACHED_BYTES) throw new Error('too many bytes are attached');
    }
    this.#inner.add(data);
  }

  destroy(): void {
    this.#inner.destroy();
  }

  #countConnect(): void {
    const now = performance.now();
    if (now >= this.#countedUntil) {
      this.#countedUntil = now + CONNECTS_MS;
      this.#connects = 0;
    }
    this.#connects += 1;
    if (this.#connects > MAX_CONNECTS) throw new Error('too many requests to be let in');
  }
}

/** For servers of Socket.IO. */
export const boundedParser = { Encoder, Decoder: BoundedDecoder };
