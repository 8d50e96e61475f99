/**
 * What runs log, told to operators while it happens, on every node. Nothing is kept: whoever comes later reads the
 * records. A node tells others only while one of them says that somebody listens there.
 */
import type { Bus } from '../../../kernel/events/bus.ts';
import type { LogLine, UserError } from '../engine/protocol.ts';
import { functionErrors } from '../errors.ts';

interface RunFacts {
  /** Of the record of the run. */
  readonly executionId: string;
  readonly functionId: string;
  readonly functionName: string;
}

export type TailEvent =
  | (RunFacts & {
      readonly kind: 'begin';
      readonly version: number;
      readonly trigger: string;
      readonly attempt: number;
    })
  | (RunFacts & LogLine & { readonly kind: 'log' })
  | (RunFacts & {
      readonly kind: 'end';
      readonly outcome: string;
      readonly duration: number;
      readonly cpuMs: number;
      readonly memoryPeak: number;
      readonly error: UserError | null;
    });

/** `gap`: so many events were dropped, because the reader or a node was too slow. */
export type TailLine = TailEvent | { readonly kind: 'gap'; readonly dropped: number };

interface TailRequest {
  /** All functions unless given. */
  readonly functionId?: string | undefined;
  readonly signal: AbortSignal;
}

export interface TailReader {
  /** What comes next; nothing after so many milliseconds of silence, or when the request is over. */
  next(ms: number): Promise<readonly TailLine[]>;
  /** The request is over, or the module stops. */
  readonly closed: boolean;
  close(): void;
}

export interface RunTail {
  /** Nobody listens, here or elsewhere: what is told goes nowhere. */
  readonly silent: boolean;
  tell(...events: readonly TailEvent[]): void;
  /** Throws 503 when too many are open. */
  open(request: TailRequest): TailReader;
  close(): void;
}

/** A node listens: others tell it what they have. */
const LISTENING = 'functions/listening';
const TOLD = 'functions/told';
/** How often a node says that it listens, and for how long it is believed. */
const SAY_MS = 5_000;
const BELIEVED_MS = 15_000;
/** Events that wait for a reader, and for the bus, which takes them together. */
const MAX_WAITING = 1_000;
const TOGETHER_MS = 100;
const MAX_READERS = 50;

/** Events for one place, the oldest dropped where there are too many. */
class Waiting {
  #events: TailEvent[] = [];
  #dropped = 0;

  get isEmpty(): boolean {
    return this.#events.length === 0;
  }

  add(event: TailEvent): void {
    if (this.#events.length >= MAX_WAITING) {
      this.#events.shift();
      this.#dropped += 1;
    }
    this.#events.push(event);
  }

  note(dropped: number): void {
    this.#dropped += dropped;
  }

  take(): { readonly events: readonly TailEvent[]; readonly dropped: number } {
    const taken = { events: this.#events, dropped: this.#dropped };
    this.#events = [];
    this.#dropped = 0;
    return taken;
  }
}

class Reader implements TailReader {
  readonly #waiting = new Waiting();
  readonly #request: TailRequest;
  readonly #leave: () => void;
  #wake: (() => void) | undefined;
  closed = false;

  constructor(request: TailRequest, leave: (reader: Reader) => void) {
    this.#request = request;
    this.#leave = () => leave(this);
    if (request.signal.aborted) this.closed = true;
    request.signal.addEventListener('abort', () => this.close(), { once: true });
  }

  hear(event: TailEvent): void {
    const { functionId } = this.#request;
    if (functionId !== undefined && functionId !== event.functionId) return;
    this.#waiting.add(event);
    this.#wake?.();
  }

  miss(dropped: number): void {
    this.#waiting.note(dropped);
  }

  async next(ms: number): Promise<readonly TailLine[]> {
    if (this.#waiting.isEmpty && !this.closed) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      this.#wake = resolve;
      await promise;
      clearTimeout(timer);
      this.#wake = undefined;
    }
    const { events, dropped } = this.#waiting.take();
    return dropped > 0 ? [{ kind: 'gap', dropped }, ...events] : events;
  }

  close(): void {
    this.closed = true;
    this.#leave();
    this.#wake?.();
  }
}

export function createRunTail(bus: Pick<Bus, 'publish' | 'subscribe'>): RunTail {
  const readers = new Set<Reader>();
  const outgoing = new Waiting();
  /** Until when other nodes are believed to listen. */
  let elsewhereUntil = 0;
  let sending: NodeJS.Timeout | undefined;
  let saying: NodeJS.Timeout | undefined;
  let open = true;

  const isHeardElsewhere = (): boolean => performance.now() < elsewhereUntil;
  const sayListening = (): void => void bus.publish(LISTENING, {}).catch(() => undefined);

  const unhear = bus.subscribe(LISTENING, () => {
    elsewhereUntil = performance.now() + BELIEVED_MS;
  });
  const stopReading = bus.subscribe(TOLD, (payload) => {
    const { events, dropped } = payload as ReturnType<Waiting['take']>;
    for (const reader of readers) {
      if (dropped > 0) reader.miss(dropped);
      for (const event of events) reader.hear(event);
    }
  });

  function send(): void {
    sending = undefined;
    void bus.publish(TOLD, outgoing.take()).catch(() => undefined);
  }

  function leave(reader: Reader): void {
    readers.delete(reader);
    if (readers.size > 0) return;
    clearInterval(saying);
    saying = undefined;
  }

  return {
    get silent() {
      return readers.size === 0 && !isHeardElsewhere();
    },
    tell(...events) {
      for (const event of events) for (const reader of readers) reader.hear(event);
      if (!isHeardElsewhere() || !open) return;
      for (const event of events) outgoing.add(event);
      sending ??= setTimeout(send, TOGETHER_MS).unref();
    },
    open(request) {
      if (readers.size >= MAX_READERS) throw functionErrors.TAIL_LIMIT_EXCEEDED();
      const reader = new Reader(request, leave);
      if (reader.closed) return reader;
      readers.add(reader);
      sayListening();
      saying ??= setInterval(sayListening, SAY_MS).unref();
      return reader;
    },
    close() {
      open = false;
      unhear();
      stopReading();
      clearTimeout(sending);
      for (const reader of [...readers]) reader.close();
    },
  };
}

/** What one run tells. */
export interface RunTelling {
  lines(lines: readonly LogLine[]): void;
  /** The whole log: what was told already is not told again. */
  end(
    logs: readonly LogLine[],
    result: Omit<Extract<TailEvent, { kind: 'end' }>, keyof RunFacts | 'kind'>,
  ): void;
}

export function tellRun(
  tail: RunTail,
  facts: RunFacts,
  begin: Pick<Extract<TailEvent, { kind: 'begin' }>, 'version' | 'trigger' | 'attempt'>,
): RunTelling {
  let told = 0;
  const tell = (lines: readonly LogLine[]): void => {
    told += lines.length;
    if (!tail.silent)
      tail.tell(...lines.map((line) => ({ ...facts, ...line, kind: 'log' }) as const));
  };
  if (!tail.silent) tail.tell({ ...facts, ...begin, kind: 'begin' });
  return {
    lines: tell,
    end(logs, result) {
      if (tail.silent) return;
      tell(logs.slice(told));
      tail.tell({ ...facts, ...result, kind: 'end' });
    },
  };
}
