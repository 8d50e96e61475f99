/** One run in a sandbox: its bounds, its log, its end. Exactly one end is told of each. */
import type {
  FromSandbox,
  LogLine,
  Outcome,
  ReplyOptions,
  RunEnd,
  RunLimits,
  UserError,
} from '../protocol.ts';
import { PRELUDE_FILE } from './prelude-text.ts';
import type { Sandbox, SandboxEvents } from './sandbox.ts';
import type { PlaceOf } from './typescript.ts';

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
}

/** Milliseconds of processor time after which a run counts as one that costs more than most. */
const HOG_MS = 150;
/**
 * The same where more than so many runs compute in one process: each gets little, and all together hold the processor for
 * as long as it takes each of them to use that much. Who has asked for it for so long is one of them.
 */
const CROWD = 6;
const CROWD_HOG_MS = 15;
const CROWD_CLAIM_MS = 300;
/** Milliseconds after which lines of the log are told, where the run goes on so long. */
const TELL_LINES_MS = 50;

/** The code is told (`ctx.signal`) before its time is over: by this part of it, and so many milliseconds at most. */
const TOLD_PART = 0.2;
const TOLD_MS = 1_000;

interface Head {
  readonly ok: boolean;
  readonly rejected?: boolean;
  readonly error?: UserError;
  readonly reply?: ReplyOptions;
}

export class SandboxRun implements SandboxEvents {
  readonly parts: RunParts;
  sandbox: Sandbox | undefined;
  readonly #startedAt = performance.now();
  readonly #logs: LogLine[] = [];
  readonly #timers = new Set<NodeJS.Timeout>();
  #logBytes = 0;
  #toldLines = 0;
  #telling: NodeJS.Timeout | undefined;
  #cpuBefore = 0;
  #cpuMs = 0;
  /** Of what the isolate says that it has used: what was counted, and what is new. */
  #claimed = 0;
  #newlyClaimed = 0;
  #usedMs = 0;
  #ended = false;
  #hog = false;
  #toldAt: number;

  constructor(parts: RunParts) {
    this.parts = parts;
    const { deadlineAt } = parts;
    this.#toldAt = deadlineAt - Math.min(TOLD_MS, TOLD_PART * (deadlineAt - this.#startedAt));
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
      ? loaded.then(() => sandbox.invoke(this.parts.input))
      : sandbox.invoke(this.parts.input);
    work.then(
      (text) => this.#finished(sandbox, text),
      (error: unknown) => this.#broke(sandbox, error),
    );
  }

  /** Milliseconds of processor time that its isolate says it has used since it was asked before. */
  claim(): number {
    const all = this.sandbox ? this.sandbox.cpuMs - this.#cpuBefore : 0;
    this.#newlyClaimed = Math.max(0, all - this.#claimed);
    this.#claimed = all;
    return this.#newlyClaimed;
  }

  /**
   * Looks at what the run has used; asked again and again. `share`: how much of the claims is true; `computing`: runs of
   * the process that have claimed something.
   */
  watch(now: number, share: number, computing: number): void {
    if (this.#ended) return;
    this.#usedMs += this.#newlyClaimed * share;
    if (now >= this.parts.deadlineAt) this.end('timeout');
    else if (this.#usedMs > this.parts.limits.cpuMs) this.end('cpu');
    else this.#notice(now, computing);
  }

  /** Tells the platform of a run that costs much, and the code of the end of its time. */
  #notice(now: number, computing: number): void {
    if (!this.#hog && this.#isHog(computing)) {
      this.#hog = true;
      this.parts.send({ t: 'hog', id: this.id });
    }
    if (now < this.#toldAt) return;
    this.#toldAt = Number.POSITIVE_INFINITY;
    this.sandbox?.stop('The time of this run is nearly over');
  }

  #isHog(computing: number): boolean {
    if (this.#usedMs > HOG_MS) return true;
    const isCrowd = computing > CROWD && this.#claimed > CROWD_CLAIM_MS;
    return isCrowd && this.#usedMs > CROWD_HOG_MS;
  }

  /** Milliseconds of processor time until it was looked at last. */
  get cpuMs(): number {
    return this.#usedMs;
  }

  answer(call: number, ok: boolean, text: string): void {
    if (!this.#ended) this.sandbox?.answer(call, ok, text);
  }

  post(call: number, name: string, text: string): void {
    if (!this.#ended) this.parts.send({ t: 'call', id: this.id, call, name }, text);
  }

  log(level: string, text: string): void {
    if (this.#ended || this.#logBytes >= this.parts.limits.maxLogBytes) return;
    this.#logBytes += Buffer.byteLength(text) + 1;
    const at = Math.round(performance.now() - this.#startedAt);
    this.#logs.push({ level: level as LogLine['level'], text, at });
    this.#telling ??= setTimeout(() => this.#tellLines(), TELL_LINES_MS);
  }

  #tellLines(): void {
    this.#telling = undefined;
    const lines = this.#logs.slice(this.#toldLines);
    this.#toldLines = this.#logs.length;
    this.parts.send({ t: 'lines', id: this.id, lines });
  }

  timer(timer: number, ms: number): void {
    if (this.#ended) return;
    if (ms === 0) {
      setImmediate(() => this.#fire(timer));
      return;
    }
    const handle = setTimeout(() => {
      this.#timers.delete(handle);
      this.#fire(timer);
    }, ms);
    this.#timers.add(handle);
  }

  #fire(timer: number): void {
    if (!this.#ended) this.sandbox?.fire(timer);
  }

  #finished(sandbox: Sandbox, text: string): void {
    if (this.#ended) return;
    const at = text.indexOf('\n');
    const head = JSON.parse(text.slice(0, at)) as Head;
    const data = text.slice(at + 1);
    const { maxResultBytes } = this.parts.limits;
    if (!head.ok) {
      const error = head.error && this.#errorOf(head.error);
      this.end(head.rejected ? 'rejected' : 'error', error, true);
    } else if (data.length > maxResultBytes || Buffer.byteLength(data) > maxResultBytes) {
      this.end('error', {
        name: 'RangeError',
        code: 'RESULT_TOO_LARGE',
        message: `The result is larger than ${maxResultBytes} bytes`,
      });
    } else {
      this.#cpuMs = sandbox.cpuMs - this.#cpuBefore;
      this.#tell({ outcome: 'ok', ...(head.reply && { reply: head.reply }) }, data, true);
    }
  }

  #broke(sandbox: Sandbox, error: unknown): void {
    if (this.#ended) return;
    const message = error instanceof Error ? error.message : String(error);
    if (sandbox.isolate.isDisposed || /memory limit/.test(message)) this.end('memory');
    else if (error instanceof Error) this.end('error', this.#errorOf(error));
    else this.end('error', { name: 'Error', message });
  }

  #errorOf(given: Partial<UserError>): UserError {
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
    clearTimeout(this.#telling);
    for (const timer of this.#timers) clearTimeout(timer);
    const { sandbox, parts } = this;
    const tell = (isFit: boolean): void => {
      const memoryBytes =
        end.outcome === 'memory' ? this.memoryMb * 1_048_576 : sandbox?.memoryBytes;
      parts.send(
        {
          ...end,
          t: 'end',
          id: this.id,
          logs: this.#logs,
          cpuMs: Math.round(this.#cpuMs * 1_000) / 1_000,
          memoryBytes: memoryBytes ?? 0,
        },
        data,
      );
      parts.done(this, isFit);
    };
    if (fit && sandbox?.isMeasureDue(performance.now())) void measured(sandbox).then(tell);
    else tell(fit);
  }
}

/** Code that goes on after its end keeps its isolate busy. */
const MEASURE_MS = 500;

/** Looks at the heap; false where the isolate does not answer. */
async function measured(sandbox: Sandbox): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, MEASURE_MS, false);
  });
  const looked = sandbox.measure(performance.now()).then(
    () => true,
    () => false,
  );
  const isThere = await Promise.race([looked, late]);
  clearTimeout(timer);
  return isThere;
}

/** Line and column of a frame, and of what the parser says. */
const framePlace = /^(.*):(\d+):(\d+)\)?$/;
const parserPlace = /^ \[(.*):(\d+):(\d+)\]$/;

function asWritten(frame: string, placeOf: PlaceOf): string {
  const [, before, line, column] = framePlace.exec(frame) ?? [];
  if (before === undefined) return frame;
  const place = placeOf(Number(line), Number(column)).join(':');
  return `${before}:${place}${frame.endsWith(')') ? ')' : ''}`;
}

/** An error with the place where it stands in the source as it was written, and without frames that are not of the function. */
export function errorOfUser(given: Partial<UserError>, file: string, placeOf?: PlaceOf): UserError {
  const { name = 'Error', code, status } = given;
  const full = (given.message ?? '').slice(0, 4_000);
  const [said, , saidLine, saidColumn] = parserPlace.exec(full.slice(full.lastIndexOf(' ['))) ?? [];
  const message = said === undefined ? full : full.slice(0, -said.length);
  const frames = (given.stack ?? '')
    .slice(0, 16_000)
    .split('\n')
    .filter((line) => /^\s+at /.test(line) && !line.includes(PRELUDE_FILE))
    .map((line) => line.trim())
    .filter((line) => line.includes(file) || line.includes('package:'))
    .map((line) => (placeOf && line.includes(file) ? asWritten(line, placeOf) : line));
  const top = frames.find((line) => line.includes(file));
  const [, , frameLine, frameColumn] = framePlace.exec(top ?? '') ?? [];
  const [line, column] = [saidLine ?? frameLine, saidColumn ?? frameColumn].map(Number);
  return {
    name,
    message,
    ...(frames.length > 0 && {
      stack: [`${name}: ${message}`, ...frames.slice(0, 10)].join('\n    '),
    }),
    ...(code !== undefined && { code }),
    ...(status !== undefined && { status }),
    ...(line !== undefined && !Number.isNaN(line) && { line }),
    ...(column !== undefined && !Number.isNaN(column) && { column }),
  };
}
