/**
 * The audit log: who did what, when, from where, and whether it worked. Rows are
 * only ever added; PostgreSQL itself refuses to change one, and only the purge of
 * what is older than the configured time may take rows away.
 */
import type { Caller } from '../caller.ts';

/** `refused`: not allowed or not valid (4xx). `failed`: the platform could not (5xx). */
export type AuditOutcome = 'success' | 'refused' | 'failed';

/** What one row says. Values are redacted when they are written; pass no secret all the same. */
export interface AuditEntry {
  readonly caller: Caller;
  /** Stable dotted name: the id of the operation, or of the security event (`authentication.login`). */
  readonly action: string;
  /** What it was done to: `<kind>:<id>`, or the path parameters of the operation. */
  readonly target?: string;
  readonly outcome: AuditOutcome;
  /** HTTP status, where there was an answer. */
  readonly status?: number;
  readonly address?: string;
  readonly userAgent?: string;
  readonly requestId?: string;
  /** What was sent or changed. */
  readonly changes?: unknown;
  /**
   * The modules that it says something about: whoever is narrowed to modules reads it with all of them alone. `null`: more
   * than modules can say. The first word of the action, unless it is said.
   */
  readonly modules?: readonly string[] | null;
}

/** A row as it is read. */
export interface AuditRecord {
  /** Rising number, as text (64 bits). */
  readonly id: string;
  readonly at: Date;
  readonly actor: {
    readonly type: Caller['kind'];
    readonly id: string | null;
    readonly name: string | null;
    readonly tokenPrefix: string | null;
    /** The admin who acts as this user. */
    readonly impersonatedBy: string | null;
  };
  readonly ip: string | null;
  readonly userAgent: string | null;
  readonly requestId: string | null;
  readonly action: string;
  readonly target: string | null;
  readonly outcome: AuditOutcome;
  readonly status: number | null;
  readonly changes: unknown;
}

/** Every part narrows; `action` and `target` match the beginning. */
export interface AuditFilter {
  readonly actor?: string;
  readonly action?: string;
  readonly target?: string;
  readonly outcome?: AuditOutcome;
  readonly from?: Date;
  readonly to?: Date;
  /** Only what is about no other modules than these. */
  readonly modules?: readonly string[];
}

/** The row of `recordWith`. */
export interface AccompanyingRow {
  isWritten(): boolean;
  /** From now on no change takes it along. */
  end(): void;
}

export interface Audit {
  /** Adds a row; joins the ambient transaction, so that the row stands exactly when the change does. */
  record(entry: AuditEntry): Promise<void>;
  /**
   * Runs `work` so that the row is written with the first change that it makes, by the same transaction: neither is
   * there without the other, whatever happens to this process.
   */
  recordWith<T>(
    entry: () => AuditEntry | undefined,
    work: (row: AccompanyingRow) => Promise<T>,
  ): Promise<T>;
  /** Adds a row a moment later, together with others; what waits when the process dies is lost. */
  recordLater(entry: AuditEntry): void;
  /** Writes what waits to be written. */
  flush(): Promise<void>;
  /** Newest first. */
  list(
    filter: AuditFilter,
    page: { readonly skip: number; readonly limit: number },
  ): Promise<readonly AuditRecord[]>;
  count(filter: AuditFilter): Promise<number>;
  /** All rows of the filter, oldest first, in batches: for exports of any length. */
  read(filter: AuditFilter): AsyncIterable<AuditRecord>;
  /**
   * Rows from before this moment are all there: those to come are of changes that have begun since. `undefined` where the
   * server does not say when its transactions have begun.
   */
  completeUntil(): Promise<Date | undefined>;
  /** Takes away what is older than so many days; answers how many rows. */
  purge(days: number): Promise<number>;
}
