/** Hands record changes to the subscriptions of this node, live and from the past. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventPage, Events, PublishedEvent } from '../../kernel/events/events.ts';

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
  /** Ends the subscription if it may not go on, without a change to deliver; must not throw. */
  readonly recheck: () => Promise<void>;
  readonly send: (change: Change) => void;
  /** Changes were missed for good: whoever listens has to load their records anew. */
  readonly lost: () => void;
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
  /** Asks of every subscription to these schemas whether it may go on: what a schema offers has changed. */
  recheck(schemas: readonly string[]): Promise<void>;
  /** Changes were missed for good. */
  missed(): void;
  /** Subscriptions at this moment. */
  count(): number;
}

interface Entry {
  readonly subscription: Subscription;
  /** Changes up to this sequence were delivered by `resume`. */
  replayedTo: number;
  /** Live changes that wait for the past to be delivered. */
  held: Change[] | undefined;
  /** More of them came than are held. */
  overrun: boolean;
}

/** Events of one read from the past, and changes of one resumption. */
const pageSize = 500;
const maxReplayed = 20_000;
/** Live changes that one resumption holds back; whoever is slower than that loads the records anew. */
const maxHeld = 10_000;
/** Changes after which other work and the network have their turn: an event may be about a thousand records. */
const changesPerTurn = 100;

type Dependencies = Pick<Events, 'since'>;

export function createChangeHub(events: Dependencies): ChangeHub {
  const bySchema = new Map<string, Set<Entry>>();
  const live = createTurns();

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
    if (!entry.held) await pass(entry.subscription, change);
    else if (entry.held.length < maxHeld) entry.held.push(change);
    else entry.overrun = true;
  };

  /** Sends what came in meanwhile, in order, until nothing waits any more; false when some of it was not held. */
  const release = async (entry: Entry): Promise<boolean> => {
    const turns = createTurns();
    while (entry.held && entry.held.length > 0) {
      for (const next of entry.held.splice(0)) {
        if (next.sequence > entry.replayedTo) await pass(entry.subscription, next);
        await turns.after(1);
      }
    }
    entry.held = undefined;
    return !entry.overrun;
  };

  return {
    add: (subscription) => enter({ subscription, replayedTo: 0, held: undefined, overrun: false }),
    async resume(subscription, sequence) {
      const entry: Entry = { subscription, replayedTo: 0, held: [], overrun: false };
      const leave = enter(entry);
      let isWhole = false;
      try {
        isWhole = (await replay(events, entry, sequence)) && (await release(entry));
      } finally {
        if (!isWhole) leave();
      }
      return isWhole ? leave : undefined;
    },
    async deliver(event) {
      const entries = event.schema === undefined ? undefined : bySchema.get(event.schema);
      if (!entries) return;
      for (const change of changesOf(event)) {
        const interested = [...entries].filter((entry) => matches(entry.subscription, change));
        await Promise.all(interested.map((entry) => offer(entry, change)));
        await live.after(interested.length);
      }
    },
    recheck: (schemas) =>
      recheckEach(schemas.flatMap((schema) => [...(bySchema.get(schema) ?? [])])),
    missed() {
      for (const entries of [...bySchema.values()])
        for (const { subscription } of [...entries]) subscription.lost();
    },
    count: () => [...bySchema.values()].reduce((sum, { size }) => sum + size, 0),
  };
}

/** Sends what of an event concerns the subscription. */
async function replayEvent(
  { subscription }: Entry,
  changes: readonly Change[],
  turns: Turns,
): Promise<void> {
  for (const change of changes) {
    if (matches(subscription, change)) await pass(subscription, change);
    await turns.after(1);
  }
}

/** Sends the past; false when it is not whole. */
async function replay(events: Dependencies, entry: Entry, since: number): Promise<boolean> {
  const turns = createTurns();
  let replayed = 0;
  let page = await firstPage(events, since);
  while (page !== undefined && replayed < maxReplayed) {
    for (const event of page.events) {
      const changes = changesOf(event);
      replayed += Math.max(1, changes.length);
      await replayEvent(entry, changes, turns);
    }
    entry.replayedTo = page.events.at(-1)?.sequence ?? Math.max(entry.replayedTo, since);
    if (!page.more) return true;
    page = await events.since(entry.replayedTo, pageSize);
  }
  return false;
}

async function recheckEach(entries: readonly Entry[]): Promise<void> {
  for (const { subscription } of entries) await subscription.recheck();
}

async function pass({ admit, send }: Subscription, change: Change): Promise<void> {
  const admitted = admit(change);
  if (admitted instanceof Promise ? await admitted : admitted) send(change);
}

const matches = ({ schema, documentId }: Subscription, change: Change): boolean =>
  schema === change.schema && (documentId === undefined || documentId === change.documentId);

/** One change per record; events that are not about records give none. */
function changesOf({
  schema,
  ids,
  operation,
  occurredAt,
  sequence,
}: PublishedEvent): readonly Change[] {
  if (schema === undefined || operation === undefined) return [];
  return (ids ?? []).map((documentId) => ({
    version: 1,
    operation,
    schema,
    documentId,
    occurredAt,
    sequence,
  }));
}

/**
 * The events after `since`, and the one at `since` itself when it is about several records: the
 * connection may have been lost in the middle of them.
 */
async function firstPage(
  events: Pick<Events, 'since'>,
  since: number,
): Promise<EventPage | undefined> {
  const inclusive = since > 0 ? await events.since(since - 1, pageSize + 1) : undefined;
  if (!inclusive) return events.since(since, pageSize);
  const [first, ...rest] = inclusive.events;
  return first?.sequence === since && (first.ids?.length ?? 0) < 2
    ? { ...inclusive, events: rest }
    : inclusive;
}

interface Turns {
  /** To be waited for after so much work. */
  after(work: number): Promise<void> | undefined;
}

/** Lets other work have its turn after some of one's own. */
function createTurns(): Turns {
  let done = 0;
  return {
    after(work) {
      done += work;
      if (done < changesPerTurn) return undefined;
      done = 0;
      return nextTurn();
    },
  };
}
