/** What a run says while it runs and at its end, read as something foreign: the code of others wrote it. */
import {
  type LogLine,
  logLevels,
  type ReplyOptions,
  type RunLimits,
  type UserError,
} from '../protocol.ts';
import type { Sandbox } from './sandbox.ts';

/** Calls at once, and calls and timers of one run: the prelude tells the code before. */
export const AT_ONCE = 100;
export const MAX_CALLS = 10_000;

const levels: ReadonlySet<unknown> = new Set(logLevels);
export const isLevel = (level: unknown): level is LogLine['level'] => levels.has(level);

export const isCall = (call: unknown, name: unknown, text: unknown): boolean =>
  Number.isSafeInteger(call) && typeof name === 'string' && typeof text === 'string';

export const tooLarge = ({ maxResultBytes }: RunLimits): string =>
  JSON.stringify({
    name: 'RangeError',
    code: 'CALL_TOO_LARGE',
    message: `The arguments of a call are larger than ${maxResultBytes} bytes`,
  } satisfies UserError);

export interface Head {
  readonly ok: boolean;
  /** That were logged. */
  readonly lines?: number;
  readonly rejected?: boolean;
  /** The function has not ended. */
  readonly open?: boolean;
  readonly error?: UserError;
  readonly reply?: ReplyOptions;
}

/** Characters of what the code sets about its answer beside the data. */
export const MAX_HEAD = 32_768;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Nothing where it is none: user code runs beside what writes it. */
export function headOf(text: string): Head | undefined {
  try {
    const head: unknown = JSON.parse(text);
    if (!isObject(head) || !isObject(head.reply ?? {}) || !isObject(head.error ?? {}))
      return undefined;
    return head as unknown as Head;
  } catch {
    return undefined;
  }
}

/** Code that goes on after its end keeps its isolate busy. */
const MEASURE_MS = 500;

/** Looks at the heap; false where the isolate does not answer. */
export async function measured(sandbox: Sandbox): Promise<boolean> {
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

/** Milliseconds of processor time after which a run counts as one that costs more than most. */
const HOG_MS = 150;
/**
 * The same where more than so many runs compute in one process: each gets little, and all together hold the processor for
 * as long as it takes each of them to use that much. Who has asked for it for so long is one of them.
 */
export const CROWD = 6;
const CROWD_HOG_MS = 20;
const CROWD_CLAIM_MS = 300;

interface Costs {
  readonly usedMs: number;
  /** What its isolate says that it has used. */
  readonly claimedMs: number;
  /** Runs of the process that compute. */
  readonly computing: number;
}

export function isHog({ usedMs, claimedMs, computing }: Costs): boolean {
  if (usedMs > HOG_MS) return true;
  const isCrowded = computing > CROWD && claimedMs > CROWD_CLAIM_MS;
  return isCrowded && usedMs > CROWD_HOG_MS;
}
