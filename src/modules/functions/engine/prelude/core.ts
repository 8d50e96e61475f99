/**
 * What user code finds in its context beside the language. The files of this folder are joined to one script that is
 * evaluated in each isolate before user code (`sandbox/prelude-text.ts`): top-level names are unique over all of them,
 * and what user code must not change is kept in closures.
 */

/** Ways out of the isolate; plain functions that take and give texts. */
export interface WaysOut {
  /** Posts a call of the platform. */
  readonly post: (call: number, name: string, text: string) => void;
  readonly log: (level: string, text: string) => void;
  /** Asks for `fireTimer(timer)` in so many milliseconds. */
  readonly timer: (timer: number, ms: number) => void;
  /** The end of the run. */
  readonly done: (text: string) => void;
}

export interface Bridge extends WaysOut {
  /** The same while the thread of the process itself runs the code, and hears of it when that is over. */
  readonly now: WaysOut;
  /** Answers at once. */
  readonly ask: (name: string, text: string) => string;
}

/** Given by the script that the files are joined to. */
declare const bridge: Bridge;

let isNow = false;

/** Each entry says on which thread it runs. */
export function runsNow(now: boolean): void {
  isNow = now;
}

export const out = (): WaysOut => (isNow ? bridge.now : bridge);

/** As they were before user code could change them. */
export const { parse: parseJson, stringify: toJson } = JSON;

interface Timer {
  readonly run: () => unknown;
  readonly every: number | undefined;
}

interface RunState {
  /** Calls of the platform that are not answered. */
  pending: number;
  /** Characters that may still be logged. */
  logLeft: number;
  /** Characters of one call, of all that are under way, and of the result: the process has no room for any number. */
  mostCharacters: number;
  /** Lines that were logged. */
  lines: number;
  asked: number;
  posted: number;
  started: number;
  /** Told when nothing is left that could call `res`. */
  idle: (() => void) | undefined;
}

export const runState: RunState = {
  pending: 0,
  logLeft: 0,
  mostCharacters: 0,
  lines: 0,
  asked: 0,
  posted: 0,
  started: 0,
  idle: undefined,
};

const mostAtOnce = 100;
const mostCalls = 10_000;
const mostAsked = 20_000;
/** Characters of what is asked at once. */
const mostInQuestion = 8_000_000;

interface WaitingCall {
  readonly ok: (value: unknown) => void;
  readonly no: (error: unknown) => void;
  /** Made where the code has asked: nobody knows the place any more when the answer comes. */
  readonly asked: Error;
}

const waitingCalls = new Map<number, WaitingCall>();
const timers = new Map<number, Timer>();
let lastNumber = 0;

interface Posted {
  readonly call: number;
  readonly name: string;
  readonly text: string;
  next: Posted | undefined;
}

/** Calls under way, and those that wait here for their answers. Nothing of it has a method that code could change. */
const posting = {
  calls: 0,
  characters: 0,
  first: undefined as Posted | undefined,
  last: undefined as Posted | undefined,
};
let sizes: Record<number, number> = { __proto__: null } as never;

function postLater(one: Posted): void {
  if (posting.last) posting.last.next = one;
  else posting.first = one;
  posting.last = one;
  postThoseThatFit();
}

/** A single one always does. */
function postThoseThatFit(): void {
  for (let one = posting.first; one; one = posting.first) {
    const { call, name, text, next } = one;
    const characters = posting.characters + text.length;
    if (posting.calls > 0 && characters > runState.mostCharacters) return;
    posting.first = next;
    if (!next) posting.last = undefined;
    posting.calls += 1;
    posting.characters = characters;
    sizes[call] = text.length;
    out().post(call, name, text);
  }
}

function postedIsAnswered(call: number): void {
  const size = sizes[call];
  if (size === undefined) return;
  delete sizes[call];
  posting.calls -= 1;
  posting.characters -= size;
  postThoseThatFit();
}

/** What the platform answers, with the place of the call. */
function failureOf(text: string, asked: Error): Error {
  const { message, ...facts } = parseJson(text) as {
    readonly message: string;
    readonly name?: string;
  };
  const frames = String(asked.stack).slice(asked.message.length + 'Error: '.length);
  const stack = `${facts.name ?? 'Error'}: ${message}${frames}`;
  const ofError = { configurable: true, writable: true };
  Object.defineProperty(asked, 'message', { value: message, ...ofError });
  Object.defineProperty(asked, 'stack', { value: stack, ...ofError });
  return Object.assign(asked, facts);
}

const plainNumbers = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? Number(value) : value;

/** A call of the platform. */
export function callPlatform(name: string, args: unknown): Promise<unknown> {
  if (runState.pending >= mostAtOnce)
    return Promise.reject(new Error('More than 100 calls at once: await some of them first'));
  if (runState.posted >= mostCalls)
    return Promise.reject(new Error('More than 10,000 calls of the platform in one run'));
  runState.posted += 1;
  let text: string;
  try {
    text = toJson(args ?? null, plainNumbers);
  } catch (error) {
    return Promise.reject(error);
  }
  const { mostCharacters } = runState;
  if (text.length > mostCharacters) return Promise.reject(tooLargeCall(mostCharacters));
  const asked = new Error('The platform');
  return new Promise((ok, no) => {
    lastNumber += 1;
    runState.pending += 1;
    waitingCalls.set(lastNumber, { ok, no, asked });
    postLater({ call: lastNumber, name, text, next: undefined });
  });
}

const tooLargeCall = (most: number): Error =>
  Object.assign(new RangeError(`The arguments of a call are larger than ${most} bytes`), {
    code: 'CALL_TOO_LARGE',
  });

/** Something that the sandbox process answers at once. */
export function askProcess(name: string, value: unknown): unknown {
  runState.asked += 1;
  if (runState.asked > mostAsked) throw new Error('More than 20,000 such calls in one run');
  const question = toJson(value);
  if (question.length > mostInQuestion)
    throw new TypeError(`More than ${mostInQuestion} characters at once`);
  const text = bridge.ask(name, question);
  if (text.startsWith('!')) throw new TypeError(text.slice(1));
  return text === '' ? undefined : parseJson(text);
}

const nothingLeft = (): boolean => runState.pending === 0 && timers.size === 0;

/** Asked again once everything that follows from the last answer has run. */
export function checkIdle(): void {
  if (runState.idle && nothingLeft()) out().timer(0, 0);
}

/** `now`: on the thread of the process. */
export function answerCall(call: number, ok: boolean, text: string, now: boolean): void {
  runsNow(now);
  const waiting = waitingCalls.get(call);
  if (!waiting) return;
  waitingCalls.delete(call);
  runState.pending -= 1;
  postedIsAnswered(call);
  if (ok) waiting.ok(text === '' ? undefined : parseJson(text));
  else waiting.no(failureOf(text, waiting.asked));
  checkIdle();
}

/** `failed` hears what nobody else could: a timer has no caller. */
export function fireTimer(number: number, failed: (error: unknown) => void): void {
  runsNow(false);
  if (number === 0) {
    if (nothingLeft()) runState.idle?.();
    return;
  }
  const timer = timers.get(number);
  if (!timer) return;
  if (timer.every === undefined) timers.delete(number);
  else out().timer(number, timer.every);
  try {
    const result = timer.run();
    if (result instanceof Promise) result.then(undefined, failed);
  } catch (error) {
    failed(error);
  } finally {
    checkIdle();
  }
}

export function startTimer(run: () => unknown, ms: unknown, every: boolean): number {
  if (timers.size >= mostAtOnce || runState.started >= mostCalls)
    throw new Error('Too many timers: at most 100 at once and 10,000 in one run');
  runState.started += 1;
  lastNumber += 1;
  const delay = Math.max(1, Math.min(Number(ms) || 0, 3_600_000));
  timers.set(lastNumber, { run, every: every ? delay : undefined });
  out().timer(lastNumber, delay);
  return lastNumber;
}

export function stopTimer(number: unknown): void {
  timers.delete(number as number);
  checkIdle();
}

/** Nothing of a run is left for the next one. */
export function resetRun(logLeft: number, mostCharacters = Infinity): void {
  waitingCalls.clear();
  timers.clear();
  posting.calls = 0;
  posting.characters = 0;
  posting.first = undefined;
  posting.last = undefined;
  sizes = { __proto__: null } as never;
  // Set one by one: `Object.assign` may be the code's own by now, and would be handed the bounds.
  runState.pending = 0;
  runState.logLeft = logLeft;
  runState.mostCharacters = mostCharacters;
  runState.lines = 0;
  runState.asked = 0;
  runState.posted = 0;
  runState.started = 0;
  runState.idle = undefined;
}

/** Gives user code a global of this name. */
export function defineGlobal(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, {
    value,
    writable: true,
    configurable: true,
    enumerable: false,
  });
}

// What could stop a thread without using the processor, and what nobody here needs.
for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics'])
  delete (globalThis as unknown as Record<string, unknown>)[name];
