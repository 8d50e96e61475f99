/** The relations that went with a deleted record: events of the same transaction, beside the one about the record. */
import { LRUCache } from 'lru-cache';
import type { Events, PublishedEvent } from '../../kernel/events/events.ts';
import type { LostRelation } from '../../kernel/permissions.ts';
import type { Change } from './changes.ts';

/** Events before and after the one about the record that are looked at: what a single delete writes stands close together. */
const AROUND = 500;
/** Deletions whose surroundings are remembered, for all who listen. */
const REMEMBERED = 100;
const topic = /^authorization:delete:(relation|permission)$/;

export type FindLost = (change: Change) => Promise<readonly LostRelation[]>;

export function createLostRelations(events: Pick<Events, 'since'>): FindLost {
  const pages = new LRUCache<number, Promise<readonly PublishedEvent[]>>({ max: REMEMBERED });
  const around = async (sequence: number): Promise<readonly PublishedEvent[]> =>
    (await events.since(Math.max(0, sequence - AROUND), 2 * AROUND))?.events ?? [];
  return async ({ sequence, schema, documentId, occurredAt }) => {
    const known = pages.get(sequence) ?? around(sequence);
    pages.set(sequence, known);
    const resource = `${schema}:${documentId}`;
    // The moment is that of the transaction: what was revoked earlier has another one.
    return (await known)
      .filter((event) => topic.test(event.topic) && event.occurredAt === occurredAt)
      .flatMap(({ payload }) => (payload?.resource === resource ? [payload as unknown as LostRelation] : []));
  };
}
