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
interface DriverQuery extends pg.Submittable {
  name: string | undefined;
  readonly _result: Columns;
  _accumulateRows: boolean;
  prepare(connection: pg.Connection): void;
  handleRowDescription(message: unknown): void;
}

type OnAnswer = (error: Error | undefined | null, result: unknown) => void;

const DriverQuery = pg.Query as unknown as new (
  text: string,
  values: unknown[] | undefined,
  onAnswer: OnAnswer,
) => DriverQuery;

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

  override prepare(connection: pg.Connection): void {
    const columns = this.name === undefined ? undefined : this.#sender.columns.get(this.name);
    if (columns) {
      Object.assign(this._result, columns);
      this._accumulateRows = true;
    }
    super.prepare(columns ? this.#sender.withoutDescribing : connection);
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

/** Sends the statements of one connection. What one turn of the event loop asks is written together: each write is a system call. */
export class StatementSender {
  /** By name of the prepared statement; as long as the connection, like the statements themselves. */
  readonly columns = new Map<string, Columns>();
  /** The driver's connection, which asks for no description. */
  readonly withoutDescribing: pg.Connection;
  readonly #client: pg.Client;
  readonly #connection: pg.Connection;
  #held = 0;

  /** Takes a client that is connected. */
  constructor(client: pg.Client) {
    this.#client = client;
    this.#connection = (client as unknown as { readonly connection: pg.Connection }).connection;
    this.withoutDescribing = Object.create(this.#connection, {
      describe: { value: () => undefined },
    });
  }

  /** Handed over ready-made: the driver copies a configuration object property by property, on each statement. */
  send(query: pg.QueryConfig<unknown[]>, onAnswer: OnAnswer): void {
    if (this.#held === 0) {
      this.#connection.stream.cork();
      setImmediate(this.#release);
    }
    this.#held += 1;
    this.#client.query(new SharedStatement(query, onAnswer, this));
    if (this.#held >= SENT_TOGETHER) this.#release();
  }

  readonly #release = (): void => {
    if (this.#held === 0) return;
    this.#held = 0;
    this.#connection.stream.uncork();
  };
}
