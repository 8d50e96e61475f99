/**
 * Statements on a connection that many share, and transactions of several of them (docs/decisions/318). PostgreSQL
 * describes the columns of a prepared statement the first time only: under one name they cannot change on a connection, a
 * statement whose columns would change fails there and is prepared under a new name (sql.ts).
 */
import pg from 'pg';
import utils from 'pg/lib/utils.js';
import { isConnectionLoss } from './failures.ts';
import type { MessageWriter, WireValue } from './statement-messages.ts';

type Row = Record<string, unknown>;
type ParseText = (text: string) => unknown;

/** How the rows of a statement are read. */
export interface Columns {
  readonly names: readonly string[];
  readonly parsers: readonly ParseText[];
  /** A row without values. */
  readonly empty: Row;
}

/** A name on one connection. */
export interface Prepared {
  /** PostgreSQL has said that it is prepared. */
  confirmed: boolean;
  columns: Columns | undefined;
}

export interface Description {
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

export class SharedStatement {
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

/** The driver takes nothing but its own queries; what their constructor makes, ours do not need. */
class DriverForm {}
Object.setPrototypeOf(DriverForm.prototype, pg.Query.prototype);

/** Statements that are sent as one transaction, which is one query to the driver. */
export class SharedTransaction extends DriverForm {
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
