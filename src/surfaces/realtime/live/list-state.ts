/** What the listeners of a list were told of it, and what a new reading changes about that. Texts are not kept, only digests. */
import { hash } from 'node:crypto';
import type { LiveRow } from '../../../kernel/operations/live-read.ts';

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

const digestOf = (json: string): string => hash('sha1', json, 'base64');

export class ListState {
  #order: string[] = [];
  #digests = new Map<string, string>();

  get size(): number {
    return this.#order.length;
  }

  has(id: string): boolean {
    return this.#digests.has(id);
  }

  /** The list reads so now. */
  replace(rows: readonly LiveRow[]): readonly ListChange[] {
    const now = new Set(rows.map(({ id }) => id));
    const changes: ListChange[] = [];
    for (const id of this.#order) if (!now.has(id)) changes.push({ kind: 'removed', id });
    const order = this.#order.filter((id) => now.has(id));
    const digests = new Map<string, string>();
    for (const [index, { id, json }] of rows.entries()) {
      const digest = digestOf(json);
      digests.set(id, digest);
      const known = this.#digests.get(id);
      if (known === undefined) {
        changes.push({ kind: 'added', id, index, json });
        order.splice(index, 0, id);
      } else if (known !== digest || order[index] !== id) {
        changes.push({ kind: 'changed', id, index, json });
        order.splice(order.indexOf(id), 1);
        order.splice(index, 0, id);
      }
    }
    this.#order = order;
    this.#digests = digests;
    return changes;
  }

  /** These records were asked about, in a list in the order of the ids: those that are not among the rows do not belong to it. */
  update(ids: readonly string[], rows: readonly LiveRow[]): readonly ListChange[] {
    const now = new Map(rows.map((row) => [row.id, row.json]));
    const changes: ListChange[] = [];
    for (const id of ids) {
      const json = now.get(id);
      const change = json === undefined ? this.#remove(id) : this.#put(id, json);
      if (change) changes.push(change);
    }
    return changes;
  }

  #remove(id: string): ListChange | undefined {
    if (!this.#digests.delete(id)) return undefined;
    this.#order.splice(this.#place(id), 1);
    return { kind: 'removed', id };
  }

  #put(id: string, json: string): ListChange | undefined {
    const digest = digestOf(json);
    const known = this.#digests.get(id);
    if (known === digest) return undefined;
    this.#digests.set(id, digest);
    const index = this.#place(id);
    if (known !== undefined) return { kind: 'changed', id, index, json };
    this.#order.splice(index, 0, id);
    return { kind: 'added', id, index, json };
  }

  /** Where an id stands, or would stand. */
  #place(id: string): number {
    let [from, to] = [0, this.#order.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#order[middle] ?? '') < id) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
