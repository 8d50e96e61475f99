/** One run: the input in, the function called, its result as text out. */
import { isRejection, type MadeContext, makeContext, type RunFacts, untilIdle } from './context.ts';
import {
  answerCall,
  checkIdle,
  fireTimer,
  out,
  parseJson,
  resetRun,
  runState,
  runsNow,
  toJson,
} from './core.ts';
import { maxCauses } from './globals.ts';
import { readReply } from './reply.ts';
import { axiosLike } from './web.ts';

interface RunInput {
  readonly facts: RunFacts;
  readonly req: Record<string, unknown>;
}

type Res = (data?: unknown, options?: unknown) => void;
type Program = (...args: unknown[]) => unknown;

let program: Program | undefined;
let isModule = false;
const packages = new Map<string, (module: { exports: unknown }) => void>();
const loaded = new Map<string, unknown>();
let current: MadeContext | undefined;

const builtIn: ReadonlyMap<string, unknown> = new Map([['axios', axiosLike]]);

/** `require` of user code: what was bundled with the function, and what the platform brings along. */
export function requirePackage(name: unknown): unknown {
  const key = String(name).replace(/^node:/, '');
  if (loaded.has(key)) return loaded.get(key);
  const make = packages.get(key);
  if (make) {
    const module = { exports: {} as unknown };
    make(module);
    loaded.set(key, module.exports);
    return module.exports;
  }
  if (builtIn.has(key)) return builtIn.get(key);
  throw new Error(
    `The package "${key}" is not there: an operator installs packages for functions, see the guide on functions`,
  );
}

/** What V8 says of `import()`, which the isolate does not have. */
const noImport = 'Not supported';
const insteadOfImport =
  'Not supported: in place of import() write an import at the top of a module, or require() in a body';

/** `depth`: how many have been caused by it. */
function describeError(error: unknown, depth = 0): Record<string, unknown> {
  if (error === null || typeof error !== 'object')
    return { name: 'Error', message: `Thrown: ${String(error)}` };
  const { name, message, stack, code, status, cause } = error as Record<string, unknown>;
  const [several] = error instanceof AggregateError ? error.errors : [];
  const behind = cause ?? several;
  return {
    name: String(name ?? 'Error'),
    message: message === noImport ? insteadOfImport : String(message ?? ''),
    ...(behind !== undefined && depth < maxCauses && { cause: describeError(behind, depth + 1) }),
    ...(typeof stack === 'string' && { stack }),
    ...(typeof code === 'string' && { code }),
    ...(typeof status === 'number' && { status }),
  };
}

/** Where in a result something stands that cannot be JSON. */
function placeOfUnwritable(
  value: unknown,
  path = 'result',
  above: readonly unknown[] = [],
): string {
  if (typeof value === 'bigint') return `${path} is a BigInt`;
  if (typeof value !== 'object' || value === null) return '';
  if (above.includes(value)) return `${path} refers to itself`;
  if (above.length > 100) return `${path} is nested too deeply`;
  for (const [key, one] of Object.entries(value)) {
    const found = placeOfUnwritable(one, `${path}.${key}`, [...above, value]);
    if (found !== '') return found;
  }
  return '';
}

function resultText(value: unknown): string {
  try {
    return toJson(value) ?? '';
  } catch (error) {
    const place = placeOfUnwritable(value) || String(error);
    throw Object.assign(new TypeError(`The result cannot be JSON: ${place}`), {
      code: 'RESULT_INVALID',
    });
  }
}

const tooLargeResult = (most: number): Error =>
  Object.assign(new RangeError(`The result is larger than ${most} bytes`), {
    code: 'RESULT_TOO_LARGE',
  });

interface Finished {
  readonly value: unknown;
  readonly options: unknown;
}

/** Calls the function: what it returns counts, else what it gives to `res`. */
async function callProgram(input: RunInput, { ctx }: MadeContext): Promise<Finished> {
  if (!program) throw new Error('No function is loaded');
  let answered: Finished | undefined;
  let tell: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const res: Res = (value, options) => {
    const reply = readReply(value, options);
    answered ??= { value, options: reply };
    tell();
  };
  const module = { exports: {} as unknown };
  const returned = isModule
    ? await program(ctx, input.req, res)
    : await program(ctx, input.req, res, ctx, requirePackage, module, module.exports);
  if (answered) return answered;
  if (returned !== undefined) return { value: returned, options: undefined };
  const idle = untilIdle(finished);
  checkIdle();
  await idle;
  return answered ?? { value: undefined, options: undefined };
}

/** Waits for calls that nobody awaits: they belong to the run. */
async function drainCalls(): Promise<void> {
  if (runState.pending === 0) return;
  const idle = untilIdle(new Promise(() => undefined));
  checkIdle();
  await idle;
}

/** The head of the result as JSON, a line break, and the data as JSON. */
async function invoke(text: string): Promise<string> {
  const input = parseJson(text) as RunInput;
  resetRun(input.facts.logCharacters, input.facts.mostCharacters);
  const context = (input.req.context ?? {}) as Record<string, unknown>;
  const made = makeContext(input.facts, context);
  current = made;
  try {
    const { value, options } = await callProgram(input, made);
    const data = resultText(value);
    const { mostCharacters } = runState;
    if (data.length > mostCharacters) throw tooLargeResult(mostCharacters);
    await drainCalls();
    return `${toJson({ ok: true, reply: options, lines: runState.lines })}\n${data}`;
  } catch (error) {
    const rejected = isRejection(error);
    const { lines } = runState;
    return `${toJson({ ok: false, rejected, error: describeError(error), lines })}\n`;
  } finally {
    current = undefined;
  }
}

/** Told, and not answered: parts of it may run on different threads. */
async function tellEnd(text: string): Promise<void> {
  let end = '';
  try {
    end = await invoke(text);
  } finally {
    out().done(end);
  }
}

/** Ends the run although its function has not: what is left of it ends with its sandbox. */
function failRun(error: unknown): void {
  const { lines } = runState;
  const head = { ok: false, open: true, rejected: isRejection(error), error: describeError(error) };
  out().done(`${toJson({ ...head, lines })}\n`);
}

/** What the sandbox process calls. */
export const entries = {
  /** Up to the first thing that has to be waited for. `now`: on the thread of the process. */
  begin(text: string, now: boolean): void {
    runsNow(now);
    void tellEnd(text);
  },
  answer: answerCall,
  fire: (timer: number) => fireTimer(timer, failRun),
  stop(reason: string): void {
    runsNow(false);
    current?.signal.abort(new Error(reason));
  },
  addPackage: (name: string, make: (module: { exports: unknown }) => void) =>
    void packages.set(name, make),
  use(given: Program, module: boolean) {
    if (typeof given !== 'function')
      throw new TypeError('The module has no default export that is a function');
    program = given;
    isModule = module;
  },
};
