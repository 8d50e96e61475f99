/**
 * Reads the sequence on this node and hands each event to the subscribers, in
 * order. While nobody subscribes it reads nothing and only remembers where the
 * sequence stands.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { EventHandler, PublishedEvent } from './events.ts';
import { readAfter } from './outbox.ts';
import { createWakeup } from './wakeup.ts';

/** Events that one read takes. */
const readSize = 500;
/** Milliseconds to wait after an error. */
const recoverMs = 1_000;
/** Nothing wakes the loop by time: positions come from the relay, which looks by itself. */
const longWaitMs = 60_000;

export interface FollowerOptions {
  readonly database: Database;
  readonly log: Logger;
  readonly onHandlerError: () => void;
}

export interface Follower {
  /** Starts at `position`: what was published before is history. */
  start(position: number): void;
  /** The sequence has grown to at least `position`. */
  advance(position: number): void;
  subscribe(pattern: string, handler: EventHandler): () => void;
  stop(): Promise<void>;
}

interface Subscription {
  readonly matches: (topic: string) => boolean;
  readonly handler: EventHandler;
}

export function createFollower({ database, log, onHandlerError }: FollowerOptions): Follower {
  const subscriptions = new Set<Subscription>();
  const bell = createWakeup();
  let known = 0;
  let delivered = 0;
  let stopped = false;
  let running: Promise<void> | undefined;

  const hand = async (subscription: Subscription, event: PublishedEvent): Promise<void> => {
    try {
      await subscription.handler(event);
    } catch (error) {
      onHandlerError();
      log.error({ err: error, topic: event.topic, sequence: event.sequence }, 'A subscriber failed on an event');
    }
  };

  const deliver = async (event: PublishedEvent): Promise<void> => {
    const interested = [...subscriptions].filter((subscription) => subscription.matches(event.topic));
    if (interested.length > 0) await Promise.all(interested.map((subscription) => hand(subscription, event)));
    delivered = event.sequence;
  };

  const catchUp = async (): Promise<void> => {
    while (!stopped && delivered < known && subscriptions.size > 0) {
      const { events, last, purged } = await readAfter(database, delivered, readSize);
      if (delivered < purged) log.error({ from: delivered, to: purged }, 'Events were purged before this node had read them');
      for (const event of events) await deliver(event);
      if (events.length === 0) delivered = Math.max(delivered, Math.min(known, last));
    }
    if (subscriptions.size === 0) delivered = known;
  };

  const loop = async (): Promise<void> => {
    while (!stopped) {
      try {
        await bell.wait(longWaitMs);
        await catchUp();
      } catch (error) {
        if (stopped) return;
        log.error({ err: error }, 'Events could not be read; trying again');
        await delay(recoverMs);
        bell.ring();
      }
    }
  };

  return {
    start(position) {
      known = Math.max(known, position);
      delivered = Math.max(delivered, position);
      running ??= loop();
    },
    advance(position) {
      if (position <= known) return;
      known = position;
      if (subscriptions.size === 0) delivered = position;
      else bell.ring();
    },
    subscribe(pattern, handler) {
      const subscription: Subscription = { matches: matcher(pattern), handler };
      subscriptions.add(subscription);
      return () => void subscriptions.delete(subscription);
    },
    async stop() {
      stopped = true;
      bell.ring();
      await running;
    },
  };
}

/** `*` at the end matches any rest; without it the topic must be equal. */
function matcher(pattern: string): (topic: string) => boolean {
  if (!pattern.endsWith('*')) return (topic) => topic === pattern;
  const prefix = pattern.slice(0, -1);
  return (topic) => topic.startsWith(prefix);
}
