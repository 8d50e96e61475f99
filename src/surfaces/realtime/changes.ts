/** Hands record changes to the subscriptions of this node, live and from the past. */
import type { Events, PublishedEvent } from '../../kernel/events/events.ts';

/** What subscribers get (spec/database.md 1.4): what changed, never its content. */
export interface Change {
  readonly version: 1;
  readonly operation: 'insert' | 'update' | 'delete';
  readonly schema: string;
  readonly documentId: string;
  readonly occurredAt: string;
  /** Resume with `since` set to the last one seen. */
  readonly sequence: number;
}

export interface Subscription {
  readonly schema: string;
  /** One record, or all of the schema. */
  readonly documentId: string | undefined;
  /** Decides anew for each change whether it may be delivered; must not throw. */
  readonly admit: (change: Change) => boolean | Promise<boolean>;
  readonly send: (change: Change) => void;
}

export interface ChangeHub {
  /** From now on `subscription` gets live changes. Answers how to take it away. */
  add(subscription: Subscription): () => void;
  /**
   * Adds it after everything that was published since `sequence`. `undefined` instead of the removal
   * when that is no longer kept or too much: the reader must load the records anew; nothing was added then.
   */
  resume(subscription: Subscription, sequence: number): Promise<(() => void) | undefined>;
  deliver(event: PublishedEvent): Promise<void>;
  /** Subscriptions at this moment. */
  count(): number;
}

interface Entry {
  readonly subscription: Subscription;
  /** Changes up to this sequence were delivered by `resume`. */
  replayedTo: number;
  /** Live changes that wait for the past to be delivered. */
  held: Change[] | undefined;
}

/** Events of one read from the past, and reads of one resumption. */
const pageSize = 500;
const maxPages = 20;

export function createChangeHub(events: Pick<Events, 'since'>): ChangeHub {
  const bySchema = new Map<string, Set<Entry>>();

  const enter = (entry: Entry): (() => void) => {
    const { schema } = entry.subscription;
    const entries = bySchema.get(schema) ?? new Set();
    bySchema.set(schema, entries.add(entry));
    return () => {
      entries.delete(entry);
      if (entries.size === 0 && bySchema.get(schema) === entries) bySchema.delete(schema);
    };
  };

  const offer = async (entry: Entry, change: Change): Promise<void> => {
    if (change.sequence <= entry.replayedTo) return;
    if (entry.held) entry.held.push(change);
    else await pass(entry.subscription, change);
  };

  /** Sends what came in meanwhile, in order, until nothing waits any more. */
  const release = async (entry: Entry): Promise<void> => {
    for (let next = entry.held?.shift(); next; next = entry.held?.shift()) {
      if (next.sequence > entry.replayedTo) await pass(entry.subscription, next);
    }
    entry.held = undefined;
  };

  /** Sends the past; false when it is not whole. */
  const replay = async (entry: Entry, since: number): Promise<boolean> => {
    let page = await firstPage(events, since);
    for (let pages = 1; page !== undefined && pages <= maxPages; pages += 1) {
      for (const change of page.flatMap(changesOf)) {
        if (matches(entry.subscription, change)) await pass(entry.subscription, change);
      }
      entry.replayedTo = page.at(-1)?.sequence ?? Math.max(entry.replayedTo, since);
      if (page.length < pageSize) return true;
      page = await events.since(entry.replayedTo, pageSize);
    }
    return false;
  };

  return {
    add: (subscription) => enter({ subscription, replayedTo: 0, held: undefined }),
    async resume(subscription, sequence) {
      const entry: Entry = { subscription, replayedTo: 0, held: [] };
      const leave = enter(entry);
      if (!(await replay(entry, sequence))) {
        leave();
        return undefined;
      }
      await release(entry);
      return leave;
    },
    async deliver(event) {
      const entries = event.schema === undefined ? undefined : bySchema.get(event.schema);
      if (!entries) return;
      for (const change of changesOf(event)) {
        const interested = [...entries].filter((entry) => matches(entry.subscription, change));
        await Promise.all(interested.map((entry) => offer(entry, change)));
      }
    },
    count: () => [...bySchema.values()].reduce((sum, { size }) => sum + size, 0),
  };
}

async function pass({ admit, send }: Subscription, change: Change): Promise<void> {
  const admitted = admit(change);
  if (admitted instanceof Promise ? await admitted : admitted) send(change);
}

const matches = ({ schema, documentId }: Subscription, change: Change): boolean =>
  schema === change.schema && (documentId === undefined || documentId === change.documentId);

/** One change per record; events that are not about records give none. */
function changesOf({ schema, ids, operation, occurredAt, sequence }: PublishedEvent): readonly Change[] {
  if (schema === undefined || operation === undefined) return [];
  return (ids ?? []).map((documentId) => ({ version: 1, operation, schema, documentId, occurredAt, sequence }));
}

/**
 * The events after `since`, and the one at `since` itself when it is about several records: the
 * connection may have been lost in the middle of them.
 */
async function firstPage(events: Pick<Events, 'since'>, since: number): Promise<readonly PublishedEvent[] | undefined> {
  const inclusive = since > 0 ? await events.since(since - 1, pageSize + 1) : undefined;
  if (!inclusive) return events.since(since, pageSize);
  const [first, ...rest] = inclusive;
  return first?.sequence === since && (first.ids?.length ?? 0) < 2 ? rest : inclusive;
}
