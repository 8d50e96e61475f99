/**
 * Sends statements on a connection that many share. The driver opens the connection, keeps the order of what was sent and
 * tells of errors; the messages of statements are written and read here, because they are on the way of nearly every request.
 */
import type pg from 'pg';
import {
  type Columns,
  type Description,
  type OnAnswer,
  type Prepared,
  SharedStatement,
  SharedTransaction,
} from './shared-statement.ts';
import { MessageReader, MessageWriter, requireFields } from './statement-messages.ts';

const [ZERO, NINE] = [0x30, 0x39];

/** The number at the end of `INSERT 0 1`, which a zero byte follows. */
function countIn(bytes: Buffer, from: number, to: number): number | undefined {
  let [count, factor] = [0, 1];
  for (let at = to - 2; at >= from; at -= 1) {
    const digit = bytes[at] ?? 0;
    if (digit < ZERO || digit > NINE) break;
    count += (digit - ZERO) * factor;
    factor *= 10;
  }
  return factor === 1 ? undefined : count;
}

/** The stream of a connection, as far as statements use it. */
interface Wire {
  readonly writable: boolean;
  write(bytes: Buffer): boolean;
  /** Between these, what is written is one system call. */
  cork(): void;
  uncork(): void;
  destroy(error: Error): void;
  listeners(event: 'data'): readonly ((bytes: Buffer) => void)[];
  on(event: 'data' | 'bytes', listener: (bytes: Buffer) => void): unknown;
  off(event: 'data', listener: (bytes: Buffer) => void): unknown;
}

/** The driver's client, as far as its types leave it out. */
interface DriverClient {
  readonly connection: pg.Connection;
  /** Whose answer comes now. */
  readonly _activeQuery: unknown;
}

/** So many statements at most are sent together: PostgreSQL begins with the first while the next are still being made. */
const SENT_TOGETHER = 4;

const HEADER_BYTES = 5;
/** Types of messages (PostgreSQL manual, "Message Formats"). */
const ANSWERS = { parsed: 0x31, bound: 0x32, completed: 0x43, row: 0x44, ready: 0x5a } as const;
const ready = { name: 'readyForQuery', length: 5, status: 'I' } as const;

/**
 * Sends the statements of one connection. What one turn of the event loop asks is put together and written once: each
 * write is a system call. Those that may be are one transaction as well, so that they are committed, and answered, together.
 */
export class StatementSender {
  readonly #known = new Map<string, Prepared>();
  readonly #writer = new MessageWriter();
  readonly #client: pg.Client;
  readonly #driver: DriverClient;
  readonly #wire: Wire;
  readonly #toDriver: readonly ((bytes: Buffer) => void)[];
  /** Will be one transaction. */
  #together: SharedStatement[] = [];
  #held = 0;

  /** Takes a client that is connected. */
  constructor(client: pg.Client) {
    this.#client = client;
    this.#driver = client as unknown as DriverClient;
    const wire = this.#driver.connection.stream as unknown as Wire;
    this.#wire = wire;
    this.#toDriver = wire.listeners('data');
    const reader = new MessageReader(this.#onMessage);
    const read = (bytes: Buffer): void => {
      try {
        reader.read(bytes);
      } catch (error) {
        wire.destroy(error as Error);
      }
    };
    wire.on('data', read);
    wire.on('bytes', read);
    for (const listener of this.#toDriver) wire.off('data', listener);
  }

  /** Statements that wait to be written; below the most that are written together. */
  get held(): number {
    return this.#held;
  }

  /** `together`: it may be one transaction with others of the same turn, and fail with an `UndoneError` because of them. */
  send(query: pg.QueryConfig<unknown[]>, onAnswer: OnAnswer, together: boolean): void {
    const statement = new SharedStatement(query, onAnswer, this.#known);
    if (this.#held === 0) setImmediate(this.#release);
    this.#held += 1;
    if (together) this.#together.push(statement);
    else this.#submit([statement]);
    if (this.#held >= SENT_TOGETHER) this.release();
  }

  /** Writes what waits. */
  release(): void {
    this.#held = 0;
    if (this.#together.length > 0) {
      this.#submit(this.#together);
      this.#together = [];
    }
    const pieces = this.#writer.take();
    if (pieces.length === 0 || !this.#wire.writable) return;
    if (pieces.length > 1) this.#wire.cork();
    for (const bytes of pieces) this.#wire.write(bytes);
    if (pieces.length > 1) this.#wire.uncork();
  }

  readonly #release = (): void => this.release();

  #submit(statements: readonly SharedStatement[]): void {
    const transaction = new SharedTransaction(statements, this.#writer, this.#columnsOf);
    this.#client.query(transaction as unknown as pg.Query);
  }

  readonly #columnsOf = (fields: Description['fields']): Columns => {
    const names = fields.map(({ name }) => name);
    return {
      names,
      parsers: fields.map(({ dataTypeID }) => this.#client.getTypeParser(dataTypeID, 'text')),
      empty: Object.fromEntries(names.map((name) => [name, null])),
    };
  };

  /** What statements that go well bring is read here, all else by the driver. */
  readonly #onMessage = (type: number, bytes: Buffer, from: number, to: number): void => {
    const active = this.#driver._activeQuery;
    if (!(active instanceof SharedTransaction)) this.#pass(type, bytes, from, to);
    else if (type === ANSWERS.row) active.current?.row(bytes, from);
    else if (type === ANSWERS.completed) active.completed(countIn(bytes, from, to));
    else if (type === ANSWERS.ready) this.#driver.connection.emit('readyForQuery', ready);
    else if (type === ANSWERS.parsed) active.parsed();
    else if (type !== ANSWERS.bound) this.#pass(type, bytes, from, to);
  };

  #pass(type: number, bytes: Buffer, from: number, to: number): void {
    requireFields(type, bytes, from, to);
    const message = Buffer.from(bytes.subarray(from - HEADER_BYTES, to));
    for (const listener of this.#toDriver) listener(message);
  }
}
