/**
 * The changelog as a stream: what happened since a position, then what happens, with signs of life in between. A reader
 * goes on from the last position it was told; where that is too old it is told of the gap, and goes on from the present.
 */

import { PenstockError } from '../../../kernel/errors.ts';
import type { Events, PublishedEvent } from '../../../kernel/events/events.ts';
import { stillHolds } from '../../../kernel/operations/operation-input.ts';
import { authorizationErrors } from '../errors.ts';
import type { ChangePage, Changes } from './changelog.ts';

/** A line of the stream. */
export type StreamLine =
  | { readonly kind: 'change'; readonly change: PublishedEvent }
  /** All changes up to here were sent: go on from here. */
  | { readonly kind: 'position'; readonly position: number }
  /** What happened between the two is no longer kept: read the relations anew. */
  | { readonly kind: 'gap'; readonly after: number; readonly position: number }
  /** The stream is over, not the changes. */
  | { readonly kind: 'end'; readonly position: number };

export interface StreamRequest {
  /** Changes after this sequence; without it, from now on. */
  readonly after: number | undefined;
  /** Milliseconds after which it ends by itself. */
  readonly lifetimeMs: number;
  readonly signal: AbortSignal;
  /** Throws when the credential does not hold any more: then it ends. */
  readonly callerNow: () => unknown;
}

/** Milliseconds of silence after which a position is sent. */
const HEARTBEAT_MS = 15_000;
/** Changes that are read at once. */
const PAGE = 500;
/** Streams that one process keeps open. */
const MAX_STREAMS = 50;

export interface ChangeStreams {
  /** Throws 503 when too many are open. */
  open(request: StreamRequest): AsyncGenerator<StreamLine, void>;
}

export function createChangeStreams(
  changes: Changes,
  events: Pick<Events, 'subscribe'>,
  silenceMs = HEARTBEAT_MS,
): ChangeStreams {
  let open = 0;

  async function* follow({ after, lifetimeMs, signal, callerNow }: StreamRequest) {
    const bell = createBell(events);
    const end = performance.now() + lifetimeMs;
    let position = after ?? (await changes.position());
    // Also while much happens that is not about permissions: a sign of life, and a place to go on from.
    let silentUntil = performance.now() + silenceMs;
    try {
      yield { kind: 'position', position } as const;
      while (!signal.aborted && performance.now() < end) {
        const found = await sincePosition(changes, position);
        position = found.position;
        const lines = linesOf(found, performance.now() >= silentUntil);
        // It is asked behind what was read: what came after the end of the credential is not told.
        if (lines.length > 0 && !(await stillHolds(callerNow))) return;
        yield* lines;
        if (lines.length > 0) silentUntil = performance.now() + silenceMs;
        if (!found.more) await bell.wait(Math.min(silentUntil, end) - performance.now(), signal);
      }
      yield { kind: 'end', position } as const;
    } finally {
      bell.stop();
    }
  }

  return {
    async *open(request) {
      if (open >= MAX_STREAMS) throw authorizationErrors.STREAM_LIMIT_EXCEEDED();
      open += 1;
      try {
        yield* follow(request);
      } finally {
        open -= 1;
      }
    },
  };
}

interface Found {
  readonly lines: readonly StreamLine[];
  readonly position: number;
  /** There may be more right now. */
  readonly more: boolean;
}

/** What is told of it; where it is nothing, and was for long, the position. */
const linesOf = ({ lines, position }: Found, silentForLong: boolean): readonly StreamLine[] =>
  lines.length === 0 && silentForLong ? [{ kind: 'position', position }] : lines;

/** What to tell a reader who knows all up to a position. */
async function sincePosition(changes: Changes, after: number): Promise<Found> {
  const page = await pageAfter(changes, after);
  if (page === 'gone') {
    const position = await changes.position();
    return { lines: [{ kind: 'gap', after, position }], position, more: true };
  }
  const { changes: found, next: position, more } = page;
  const lines = found.map((change) => ({ kind: 'change', change }) as const);
  return {
    lines: lines.length > 0 ? [...lines, { kind: 'position', position }] : [],
    position,
    more,
  };
}

async function pageAfter(changes: Changes, position: number): Promise<ChangePage | 'gone'> {
  try {
    return await changes.after(position, PAGE);
  } catch (error) {
    if (error instanceof PenstockError && error.code === 'CHANGES_GONE') return 'gone';
    throw error;
  }
}

interface Bell {
  /** Until something happened since the last time it was asked, for `ms` at most, or until the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  stop(): void;
}

/** Rings with every event that is published; events about records may name owners. */
function createBell(events: Pick<Events, 'subscribe'>): Bell {
  let rung = false;
  let ring: (() => void) | undefined;
  const stop = events.subscribe('*', () => {
    rung = true;
    ring?.();
  });
  return {
    stop,
    async wait(ms, signal) {
      if (!rung && !signal.aborted && ms > 0) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, ms);
        signal.addEventListener('abort', () => resolve(), { once: true });
        ring = resolve;
        await promise;
        clearTimeout(timer);
        ring = undefined;
      }
      rung = false;
    },
  };
}
