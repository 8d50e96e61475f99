/** What events say of records, gathered by schema before it is asked whom it concerns. */
import type { PublishedEvent } from '../../../kernel/events/events.ts';

/**
 * Milliseconds in which changes are gathered before it is asked whom they concern: at least, and at most while a schema
 * changes all the time. In between it is so many times what the last look took, so that one look serves several writes.
 */
const GATHER_MS = 5;
const MAX_GATHER_MS = 50;
const LOOKS_PAUSE = 12;

/**
 * Of which schema there are other records now. Modules change records of theirs by SQL of their own, and tell it under topics
 * of their own: `storage:update:File`.
 */
export function changedRecords({
  topic,
  schema,
  operation,
}: PublishedEvent): { readonly schema: string; readonly hasEnded: boolean } | undefined {
  if (schema !== undefined)
    return operation === undefined ? undefined : { schema, hasEnded: operation === 'delete' };
  const [, what, about] = /^\w+:(\w+):([A-Z]\w*)$/.exec(topic) ?? [];
  return about === undefined ? undefined : { schema: about, hasEnded: what === 'delete' };
}

export interface Changes {
  readonly ids: Set<string>;
  /** When the first of them happened, in ms since 1970. */
  readonly since: number;
  /** Some of the records are gone. */
  hasEnded: boolean;
}

/** Changes of one schema, as they come in within a few milliseconds; the next ones wait until these have been looked at. */
export function createGathering(look: (schema: string, changes: Changes) => Promise<void>) {
  const bySchema = new Map<string, Changes>();
  /** When the next look may begin, on the clock of `performance.now()`; of schemas that are being looked at, never. */
  const nextLook = new Map<string, number>();
  const begin = (schema: string): void => {
    const now = performance.now();
    const wait = Math.max(GATHER_MS, (nextLook.get(schema) ?? 0) - now);
    nextLook.set(schema, Number.POSITIVE_INFINITY);
    setTimeout(async () => {
      const began = performance.now();
      const changes = bySchema.get(schema);
      bySchema.delete(schema);
      if (changes) await look(schema, changes);
      const ended = performance.now();
      nextLook.set(schema, ended + Math.min(MAX_GATHER_MS, LOOKS_PAUSE * (ended - began)));
      if (bySchema.has(schema)) begin(schema);
    }, wait);
  };
  return (
    schema: string,
    ids: readonly string[],
    { since, hasEnded }: Pick<Changes, 'since' | 'hasEnded'>,
  ): void => {
    const known = bySchema.get(schema) ?? { ids: new Set(), since, hasEnded };
    bySchema.set(schema, known);
    known.hasEnded ||= hasEnded;
    for (const id of ids) known.ids.add(id);
    if (nextLook.get(schema) !== Number.POSITIVE_INFINITY) begin(schema);
  };
}
