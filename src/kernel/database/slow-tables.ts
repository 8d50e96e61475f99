/**
 * Tables whose short statements have turned out not to be short: somebody holds a lock, or the
 * table is slow. Until one of them is fast again, theirs run on connections of their own.
 */
import type { Statement } from './database.ts';
import { statementKind } from './statement-timings.ts';

/* Which table a statement is about: what cannot be used there (locked, slow) must not hold up others. */

/** Names of prepared statements whose tables are remembered. */
const MAX_NAMES = 5_000;

const byName = new Map<string, string>();

/** `app.Post`; empty for a statement about no table of a named schema. */
export function tableOf({ name, text }: Statement): string {
  if (name === undefined) return statementKind(text).table;
  const known = byName.get(name);
  if (known !== undefined) return known;
  // Names go with the schemas that they were made for.
  if (byName.size >= MAX_NAMES) byName.clear();
  const { table } = statementKind(text);
  byName.set(name, table);
  return table;
}

/** A table is kept apart for at least this many ms after something took long. */
const APART_MS = 1_000;
/** Above this many ms a statement is not short. */
const LONG_MS = 50;

interface Mark {
  until: number;
  running: number;
}

export class SlowTables {
  readonly #marks = new Map<string, Mark>();

  get size(): number {
    return this.#marks.size;
  }

  /** A statement was stopped because it took too long. */
  mark(table: string): void {
    const until = performance.now() + APART_MS;
    const mark = this.#marks.get(table);
    if (mark) mark.until = until;
    else this.#marks.set(table, { until, running: 0 });
  }

  isSlow(table: string): boolean {
    const mark = this.#marks.get(table);
    if (!mark) return false;
    if (mark.running > 0 || performance.now() < mark.until) return true;
    this.#marks.delete(table);
    return false;
  }

  /** Runs a statement of a table that is kept apart. `run` answers how long it ran, without its queue. */
  async apart<T>(table: string, run: (ran: (ms: number) => void) => Promise<T>): Promise<T> {
    let took = Number.POSITIVE_INFINITY;
    const mark = this.#marks.get(table);
    if (mark) mark.running += 1;
    try {
      return await run((ms) => {
        took = ms;
      });
    } finally {
      if (mark) this.#settle(table, mark, took);
    }
  }

  #settle(table: string, mark: Mark, took: number): void {
    mark.running -= 1;
    const now = performance.now();
    if (took > LONG_MS) mark.until = now + APART_MS;
    else if (now >= mark.until && this.#marks.get(table) === mark) this.#marks.delete(table);
  }
}
