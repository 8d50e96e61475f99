/** The changelog: what happened to tuples, grants, definitions, roles and rules, in the order of all events. */
import type { EventPage, Events, PublishedEvent } from '../../../kernel/events/events.ts';
import { authorizationErrors } from '../errors.ts';
import { ownerRelation } from '../model/grammar.ts';

export interface ChangePage {
  readonly changes: readonly PublishedEvent[];
  /** Go on from here; it moves on also where nothing in between was about permissions. */
  readonly next: number;
  /** There may be more right now. */
  readonly more: boolean;
}

export interface Changes {
  /** Changes after a sequence: at most `limit`, and the rest of what one write did. Throws 409 when they are no longer kept. */
  after(sequence: number, limit: number): Promise<ChangePage>;
  position(): Promise<number>;
}

const prefix = 'authorization:';
/** Events that one request looks at. */
const pageSize = 1000;
const maxPages = 10;

export const createChanges = (events: Pick<Events, 'since' | 'position'>): Changes => ({
  async after(sequence, limit) {
    let page: ChangePage = { changes: [], next: sequence, more: true };
    for (let read = 0; read < maxPages && page.more && page.changes.length < limit; read += 1) {
      page = extended(page, await events.since(page.next, pageSize), limit);
    }
    return page;
  },
  position: () => events.position(),
});

/** The page with what comes next, up to `limit` changes. */
function extended(
  { changes, next }: ChangePage,
  found: EventPage | undefined,
  limit: number,
): ChangePage {
  if (!found) throw authorizationErrors.CHANGES_GONE();
  const end = found.events.at(-1);
  const all = [...changes];
  let last: PublishedEvent | undefined;
  for (const event of found.events) {
    if (all.length >= limit) break;
    all.push(...changesOf(event));
    last = event;
  }
  return { changes: all, next: last?.sequence ?? next, more: found.more || last !== end };
}

/** What an event says about permissions. That new records have an owner is said by the event about the records. */
function changesOf(event: PublishedEvent): readonly PublishedEvent[] {
  if (event.topic.startsWith(prefix)) return [event];
  const { schema, ids = [], payload, sequence, occurredAt, actor } = event;
  if (schema === undefined || typeof payload?.owner !== 'string') return [];
  const said = {
    ...{ subject: payload.owner, relation: ownerRelation },
    ...(payload.ownerStored !== true && { source: 'record' }),
  };
  return ids.map((id) => ({
    topic: `${prefix}create:relation`,
    ids: [id],
    payload: { ...said, resource: `${schema}:${id}` },
    sequence,
    occurredAt,
    actor,
  }));
}
