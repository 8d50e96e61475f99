/** What is known of a deleted record: its event, and the relations that went with it: events of the same transaction, beside that one. */
import { LRUCache } from 'lru-cache';
import type { Events, PublishedEvent } from '../../kernel/events/events.ts';
import type { GoneRecord, LostRelation } from '../../kernel/permissions.ts';
import type { Change } from './changes.ts';

/** Events that are looked at in one direction, at once and at most: what a single delete writes stands close together. */
const AROUND = 500;
const MAX_AROUND = 20_000;
/** Deletions whose surroundings are remembered, for all who listen. */
const REMEMBERED = 100;
const topic = /^authorization:delete:(relation|permission)$/;

export type FindGone = (change: Change) => Promise<GoneRecord>;

/** Of the transaction of a deletion. */
interface Surroundings {
  readonly event: PublishedEvent | undefined;
  /** By the object that they were about; absent where not all of them could be found. */
  readonly lost: ReadonlyMap<string, readonly LostRelation[]> | undefined;
}

export function createGoneRecords(events: Pick<Events, 'since'>): FindGone {
  const known = new LRUCache<number, Promise<Surroundings>>({ max: REMEMBERED });
  return async (change) => {
    const { sequence, schema, documentId } = change;
    const found = known.get(sequence) ?? surroundingsOf(events, change);
    known.set(sequence, found);
    // Who asks again must not get the same failure.
    found.catch(() => known.delete(sequence));
    const { event, lost } = await found;
    const owners = event?.payload?.owners as Readonly<Record<string, string | null>> | undefined;
    return {
      relations: lost && lostWith(lost, `${schema}:${documentId}`),
      owner: owners?.[documentId] ?? undefined,
    };
  };
}

/** What was written about an object, and about what that leads to, as far as it went at the same time. */
function lostWith(
  lost: ReadonlyMap<string, readonly LostRelation[]>,
  resource: string,
): readonly LostRelation[] {
  const relations = new Map([[resource, lost.get(resource) ?? []]]);
  for (const found of relations.values())
    for (const { subject } of found) {
      const [object = ''] = subject.split('#');
      if (!relations.has(object)) relations.set(object, lost.get(object) ?? []);
    }
  return [...relations.values()].flat();
}

async function surroundingsOf(
  events: Pick<Events, 'since'>,
  { sequence, occurredAt }: Change,
): Promise<Surroundings> {
  // The moment is that of the transaction: what was revoked earlier has another one.
  const isOfIt = (event: PublishedEvent): boolean => event.occurredAt === occurredAt;
  const own: PublishedEvent[] = [];
  /** False where the transaction does not end within what is looked at. */
  const look = async (from: (looked: number) => number): Promise<boolean> => {
    for (let looked = 0; looked < MAX_AROUND; looked += AROUND) {
      const start = Math.max(0, from(looked));
      const page = await stretch(events, start, AROUND);
      own.push(...page.filter(isOfIt));
      if (page.length < AROUND || !page.some(isOfIt)) return true;
    }
    return false;
  };
  const behind = await look((looked) => sequence - 1 + looked);
  const before = await look((looked) => sequence - 1 - AROUND - looked);
  const relations = own.filter((event) => topic.test(event.topic));
  const event = own.find((one) => one.sequence === sequence);
  return {
    event,
    lost:
      event && behind && before
        ? Map.groupBy(
            relations.map(({ payload }) => payload as unknown as LostRelation),
            ({ resource }) => resource,
          )
        : undefined,
  };
}

/** So many events after a sequence, however large they are. */
async function stretch(
  events: Pick<Events, 'since'>,
  after: number,
  count: number,
): Promise<readonly PublishedEvent[]> {
  const found: PublishedEvent[] = [];
  for (let from = after; from < after + count; ) {
    const page = await events.since(from, after + count - from);
    const last = page?.events.at(-1);
    if (!page || !last) break;
    found.push(...page.events);
    from = last.sequence;
  }
  return found;
}
