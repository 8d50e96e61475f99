/** What PostgreSQL's protocol says about one prepared statement, written and read without objects in between (manual, "Message Formats"). */

const PARSE = 0x50;
const BIND = 0x42;
const DESCRIBE_PORTAL = Buffer.from([0x44, 0, 0, 0, 6, 0x50, 0]);
const EXECUTE = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0]);
const SYNC = Buffer.from([0x53, 0, 0, 0, 4]);

/** Bytes that a piece of memory begins with, and that it goes back to after something large. */
const USUAL_BYTES = 16_384;
/** Bytes of UTF-8 that a character takes at most. */
const MAX_BYTES = 3;

/** As PostgreSQL reads it: a text, bytes, or nothing. */
export type WireValue = string | Buffer | null;

/** Values of so many bytes are written from where they are. */
const LARGE_BYTES = 4_096;

/** A large value, and how much stands before it of what is in the memory of the writer. */
interface LargeValue {
  readonly at: number;
  readonly bytes: Buffer;
}

/** Messages that wait to be written, in one piece of memory that is used again and again, but for large values. */
export class MessageWriter {
  #bytes = Buffer.allocUnsafeSlow(USUAL_BYTES);
  #end = 0;
  #large: LargeValue[] = [];
  #largeBytes = 0;

  /** Has a text prepared under a name; an empty one is for the next statement only. */
  parse(name: string, text: string): void {
    const start = this.#begin(PARSE);
    this.#word(name);
    this.#word(text);
    this.#number16(0);
    this.#finish(start);
  }

  /** Has the prepared statement of that name run with these values. `describe`: and its columns told. */
  run(name: string, values: readonly WireValue[], describe: boolean): void {
    const largeBefore = this.#largeBytes;
    const start = this.#begin(BIND);
    this.#word('');
    this.#word(name);
    this.#formats(values);
    this.#number16(values.length);
    for (const value of values) this.#value(value);
    // All columns as texts.
    this.#number16(0);
    this.#finish(start, this.#largeBytes - largeBefore);
    if (describe) this.#bytesOf(DESCRIBE_PORTAL);
    this.#bytesOf(EXECUTE);
  }

  /** Ends the transaction: what ran since the last one is committed, or undone when something failed. */
  sync(): void {
    this.#bytesOf(SYNC);
  }

  /**
   * What waits, to be written in this order; none when nothing does. Nothing waits afterwards. Large values are the
   * buffers that were given: they must not change before they are written.
   */
  take(): readonly Buffer[] {
    if (this.#end === 0) return [];
    const own = Buffer.from(this.#bytes.subarray(0, this.#end));
    const pieces = this.#large.length === 0 ? [own] : between(own, this.#large);
    this.#end = 0;
    this.#large = [];
    this.#largeBytes = 0;
    if (this.#bytes.length > USUAL_BYTES) this.#bytes = Buffer.allocUnsafeSlow(USUAL_BYTES);
    return pieces;
  }

  #ensure(more: number): void {
    const needed = this.#end + more;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#end);
    this.#bytes = larger;
  }

  #begin(type: number): number {
    this.#ensure(5);
    this.#bytes[this.#end] = type;
    const start = this.#end + 1;
    this.#end += 5;
    return start;
  }

  /** `elsewhere`: bytes of the message that are not in this memory. */
  #finish(start: number, elsewhere = 0): void {
    this.#bytes.writeInt32BE(this.#end - start + elsewhere, start);
  }

  #number16(value: number): void {
    this.#ensure(2);
    this.#bytes.writeUInt16BE(value, this.#end);
    this.#end += 2;
  }

  /** A text that ends with a zero. */
  #word(text: string): void {
    this.#ensure(text.length * MAX_BYTES + 1);
    this.#end += this.#bytes.write(text, this.#end);
    this.#bytes[this.#end] = 0;
    this.#end += 1;
  }

  #bytesOf(bytes: Uint8Array): void {
    this.#ensure(bytes.length);
    this.#bytes.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Texts need no word about their form. */
  #formats(values: readonly WireValue[]): void {
    if (!values.some(Buffer.isBuffer)) {
      this.#number16(0);
      return;
    }
    this.#number16(values.length);
    for (const value of values) this.#number16(Buffer.isBuffer(value) ? 1 : 0);
  }

  #value(value: WireValue): void {
    if (value === null) this.#number32(-1);
    else if (typeof value === 'string') {
      this.#ensure(4 + value.length * MAX_BYTES);
      const length = this.#bytes.write(value, this.#end + 4);
      this.#number32(length);
      this.#end += length;
    } else {
      this.#number32(value.length);
      if (value.length < LARGE_BYTES) this.#bytesOf(value);
      else {
        this.#large.push({ at: this.#end, bytes: value });
        this.#largeBytes += value.length;
      }
    }
  }

  #number32(value: number): void {
    this.#ensure(4);
    this.#bytes.writeInt32BE(value, this.#end);
    this.#end += 4;
  }
}

/** The large values, each where it belongs in the rest. */
function between(own: Buffer, large: readonly LargeValue[]): readonly Buffer[] {
  const pieces: Buffer[] = [];
  let from = 0;
  for (const { at, bytes } of large) {
    pieces.push(own.subarray(from, at), bytes);
    from = at;
  }
  pieces.push(own.subarray(from));
  return pieces;
}

const HEADER_BYTES = 5;
/** A length counts itself, and PostgreSQL sends nothing above a gigabyte. */
const MIN_LENGTH = 4;
const MAX_LENGTH = 1_073_741_824;

/** protocol_violation: the connection is of no use any more. */
const brokenMessage = (): Error =>
  Object.assign(new Error('The database sent what is no message'), { code: '08P01' });

/** Of errors and of notices. */
const FIELDS: ReadonlySet<number> = new Set([0x45, 0x4e]);

/**
 * Throws for an error or a notice that does not end: fields, each a letter and a text that ends with a zero, and a zero
 * after the last. The parser of the driver looks for that zero for ever.
 */
export function requireFields(type: number, bytes: Buffer, from: number, to: number): void {
  if (!FIELDS.has(type)) return;
  let at = from;
  while (at < to && bytes[at] !== 0) {
    const end = bytes.indexOf(0, at + 1);
    if (end < 0) throw brokenMessage();
    at = end + 1;
  }
  if (at >= to) throw brokenMessage();
}

/** Told of each whole message: its type, and where its content stands. */
export type OnMessage = (type: number, bytes: Buffer, from: number, to: number) => void;

/**
 * Cuts what a connection sends into messages. What is handed over may be used again by its owner: only the end of it is
 * kept, as a copy, in one piece of memory that is used again and again.
 */
export class MessageReader {
  readonly #onMessage: OnMessage;
  #memory = Buffer.alloc(0);
  /** Bytes of it that are kept: the beginning of a message. */
  #end = 0;
  /** Bytes without which there is nothing to look at. */
  #needed = 0;

  constructor(onMessage: OnMessage) {
    this.#onMessage = onMessage;
  }

  read(given: Buffer): void {
    let rest = given;
    while (this.#end > 0 && rest.length > 0) rest = this.#complete(rest);
    if (rest.length > 0) this.#cut(rest);
  }

  /** Adds what the kept message needs, and answers what follows that. */
  #complete(given: Buffer): Buffer {
    const added = Math.min(given.length, this.#needed - this.#end);
    this.#keep(given.subarray(0, added));
    if (this.#end === this.#needed) {
      const whole = this.#memory.subarray(0, this.#end);
      this.#end = 0;
      this.#cut(whole);
      if (this.#end === 0 && this.#memory.length > USUAL_BYTES) this.#memory = Buffer.alloc(0);
    }
    return given.subarray(added);
  }

  /** Tells of the whole messages, and keeps what follows them. */
  #cut(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      const missing = this.#missingAt(bytes, at);
      if (missing > 0) {
        this.#needed = bytes.length - at + missing;
        this.#keep(bytes.subarray(at));
        return;
      }
      const next = at + 1 + bytes.readUInt32BE(at + 1);
      this.#onMessage(bytes[at] ?? 0, bytes, at + HEADER_BYTES, next);
      at = next;
    }
  }

  #missingAt(bytes: Buffer, at: number): number {
    const there = bytes.length - at;
    if (there < HEADER_BYTES) return HEADER_BYTES - there;
    const length = bytes.readUInt32BE(at + 1);
    if (length < MIN_LENGTH || length > MAX_LENGTH) throw brokenMessage();
    return Math.max(0, 1 + length - there);
  }

  /** Adds to what is kept; a piece of the same memory may move to its beginning. */
  #keep(bytes: Buffer): void {
    const end = this.#end + bytes.length;
    if (end > this.#memory.length) {
      // As much as the message needs, but no more than twice what has come of it.
      const size = Math.max(USUAL_BYTES, end, Math.min(this.#needed, end * 2));
      const larger = Buffer.allocUnsafeSlow(size);
      this.#memory.copy(larger, 0, 0, this.#end);
      this.#memory = larger;
    }
    bytes.copy(this.#memory, this.#end);
    this.#end = end;
  }
}
