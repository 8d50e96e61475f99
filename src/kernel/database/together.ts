/** Which statements may be one transaction with those of other requests (docs/decisions/318). */
import type { Statement } from './database.ts';

/**
 * Which statements go to one connection, as one transaction, with what else one turn of the event loop asks:
 * - `all`: for statements that read
 * - `declared`: those that say which row they change
 * - `none`: each is a transaction of its own, on the connection that has least to do
 */
export type Together = 'all' | 'declared' | 'none';

/** Rows that are being changed at this moment. */
class ChangedRows {
  readonly #counts = new Map<string, number>();

  has(row: string): boolean {
    return this.#counts.has(row);
  }

  enter(row: string | undefined): void {
    if (row) this.#counts.set(row, (this.#counts.get(row) ?? 0) + 1);
  }

  leave(row: string | undefined): void {
    if (!row) return;
    const left = (this.#counts.get(row) ?? 1) - 1;
    if (left > 0) this.#counts.set(row, left);
    else this.#counts.delete(row);
  }
}

/** Milliseconds in which a statement that has failed is sent by itself, so that it undoes nothing of others. */
const FAILING_MS = 1_000;
/** Statements without a name are told apart by their text. */
const MAX_FAILING = 200;

class FailingStatements {
  readonly #until = new Map<string, number>();

  note({ name, text }: Statement): void {
    if (this.#until.size >= MAX_FAILING) this.#until.clear();
    this.#until.set(name ?? text, performance.now() + FAILING_MS);
  }

  has({ name, text }: Statement): boolean {
    if (this.#until.size === 0) return false;
    const until = this.#until.get(name ?? text);
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#until.delete(name ?? text);
    return false;
  }
}

/** Decides it for the statements of one kind of connections. */
export class TogetherRules {
  readonly #which: Together;
  readonly #rows = new ChangedRows();
  readonly #failing = new FailingStatements();

  constructor(which: Together) {
    this.#which = which;
  }

  /** Two that change one row never wait for each other inside of such transactions: the second one is sent by itself. */
  permits(statement: Statement): boolean {
    if (this.#which === 'none' || this.#failing.has(statement)) return false;
    const { changes } = statement;
    return this.#which === 'all' || (changes !== undefined && !this.#rows.has(changes));
  }

  sent({ changes }: Statement): void {
    this.#rows.enter(changes);
  }

  answered({ changes }: Statement): void {
    this.#rows.leave(changes);
  }

  /** It failed, and others with it. */
  failed(statement: Statement): void {
    this.#failing.note(statement);
  }
}
