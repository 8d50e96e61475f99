/**
 * Statements on a connection that many share. PostgreSQL describes the columns of a prepared statement the first
 * time only: under one name they cannot change on a connection, a statement whose columns would change fails there
 * and is prepared under a new name (sql.ts).
 */
import pg from 'pg';

/** What of a result depends on the columns alone. */
interface Columns {
  readonly fields: unknown;
  readonly _parsers: unknown;
  readonly _prebuiltEmptyResultObject: unknown;
}

/** The parts of the driver's query that its types leave out. */
interface DriverQuery {
  name: string | undefined;
  readonly _result: Columns;
  _accumulateRows: boolean;
  submit(connection: pg.Connection): Error | null;
  prepare(connection: pg.Connection): void;
  handleRowDescription(message: unknown): void;
}

type OnAnswer = (error: Error | undefined | null, result: unknown) => void;

const DriverQuery = pg.Query as unknown as new (
  text: string,
  values: unknown[] | undefined,
  onAnswer: OnAnswer,
) => DriverQuery;

/** The stream of a connection, as far as statements use it. */
interface Wire {
  readonly writable: boolean;
  write(bytes: Buffer): boolean;
}

class SharedStatement extends DriverQuery {
  readonly #sender: StatementSender;

  constructor(
    { text, values, name }: pg.QueryConfig<unknown[]>,
    onAnswer: OnAnswer,
    sender: StatementSender,
  ) {
    super(text, values, onAnswer);
    this.name = name;
    this.#sender = sender;
  }

  override submit(): Error | null {
    return super.submit(this.#sender.describing);
  }

  override prepare(): void {
    const columns = this.name === undefined ? undefined : this.#sender.columns.get(this.name);
    if (columns) {
      Object.assign(this._result, columns);
      this._accumulateRows = true;
    }
    super.prepare(columns ? this.#sender.withoutDescribing : this.#sender.describing);
  }

  override handleRowDescription(message: unknown): void {
    super.handleRowDescription(message);
    const { fields, _parsers, _prebuiltEmptyResultObject } = this._result;
    if (this.name !== undefined)
      this.#sender.columns.set(this.name, { fields, _parsers, _prebuiltEmptyResultObject });
  }
}

/** So many statements at most are sent together: PostgreSQL begins with the first while the next are still being made. */
const SENT_TOGETHER = 4;

/**
 * Sends the statements of one connection. What one turn of the event loop asks is put together and written once: each
 * write is a system call, and each piece of one costs as well.
 */
export class StatementSender {
  /** By name of the prepared statement; as long as the connection, like the statements themselves. */
  readonly columns = new Map<string, Columns>();
  /** The driver's connection, whose messages wait here. */
  readonly describing: pg.Connection;
  /** The same, which asks for no description. */
  readonly withoutDescribing: pg.Connection;
  readonly #client: pg.Client;
  readonly #wire: Wire;
  #pieces: Buffer[] = [];
  #held = 0;

  /** Takes a client that is connected. */
  constructor(client: pg.Client) {
    this.#client = client;
    const { connection } = client as unknown as { readonly connection: pg.Connection };
    const wire = connection.stream as unknown as Wire;
    this.#wire = wire;
    const stream = {
      get writable(): boolean {
        return wire.writable;
      },
      write: (bytes: Buffer): boolean => {
        this.#pieces.push(bytes);
        return true;
      },
    };
    this.describing = Object.create(connection, { stream: { value: stream } });
    this.withoutDescribing = Object.create(this.describing, {
      describe: { value: () => undefined },
    });
  }

  /** Statements that wait to be written; below the most that are written together. */
  get held(): number {
    return this.#held;
  }

  /** Handed over ready-made: the driver copies a configuration object property by property, on each statement. */
  send(query: pg.QueryConfig<unknown[]>, onAnswer: OnAnswer): void {
    if (this.#held === 0) setImmediate(this.#release);
    this.#held += 1;
    this.#client.query(new SharedStatement(query, onAnswer, this));
    if (this.#held >= SENT_TOGETHER) this.release();
  }

  /** Writes what waits. */
  release(): void {
    this.#held = 0;
    if (this.#pieces.length === 0) return;
    const bytes = Buffer.concat(this.#pieces);
    this.#pieces = [];
    if (this.#wire.writable) this.#wire.write(bytes);
  }

  readonly #release = (): void => this.release();
}
