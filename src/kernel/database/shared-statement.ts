/**
 * Statements on a connection that many share. The driver opens the connection, keeps the order of what was sent and tells
 * of errors; the messages of statements are written and read here, because they are on the way of nearly every request.
 * PostgreSQL describes the columns of a prepared statement the first time only: under one name they cannot change on a
 * connection, a statement whose columns would change fails there and is prepared under a new name (sql.ts).
 */
import pg from 'pg';
import utils from 'pg/lib/utils.js';
import { isConnectionLoss } from './failures.ts';
import { MessageReader, MessageWriter, type WireValue } from './statement-messages.ts';

type Row = Record<string, unknown>;
type ParseText = (text: string) => unknown;

/** How the rows of a statement are read. */
interface Columns {
  readonly names: readonly string[];
  readonly parsers: readonly ParseText[];
  /** A row without values. */
  readonly empty: Row;
}

/** A name on one connection. */
interface Prepared {
  /** PostgreSQL has said that it is prepared. */
  confirmed: boolean;
  columns: Columns | undefined;
}

interface Description {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
}

/** What a statement answered. */
interface Answered {
  readonly rows: Row[];
  readonly rowCount: number | undefined;
}

export type OnAnswer = (error: Error | undefined | null, result: Answered | undefined) => void;

/** Another statement of the same transaction failed: this one has not happened, and can be sent again. */
export class UndoneError extends Error {}

class SharedStatement {
  readonly name: string;
  readonly #text: string;
  readonly #values: readonly WireValue[];
  readonly #onAnswer: OnAnswer;
  readonly #known: Map<string, Prepared>;
  /** Of its name, as it was when it was written. */
  prepared: Prepared | undefined;
  #rows: Row[] = [];
  #count: number | undefined;
  #failure: Error | undefined;

  /** Throws for values that cannot be written. */
  constructor(
    { text, values, name = '' }: pg.QueryConfig<unknown[]>,
    onAnswer: OnAnswer,
    known: Map<string, Prepared>,
  ) {
    this.name = name;
    this.#text = text;
    this.#values = values ? values.map(wireValue) : [];
    this.#onAnswer = onAnswer;
    this.#known = known;
  }

  write(writer: MessageWriter): void {
    const { name } = this;
    const known = this.#known.get(name);
    const prepared = known ?? { confirmed: false, columns: undefined };
    this.prepared = prepared;
    if (!known) {
      writer.parse(name, this.#text);
      if (name !== '') this.#known.set(name, prepared);
    }
    writer.run(name, this.#values, prepared.columns === undefined);
  }

  row(bytes: Buffer, from: number): void {
    const columns = this.prepared?.columns;
    if (this.#failure || !columns) return;
    try {
      this.#rows.push(readRow(columns, bytes, from));
    } catch (error) {
      this.#failure = error as Error;
    }
  }

  completed(count: number | undefined): void {
    this.#count = count;
  }

  /** What it did is committed. */
  done(): void {
    if (this.#failure) this.#onAnswer(this.#failure, undefined);
    else this.#onAnswer(null, { rows: this.#rows, rowCount: this.#count });
  }

  failed(error: Error): void {
    const { prepared, name } = this;
    if (prepared && !prepared.confirmed && this.#known.get(name) === prepared)
      this.#known.delete(name);
    this.#onAnswer(error, undefined);
  }
}

function wireValue(value: unknown): WireValue {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return null;
  return typeof value === 'object' ? utils.prepareValue(value) : String(value);
}

function readRow({ names, parsers, empty }: Columns, bytes: Buffer, from: number): Row {
  const row = { ...empty };
  // The number of columns, which is that of the description, comes first.
  let at = from + 2;
  for (let i = 0; i < names.length; i += 1) {
    const length = bytes.readInt32BE(at);
    at += 4;
    const [name, parse] = [names[i], parsers[i]];
    if (length < 0 || name === undefined || !parse) continue;
    row[name] = parse(bytes.toString('utf8', at, at + length));
    at += length;
  }
  return row;
}

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

/** The driver takes nothing but its own queries; what their constructor makes, ours do not need. */
class DriverForm {}
Object.setPrototypeOf(DriverForm.prototype, pg.Query.prototype);

/** Statements that are sent as one transaction, which is one query to the driver. */
class SharedTransaction extends DriverForm {
  readonly #statements: readonly SharedStatement[];
  readonly #writer: MessageWriter;
  readonly #columnsOf: (fields: Description['fields']) => Columns;
  /** How many have answered. */
  #answered = 0;

  constructor(
    statements: readonly SharedStatement[],
    writer: MessageWriter,
    columnsOf: (fields: Description['fields']) => Columns,
  ) {
    super();
    this.#statements = statements;
    this.#writer = writer;
    this.#columnsOf = columnsOf;
  }

  /** The one whose answer comes now. */
  get current(): SharedStatement | undefined {
    return this.#statements[this.#answered];
  }

  parsed(): void {
    const prepared = this.current?.prepared;
    if (prepared) prepared.confirmed = true;
  }

  completed(count: number | undefined): void {
    this.current?.completed(count);
    this.#answered += 1;
  }

  /* What the driver calls. */

  callback(error: Error): void {
    this.handleError(error);
  }

  submit(): null {
    for (const statement of this.#statements) statement.write(this.#writer);
    this.#writer.sync();
    return null;
  }

  handleRowDescription({ fields }: Description): void {
    const prepared = this.current?.prepared;
    if (prepared) prepared.columns = this.#columnsOf(fields);
  }

  handleEmptyQuery(): void {
    this.completed(undefined);
  }

  handleReadyForQuery(): void {
    for (const statement of this.#statements) statement.done();
  }

  /** PostgreSQL tells of an error once, and undoes all of them. When the connection is lost, nobody knows. */
  handleError(error: Error): void {
    const culprit = this.#statements.length === 1 ? this.#statements[0] : this.current;
    const isUndone = isRefusal(error);
    for (const statement of this.#statements)
      statement.failed(isUndone && statement !== culprit ? new UndoneError() : error);
  }
}

/** PostgreSQL refused a statement. What ends the connection may come after the commit. */
const isRefusal = (error: Error): boolean =>
  error instanceof pg.DatabaseError &&
  !isConnectionLoss(error) &&
  error.severity !== 'FATAL' &&
  error.severity !== 'PANIC';

/** The stream of a connection, as far as statements use it. */
interface Wire {
  readonly writable: boolean;
  write(bytes: Buffer): boolean;
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
    const bytes = this.#writer.take();
    if (bytes.length > 0 && this.#wire.writable) this.#wire.write(bytes);
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
    if (!(active instanceof SharedTransaction)) this.#pass(bytes, from, to);
    else if (type === ANSWERS.row) active.current?.row(bytes, from);
    else if (type === ANSWERS.completed) active.completed(countIn(bytes, from, to));
    else if (type === ANSWERS.ready) this.#driver.connection.emit('readyForQuery', ready);
    else if (type === ANSWERS.parsed) active.parsed();
    else if (type !== ANSWERS.bound) this.#pass(bytes, from, to);
  };

  #pass(bytes: Buffer, from: number, to: number): void {
    const message = Buffer.from(bytes.subarray(from - HEADER_BYTES, to));
    for (const listener of this.#toDriver) listener(message);
  }
}
