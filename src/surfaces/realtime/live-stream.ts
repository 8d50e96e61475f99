/** Live answers as a stream that its reader takes at its own pace: for event streams and GraphQL subscriptions. */
import type { Kernel } from '../../host/kernel.ts';
import { describeError } from './errors.ts';
import type { Watched } from './live/live-engine.ts';
import type { LiveBeginning, LiveMessage } from './live/live-messages.ts';
import type { LiveListener, LiveQuery } from './live/live-query.ts';
import { createRechecks, type Holder } from './rechecks.ts';

/** What waits for a reader that is slow; beyond it, it is told to ask anew. */
const MAX_WAITING = 256;

export interface StreamQueue<T> {
  /** Nothing is taken any more; what waits is still given. */
  end(last?: T): void;
  put(message: T): void;
  /** `silence` when nothing came within so many milliseconds. */
  next(ms: number): Promise<T | 'silence' | 'end'>;
}

/** What waits for a reader, bounded: for who is slower than that, `onFull` says the only thing that is kept. */
export function createStreamQueue<T>(onFull: (refused: T) => T): StreamQueue<T> {
  const waiting: T[] = [];
  let ended = false;
  let ring: () => void = () => undefined;
  const end = (last?: T): void => {
    if (ended) return;
    ended = true;
    if (last !== undefined) waiting.push(last);
    ring();
  };
  return {
    end,
    put(message) {
      if (ended) return;
      if (waiting.length >= MAX_WAITING) {
        waiting.length = 0;
        end(onFull(message));
        return;
      }
      waiting.push(message);
      ring();
    },
    async next(ms) {
      if (waiting.length === 0 && !ended) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, ms);
        ring = resolve;
        await promise;
        clearTimeout(timer);
      }
      return waiting.shift() ?? (ended ? 'end' : 'silence');
    },
  };
}

/** `error`: the reader may not go on. */
export type StreamMessage = LiveMessage | { readonly event: 'error'; readonly data: unknown };

export interface LiveStream {
  /** The id of the question. */
  readonly watch: string;
  readonly beginning: LiveBeginning;
  next(ms: number): Promise<StreamMessage | 'silence' | 'end'>;
  /** Whether it may still hear; else it ends with an `error`. */
  admits(): Promise<boolean>;
  /** Nobody reads any more. */
  leave(): void;
}

interface StreamParts {
  /** Throws when the session has ended. */
  readonly callerNow: () => unknown;
  /** A reader was told to ask anew, because it does not read. */
  readonly onSlow: () => void;
}

/** Rejects with what the operation rejects with that answers the same. */
export async function openLiveStream(
  listen: (listener: LiveListener) => Promise<Watched>,
  { callerNow, onSlow }: StreamParts,
): Promise<LiveStream> {
  const queue = createStreamQueue<StreamMessage>(({ data }) => {
    onSlow();
    const { watch } = data as LiveMessage['data'];
    return { event: 'gap', data: { watch, reason: 'slow' } };
  });
  let query: LiveQuery | undefined;
  const admits = async (): Promise<boolean> => {
    try {
      await callerNow();
      return true;
    } catch (error) {
      queue.end({ event: 'error', data: describeError(error) });
      return false;
    }
  };
  const listener: LiveListener = {
    entered(entered) {
      query = entered;
    },
    admits,
    tell: (message) => queue.put(message),
    ended: () => queue.end(),
  };
  const { beginning, query: opened } = await listen(listener);
  return {
    watch: opened.id,
    beginning,
    next: queue.next,
    admits,
    leave() {
      query?.leave(listener);
      queue.end();
    },
  };
}

export interface StreamSessions {
  /** Answers how to leave. */
  enter(holder: Holder, recheck: () => Promise<void>): () => void;
}

/**
 * Those who listen by streams: the end of their session or their app, and events about their user, make them look at
 * their session again.
 */
export function createStreamSessions({
  events,
  identity,
}: Pick<Kernel, 'events' | 'identity'>): StreamSessions {
  const rechecks = createRechecks();
  let [count, unfollow]: [number, (() => void) | undefined] = [0, undefined];
  const follow = (): (() => void) => {
    const stops = [
      events.subscribe('*', rechecks.recheckSubjects),
      identity.ends.subscribe(rechecks.recheckEnded),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  };
  return {
    enter(holder, recheck) {
      unfollow ??= follow();
      count += 1;
      const leave = rechecks.enter(holder, { recheck });
      let entered = true;
      return () => {
        if (!entered) return;
        entered = false;
        leave();
        count -= 1;
        if (count > 0) return;
        unfollow?.();
        unfollow = undefined;
      };
    },
  };
}
