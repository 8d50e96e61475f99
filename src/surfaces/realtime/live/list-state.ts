/** What the listeners of a list were told of it, and what a new reading changes about that. Texts are not kept, only digests. */
import { hash } from 'node:crypto';
import type { LiveRow, LiveTerm } from '../../../kernel/operations/live-read.ts';

/**
 * A list is brought up to date by doing these one after the other: take a removed record out, put an added one in at its
 * place, take a changed one out and put it in at its place.
 */
export type ListChange =
  | { readonly kind: 'removed'; readonly id: string }
  | {
      readonly kind: 'added' | 'changed';
      readonly id: string;
      /** Its place, from 0. */
      readonly index: number;
      /** The record as JSON. */
      readonly json: string;
    };

/** By what a record stands where it does: a value for each term of the order. */
type Place = readonly (string | number)[];

interface Known {
  readonly digest: string;
  /** Absent where it cannot be told from the record. */
  readonly place: Place | undefined;
}

/** Records that changed, and those of them that belong to the list as they are now. */
export interface OfferedRecords {
  readonly ids: readonly string[];
  readonly fitting: ReadonlyMap<string, string | undefined>;
}

/** Records that changed, as every list with an order shows them. */
export interface OfferedChange extends OfferedRecords {
  /** When they were asked for, on the clock of `performance.now()`. */
  readonly asked: number;
  /** When the first of it happened, in ms since 1970. */
  readonly since: number;
}

const digestOf = (json: string): string => hash('sha1', json, 'base64');
const byId: readonly LiveTerm[] = [{ field: '_id', kind: 'text', descending: false }];
/** Characters of an instant as records show it: `2026-01-31T12:00:00.000Z`. */
const INSTANT_LENGTH = 24;

export class ListState {
  readonly #terms: readonly LiveTerm[];
  #order: string[];
  #known: Map<string, Known>;

  /** `terms`: the order, unless it is that of the ids. */
  constructor(terms: readonly LiveTerm[] = byId, from?: ListState) {
    this.#terms = terms;
    this.#order = from ? [...from.#order] : [];
    this.#known = from ? new Map(from.#known) : new Map();
  }

  get size(): number {
    return this.#order.length;
  }

  has(id: string): boolean {
    return this.#known.has(id);
  }

  /** The list reads so now. */
  replace(rows: readonly LiveRow[]): readonly ListChange[] {
    const now = new Set(rows.map(({ id }) => id));
    const changes: ListChange[] = [];
    for (const id of this.#order) if (!now.has(id)) changes.push({ kind: 'removed', id });
    const order = this.#order.filter((id) => now.has(id));
    const known = new Map<string, Known>();
    for (const [index, { id, json }] of rows.entries()) {
      const before = this.#known.get(id);
      const digest = digestOf(json);
      const isSame = before?.digest === digest;
      known.set(id, isSame ? before : { digest, place: placeOf(this.#terms, id, json) });
      if (!before) {
        changes.push({ kind: 'added', id, index, json });
        order.splice(index, 0, id);
      } else if (!isSame || order[index] !== id) {
        changes.push({ kind: 'changed', id, index, json });
        order.splice(order.indexOf(id), 1);
        order.splice(index, 0, id);
      }
    }
    this.#order = order;
    this.#known = known;
    return changes;
  }

  /** These records were asked about, in a list in the order of the ids: those that are not among the rows do not belong to it. */
  update(ids: readonly string[], rows: readonly LiveRow[]): readonly ListChange[] {
    const fitting = new Map(rows.map((row) => [row.id, row.json]));
    return this.#put({ ids, fitting }, Number.POSITIVE_INFINITY) ?? [];
  }

  /**
   * The list with what changed, and the changes. Nothing where only a reading can say: of a list that is full nobody knows
   * who comes up when one goes or falls back to its end.
   */
  with(
    offered: OfferedRecords,
    limit: number,
  ): { readonly list: ListState; readonly changes: readonly ListChange[] } | undefined {
    const list = new ListState(this.#terms, this);
    const changes = list.#put(offered, limit);
    return changes && { list, changes };
  }

  #put({ ids, fitting }: OfferedRecords, limit: number): readonly ListChange[] | undefined {
    const changes: ListChange[] = [];
    for (const id of ids) {
      const json = fitting.get(id);
      if (json === undefined && fitting.has(id)) return undefined;
      const isFull = this.size >= limit;
      if (json !== undefined) {
        const told = this.#set(id, json, isFull);
        if (!told) return undefined;
        changes.push(...told);
      } else if (this.has(id)) {
        if (isFull) return undefined;
        this.#remove(id);
        changes.push({ kind: 'removed', id });
      }
    }
    return changes;
  }

  #set(id: string, json: string, isFull: boolean): readonly ListChange[] | undefined {
    const digest = digestOf(json);
    const before = this.#known.get(id);
    if (before?.digest === digest) return [];
    const place = placeOf(this.#terms, id, json);
    if (!place) return undefined;
    if (before) this.#order.splice(this.#order.indexOf(id), 1);
    const index = this.#indexOf(place);
    if (index === undefined) return undefined;
    const isLast = index === this.#order.length;
    if (isFull && isLast) {
      // Behind the last one, or perhaps behind others that the list does not hold.
      if (!before) return [];
      if (!before.place || compare(this.#terms, before.place, place) !== 0) return undefined;
    }
    const changes: ListChange[] = [];
    const last = isFull && !before ? this.#order.at(-1) : undefined;
    if (last !== undefined) {
      this.#remove(last);
      changes.push({ kind: 'removed', id: last });
    }
    this.#order.splice(index, 0, id);
    this.#known.set(id, { digest, place });
    return [...changes, { kind: before ? 'changed' : 'added', id, index, json }];
  }

  #remove(id: string): void {
    this.#known.delete(id);
    this.#order.splice(this.#order.indexOf(id), 1);
  }

  /** Where a record stands, or would stand; nothing where that of another one is not known. */
  #indexOf(place: Place): number | undefined {
    let [from, to] = [0, this.#order.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const other = this.#known.get(this.#order[middle] ?? '')?.place;
      if (!other) return undefined;
      if (compare(this.#terms, other, place) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

function compare(terms: readonly LiveTerm[], a: Place, b: Place): number {
  for (const [at, { descending }] of terms.entries()) {
    const [one, other] = [a[at] ?? 0, b[at] ?? 0];
    if (one !== other) return one < other === descending ? 1 : -1;
  }
  return 0;
}

/** Nothing for a record that has no value to stand by: null has a place that only the database gives. */
function placeOf(terms: readonly LiveTerm[], id: string, json: string): Place | undefined {
  if (terms.every(({ field }) => field === '_id')) return [id];
  const record = JSON.parse(json) as Readonly<Record<string, unknown>>;
  const place: (string | number)[] = [];
  for (const { field, kind } of terms) {
    const value = field === '_id' ? id : record[field];
    const isInstant = kind === 'text' && typeof value === 'string';
    if (isInstant && (field === '_id' || value.length === INSTANT_LENGTH)) place.push(value);
    else if (kind === 'number' && typeof value === 'number') place.push(value);
    else return undefined;
  }
  return place;
}

/** As listeners hear it. */
export function toldOf(change: ListChange) {
  if (change.kind === 'removed') return change;
  const { json, ...place } = change;
  return { ...place, record: JSON.parse(json) as unknown };
}

export const bytesOf = (changes: readonly ListChange[]): number =>
  changes.reduce((sum, change) => sum + (change.kind === 'removed' ? 0 : change.json.length), 64);
