/**
 * Events: facts that were committed. An event row is written in the transaction
 * of the change (outbox); a relay gives it its place in the one sequence and
 * hands it to subscribers, at least once, in order.
 */
import type { Caller } from '../caller.ts';
import type { Queryable } from '../database/database.ts';

export interface NewEvent {
  /** What happened: `database:create:Post`, `authentication:register:user` (names: the spec file of the module, section events). */
  readonly topic: string;
  /** Schema and ids it is about; never whole records, never secrets. */
  readonly schema?: string;
  readonly ids?: readonly string[];
  /** Set for events about the records of `schema`, and for no others. */
  readonly operation?: 'insert' | 'update' | 'delete';
  readonly payload?: Readonly<Record<string, unknown>>;
}

export interface PublishedEvent extends NewEvent {
  /** Place in the one order of all events; grows by commit, has no gaps that could still be filled. */
  readonly sequence: number;
  /** ISO 8601. */
  readonly occurredAt: string;
  /** `callerKey` of who caused it. */
  readonly actor: string;
  /** Hooks and functions that acted for them, the first cause first. */
  readonly causes?: readonly string[];
}

/** A stretch of the sequence. It ends at the limit of the reader, and earlier where events are large. */
export interface EventPage {
  readonly events: readonly PublishedEvent[];
  /** Something is published behind the last one. */
  readonly more: boolean;
}

export type EventHandler = (event: PublishedEvent) => void | Promise<void>;

export interface Events {
  /** Writes the event with the change. `database` must be the transaction that makes the change. */
  emit(database: Queryable, caller: Caller, event: NewEvent): Promise<void>;
  /** Tells the relay that a committed statement wrote outbox rows by itself (record engine). */
  wake(): void;
  /** The same for events that those who wait for them were told already: they are published within 100 ms, with others. */
  wakeLater(): void;
  /**
   * Live subscription on this node to topics that match (`*` at the end matches a prefix).
   * Every node sees every event. For work that must be done once and survive a crash, let a job do it.
   * `onGap`: some were missed for good, after this node had not reached the database for as long as they are kept.
   */
  subscribe(pattern: string, handler: EventHandler, onGap?: () => void): () => void;
  /** Told when events were published, by whichever node; answers how to stop listening. It may miss some of a node that dies. */
  onPublished(listener: () => void): () => void;
  /** Events after a sequence, oldest first; `undefined` when they are no longer kept (the reader must resynchronise). */
  since(sequence: number, limit: number): Promise<EventPage | undefined>;
  /** The highest published sequence. */
  position(): Promise<number>;
}

/** Where the record engine writes events in the same statement as the record. */
export const outboxTable = 'penstock.outbox';
