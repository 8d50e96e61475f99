/** One run in a sandbox: its bounds, its log, its end. Exactly one end is told of each. */
import type {
  FromSandbox,
  GivenAnswer,
  Outcome,
  RunEnd,
  RunLimits,
  UserError,
} from '../protocol.ts';
import { Rest } from './rest.ts';
import { RunLog } from './run-log.ts';
import { RunTimers } from './run-timers.ts';
import {
  AT_ONCE,
  type Head,
  headOf,
  isCall,
  isHog,
  isLevel,
  MAX_CALLS,
  MAX_HEAD,
  measured,
  tooLarge,
} from './run-words.ts';
import type { Sandbox, SandboxEvents } from './sandbox.ts';
import { SentCalls } from './sent-calls.ts';
import type { PlaceOf } from './typescript.ts';
import { brokenError, errorOfUser, type GivenError, logOfUser, strayText } from './user-errors.ts';

export interface RunParts {
  readonly id: number;
  readonly key: string;
  readonly source: { readonly file: string; readonly places: () => PlaceOf | undefined };
  readonly limits: RunLimits;
  readonly input: string;
  /** On the clock of `performance.now()`. */
  readonly deadlineAt: number;
  send(header: FromSandbox, text?: string): void;
  /** Told once, after the end was sent. */
  done(run: SandboxRun, fit: boolean): void;
  /** It took too long on this thread, in this sandbox: it has to begin again in another one. */
  again(run: SandboxRun, sandbox: Sandbox): void;
}

/** The code is told (`ctx.signal`) before its time is over: by this part of it, and so many milliseconds at most. */
const TOLD_PART = 0.2;
const TOLD_MS = 1_000;

/** What has only read goes on with answers on the thread of the process, in so many parts, after so many milliseconds of them. */
const MAX_PARTS_HERE = 20;
const MAX_HERE_MS = 3;
/** Looks at a run that has told its end and goes on, until its end is taken. */
const LOOKS_AT_END = 5;
/** Turns of the loop that the end of a run waits for lines of its log. */
const LINES_TURNS = 100;

export class SandboxRun implements SandboxEvents {
  readonly parts: RunParts;
  sandbox: Sandbox | undefined;
  readonly #timers = new RunTimers((timer) => this.#fire(timer));
  #calls = 0;
  #openCalls = 0;
  readonly #sent: SentCalls;
  readonly #log: RunLog;
  readonly #rest: Rest;
  #cpuBefore = 0;
  #cpuMs = 0;
  /** Of what the isolate says that it has used: what was counted, and what is new. */
  #claimed = 0;
  #newlyClaimed = 0;
  #usedMs = 0;
  /** Parts on the thread of the process, all so far; a run that has left it stays away. */
  #partsHere = 0;
  #hereMs = 0;
  #looksAtEnd = 0;
  #ended = false;
  #hog = false;
  #toldAt: number;

  constructor(parts: RunParts) {
    this.parts = parts;
    const { deadlineAt, id, limits } = parts;
    this.#sent = new SentCalls(limits.maxResultBytes, ({ call, name, text }) =>
      parts.send({ t: 'call', id, call, name }, text),
    );
    this.#log = new RunLog(limits.maxLogBytes, (lines) => parts.send({ t: 'lines', id, lines }));
    this.#rest = new Rest((rests) => parts.send({ t: 'rest', id, rests }));
    this.#toldAt = deadlineAt - Math.min(TOLD_MS, TOLD_PART * (deadlineAt - performance.now()));
  }

  get memoryMb(): number {
    return this.parts.limits.memoryMb;
  }

  get id(): number {
    return this.parts.id;
  }

  begin(sandbox: Sandbox, loaded: Promise<void> | undefined): void {
    this.sandbox = sandbox;
    this.#cpuBefore = loaded ? 0 : sandbox.cpuMs;
    sandbox.events = this;
    const work = loaded
      ? loaded.then(() => sandbox.begin(this.parts.input))
      : sandbox.begin(this.parts.input);
    work.catch((error: unknown) => this.#broke(sandbox, error));
  }

  /** On this thread. False: it took too long, nothing of it has happened, and it has to begin again in another isolate. */
  beginNow(sandbox: Sandbox): boolean {
    this.sandbox = sandbox;
    this.#cpuBefore = sandbox.cpuMs;
    sandbox.events = this;
    if (this.#hereDo(() => sandbox.beginNow(this.parts.input))) return true;
    this.#forget(sandbox);
    return false;
  }

  #hereDo(part: () => boolean): boolean {
    const began = performance.now();
    this.#partsHere += 1;
    const isDone = part();
    this.#hereMs += performance.now() - began;
    return isDone;
  }

  /** Nothing of it has happened. */
  #forget(sandbox: Sandbox): void {
    sandbox.events = undefined;
    this.#usedMs += Math.max(0, sandbox.cpuMs - this.#cpuBefore);
    this.#claimed = 0;
    this.#partsHere = 0;
    this.#log.forget();
    this.#timers.clear();
    this.sandbox = undefined;
  }

  /** Milliseconds of processor time that its isolate says it has used since it was asked before. */
  claim(): number {
    const all = this.sandbox ? this.sandbox.cpuMs - this.#cpuBefore : 0;
    this.#newlyClaimed = Math.max(0, all - this.#claimed);
    this.#claimed = all;
    return this.#newlyClaimed;
  }

  /**
   * Looks at what the run has used; asked again and again. `share`: how much of the claims is true; `computing`: how many
   * runs of the process have claimed something since the last look.
   */
  watch(now: number, share: number, computing: number): void {
    if (this.#ended) return;
    this.#rest.look(this.sandbox?.isIdle === true, this.#openCalls);
    this.#usedMs += this.#newlyClaimed * share;
    if (now >= this.parts.deadlineAt) this.end(this.sandbox?.entered ? 'timeout' : 'unavailable');
    else if (this.#usedMs > this.parts.limits.cpuMs) this.end('cpu');
    else if (this.sandbox?.isolate.isDisposed) this.end('memory');
    else if (this.#isEndDue()) this.sandbox?.letEnd();
    else this.#notice(now, computing);
  }

  #isEndDue(): boolean {
    if (this.sandbox?.isEnding) this.#looksAtEnd += 1;
    return this.#looksAtEnd > LOOKS_AT_END;
  }

  /** Tells the platform of a run that costs much, and the code of the end of its time. */
  #notice(now: number, computing: number): void {
    if (!this.#hog && isHog({ usedMs: this.#usedMs, claimedMs: this.#claimed, computing })) {
      this.#hog = true;
      this.parts.send({ t: 'hog', id: this.id });
    }
    if (now < this.#toldAt) return;
    this.#toldAt = Number.POSITIVE_INFINITY;
    this.#partsHere = 0;
    this.sandbox?.stop('The time of this run is nearly over');
  }

  /** Milliseconds of processor time until it was looked at last. */
  get cpuMs(): number {
    return this.#usedMs;
  }

  /** The same, of a run that has ended. */
  get spentMs(): number {
    return this.#cpuMs;
  }

  /** `again`: the run could begin again, what it has asked for until now has only read. */
  answer({ call, ok, again }: GivenAnswer, text: string): void {
    const { sandbox } = this;
    if (this.#ended || !sandbox) return;
    this.#openCalls -= 1;
    this.#sent.answered(call);
    if (!again || !this.#mayGoOnHere(sandbox)) {
      this.#partsHere = 0;
      sandbox.answer(call, ok, text);
    } else if (!this.#hereDo(() => sandbox.answerNow(call, ok, text))) {
      this.#forget(sandbox);
      this.parts.again(this, sandbox);
    }
  }

  #mayGoOnHere({ isIdle }: Sandbox): boolean {
    const isBegun = this.#partsHere > 0 && this.#partsHere < MAX_PARTS_HERE;
    const isAlone = isIdle && this.#openCalls === 0 && !this.#log.isTold;
    return isBegun && isAlone && this.#hereMs < MAX_HERE_MS;
  }

  post(call: number, name: string, text: string): void {
    if (this.#ended) return;
    const { limits } = this.parts;
    this.#calls += 1;
    this.#openCalls += 1;
    if (!isCall(call, name, text) || this.#openCalls > AT_ONCE || this.#calls > MAX_CALLS)
      this.end('error', brokenError);
    else if (text.length > limits.maxResultBytes)
      this.answer({ call, ok: false, again: false }, tooLarge(limits));
    else this.#sent.send({ call, name, text });
  }

  log(level: string, text: string): void {
    if (this.#ended || this.#log.isFull) return;
    if (!isLevel(level) || typeof text !== 'string') {
      this.end('error', brokenError);
      return;
    }
    const { file, places } = this.parts.source;
    this.#log.add(level, logOfUser(text, file, places));
  }

  /** A promise was rejected that nobody awaits, at least not yet. The run goes on. */
  stray(error: unknown): void {
    if (this.#ended || this.#log.isFull || this.sandbox?.isolate.isDisposed) return;
    this.#log.note('error', strayText(this.#errorOf(error instanceof Error ? error : {})));
  }

  timer(timer: number, ms: number): void {
    if (this.#ended) return;
    if (!this.#timers.set(timer, ms)) this.end('error', brokenError);
  }

  done(text: string): void {
    if (this.sandbox) this.#finishedWith(this.sandbox, text);
  }

  worked(ms: number): void {
    this.#usedMs += ms;
  }

  /** Work of the process for this run. */
  doing<T>(part: () => T): T {
    const began = performance.now();
    try {
      return part();
    } finally {
      this.worked(performance.now() - began);
    }
  }

  #fire(timer: number): void {
    if (this.#ended) return;
    this.#partsHere = 0;
    this.sandbox?.fire(timer);
  }

  /** The last lines of the log can come after the end, where the process is busy: they are let in first. */
  #finishedWith(sandbox: Sandbox, text: unknown, turns = 0): void {
    if (this.#ended) return;
    const at = typeof text === 'string' ? text.indexOf('\n') : -1;
    const head = headOf(String(text).slice(0, at));
    if (!head) this.end('error', brokenError);
    else if (this.#log.lacks(Number(head.lines)) && turns < LINES_TURNS)
      setImmediate(() => this.#finishedWith(sandbox, text, turns + 1));
    else this.#finished(sandbox, head, String(text), at);
  }

  #finished(sandbox: Sandbox, head: Head, text: string, at: number): void {
    const data = text.slice(at + 1);
    const { maxResultBytes } = this.parts.limits;
    if (!head.ok) {
      const error = head.error && this.#errorOf(head.error);
      this.end(head.rejected ? 'rejected' : 'error', error, sandbox.isIdle && head.open !== true);
    } else if (data.length > maxResultBytes || Buffer.byteLength(data) > maxResultBytes) {
      this.end('error', {
        name: 'RangeError',
        code: 'RESULT_TOO_LARGE',
        message: `The result is larger than ${maxResultBytes} bytes`,
      });
    } else if (at > MAX_HEAD) {
      this.end('error', {
        name: 'RangeError',
        code: 'RESULT_TOO_LARGE',
        message: `Status, headers and cookies are larger than ${MAX_HEAD} characters`,
      });
    } else {
      this.#cpuMs = sandbox.cpuMs - this.#cpuBefore;
      const isOver = sandbox.isIdle;
      this.#tell({ outcome: 'ok', ...(head.reply && { reply: head.reply }) }, data, isOver);
    }
  }

  #broke(sandbox: Sandbox, error: unknown): void {
    if (this.#ended) return;
    const message = error instanceof Error ? error.message : String(error);
    if (sandbox.isolate.isDisposed || /memory limit/.test(message)) this.end('memory');
    else if (error instanceof Error) this.end('error', this.#errorOf(error));
    else this.end('error', { name: 'Error', message });
  }

  #errorOf(given: GivenError): UserError {
    const { file, places } = this.parts.source;
    return errorOfUser(given, file, places());
  }

  /** Ends the run and, unless it ended by itself, its sandbox. */
  end(outcome: Outcome, error?: UserError, fit = false): void {
    if (this.#ended) return;
    // What has ended by itself is known exactly.
    this.#cpuMs = fit && this.sandbox ? this.sandbox.cpuMs - this.#cpuBefore : this.#usedMs;
    this.#tell({ outcome, ...(error && { error }) }, '', fit);
  }

  #tell(end: Pick<RunEnd, 'outcome' | 'error' | 'reply'>, data: string, fit: boolean): void {
    this.#ended = true;
    this.#log.close();
    this.#timers.clear();
    const { sandbox, parts } = this;
    const tell = (isFit: boolean): void => {
      const memoryBytes =
        end.outcome === 'memory' ? this.memoryMb * 1_048_576 : sandbox?.memoryBytes;
      parts.send(
        {
          ...end,
          t: 'end',
          id: this.id,
          logs: this.#log.lines,
          cpuMs: Math.round(this.#cpuMs * 1_000) / 1_000,
          memoryBytes: memoryBytes ?? 0,
        },
        data,
      );
      parts.done(this, isFit);
    };
    const now = performance.now();
    if (!fit || !sandbox?.isMeasureDue(now)) tell(fit);
    else if (this.#partsHere > 0) tell(sandbox.measureNow(now));
    else void measured(sandbox).then(tell);
  }
}
