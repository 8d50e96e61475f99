/** The contract of the database: what the rest of the platform may ask of PostgreSQL. */

/**
 * How long a statement can take, which decides where it runs:
 * - `pooled`, unless another is declared: of unknown length. It has one of a bounded number of connections for itself.
 * - `short`: known to touch few rows by an index. Sent behind others on a shared connection; one that waits for a lock or
 *   runs longer than a short one may is stopped, undone by PostgreSQL, and run as a pooled one.
 * - `list`: known to find few rows and to read some of them: nearly as short, and sent in the same way on connections of their
 *   own, so that no short one waits behind it.
 * - `identity`: a short one of sessions and credentials, with connections of their own.
 * - `health`: asks whether the database answers, on a connection of its own.
 */
export type StatementClass = 'pooled' | 'short' | 'list' | 'identity' | 'health';

/** A parameterised statement. `name` makes it a prepared statement on each connection. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Stable name of the text (at most 63 bytes); switched off as a whole for poolers that cannot. */
  readonly name?: string;
  /** Where it runs outside of a transaction; `pooled` unless set. */
  readonly class?: StatementClass;
  /** Milliseconds after which a pooled statement is stopped (504), where that is sooner than the request's deadline. */
  readonly limitMs?: number;
  /**
   * Of a short change that may be committed in one transaction with those of other requests, and is sent again by itself
   * when one of them fails: the id of the row that it changes; empty when the row is new.
   */
  readonly changes?: string;
  /** It holds what one turn of the event loop has asked already: it is sent without waiting for the end of the turn. */
  readonly gathered?: boolean;
}

export interface QueryResult<R> {
  readonly rows: R[];
  /** Rows that the statement touched. */
  readonly count: number;
}

export type Row = Record<string, unknown>;

/** Something that runs statements: the pool, or a transaction. */
export interface Queryable {
  query<R = Row>(statement: Statement): Promise<QueryResult<R>>;
  /** Each statement is a part of the trace of the request that sends it: none works for several requests. */
  readonly isTraced?: true;
}

/** Work that waits for a commit. */
export type AfterCommit = () => void | Promise<void>;

export interface AfterCommitOptions {
  /**
   * Also where the connection was lost with the answer to the commit, so that nobody knows whether it was one: for what
   * does no harm then and must not be left out, such as forgetting what is remembered of the rows.
   */
  readonly alsoInDoubt?: boolean;
}

export interface Transaction extends Queryable {
  /** Work that must happen only if the transaction commits, such as waking the relay. Errors are logged. */
  afterCommit(work: AfterCommit, options?: AfterCommitOptions): void;
}

export interface TransactionOptions {
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  readonly readOnly?: boolean;
  /** Runs the work again on serialisation failures and deadlocks; 3 unless set. */
  readonly attempts?: number;
}

/** A statement that belongs to the first change of some work. */
export interface TransactionHook {
  /** False once it was taken, and when it is not requested any more. */
  isWaiting(): boolean;
  /** The statement; nothing when it cannot be made, then the work goes on without. It must leave a transaction alone that has written nothing (`pg_current_xact_id_if_assigned()`), and touch no row then. */
  take(): Statement | undefined;
  /** It was not written, or not for good: the next change takes it. */
  giveBack(): void;
}

export interface Database extends Queryable {
  /**
   * One statement, a transaction of its own, where its class says. Inside `transaction` of the same
   * asynchronous flow it joins that transaction. Throws 504 when the time of the request is over (then it
   * was not sent, or stopped and undone), 503 when it waited too long for its turn.
   */
  query<R = Row>(statement: Statement): Promise<QueryResult<R>>;
  /** Several statements as one. Nested calls join the outer transaction. */
  transaction<T>(
    work: (transaction: Transaction) => Promise<T>,
    options?: TransactionOptions,
  ): Promise<T>;
  /**
   * A part of the open transaction that may fail without taking the whole with it (a savepoint): what it did is
   * undone, and the error can be caught. Parts run one after the other. Outside of a transaction it is one.
   */
  part<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /**
   * A connection of its own outside of any transaction and without a time limit, for the few statements that
   * PostgreSQL takes in no other way (`create index concurrently`). Not for requests.
   */
  session<T>(work: (session: Queryable) => Promise<T>): Promise<T>;
  /**
   * Runs `work`; the first transaction of it that changes anything also runs the hook's statement, last, so that
   * both stand or fall together. A change that is one statement becomes a transaction for it.
   */
  withTransactionHook<T>(hook: TransactionHook, work: () => T): T;
  /** Runs `work` as if no transaction were open in this flow: for what must be committed before the rest goes on. */
  outside<T>(work: () => T): T;
  /** True inside `transaction` of this asynchronous flow: statements see what it has written and others have not. */
  inTransaction(): boolean;
  /** True where a change of this flow may be made in the transaction of others: none is open, and no hook waits for one. */
  standsAlone(): boolean;
  /** Runs after the ambient transaction commits, or at once (next tick) outside of one. */
  afterCommit(work: AfterCommit, options?: AfterCommitOptions): void;
  /** Runs `work` while holding a cluster-wide lock of that name. */
  withLock<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Cluster-wide lock without waiting: `undefined` when somebody else holds it. */
  tryLock<T>(name: string, work: () => Promise<T>): Promise<T | undefined>;
  /** Subscribes to a NOTIFY channel on the one listening connection, kept alive across losses. */
  listen(channel: string, onMessage: (payload: string) => void): Promise<void>;
  /** Called with false when the listening connection is lost and true when it is back. */
  onListening(listener: (connected: boolean) => void): void;
  /** Facts for health, metrics and the start banner. */
  info(): DatabaseInfo;
  /**
   * Ends every session of this process at the server: transactions are rolled back, statements that run store
   * nothing. Statements are refused with 503 from now on. Behind a pooler that hides sessions only the latter holds.
   */
  endSessions(): Promise<void>;
  close(): Promise<void>;
}

/** What waits for its turn in one class, and what has waited since the start of this process. */
export interface ClassFigures {
  readonly running: number;
  readonly waiting: number;
  /** How long the first of them has waited, in ms. */
  readonly oldestMs: number;
  readonly waits: number;
  /** All waits together, in ms. */
  readonly waitedMs: number;
  /** Whose turn did not come in time. */
  readonly refused: number;
}

export interface DatabaseInfo {
  readonly kind: 'embedded' | 'external';
  /** For example `18.4`. */
  readonly version: string;
  /** Where the data is: a folder, or host and database name without credentials. */
  readonly location: string;
  /** Why the server is away, when its owner knows; for operators. */
  readonly trouble?: string | undefined;
  /** True after `endSessions`. */
  readonly ended: boolean;
  readonly connections: { readonly total: number; readonly idle: number; readonly waiting: number };
  readonly classes: Readonly<Record<StatementClass | 'transactions', ClassFigures>>;
  /** Short statements that were stopped and run as pooled ones. */
  readonly moved: number;
}
