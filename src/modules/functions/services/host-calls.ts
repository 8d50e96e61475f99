/** What code may ask of the platform (`ctx`), in whose name, and what it leaves open when it ends. */
import type { Caller } from '../../../kernel/caller.ts';
import { system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors, invalid, PenstockError } from '../../../kernel/errors.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import { LARGE_BYTES, loopTurn } from '../../../kernel/request-account/fair-gate.ts';
import { cutText } from '../../../kernel/text.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { PoolEnd } from '../engine/pool.ts';
import type { LogLine, UserError } from '../engine/protocol.ts';
import { type SharedSecrets, sharedSecrets, withoutSecrets } from './masked-texts.ts';
import type { OpenTransaction } from './transactions.ts';

/** JSON that is passed on as it is. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A call as the code wrote it. Nothing of it is checked. */
export interface GivenCall {
  readonly args?: readonly unknown[];
  readonly as?: unknown;
  readonly transaction?: unknown;
  readonly [name: string]: unknown;
}

/** Answers a value that is written as JSON, or JSON. Throws what the code sees as an error. */
export type HostCall = (scope: RunScope, given: GivenCall) => Promise<unknown>;

export interface HostCalls {
  call(scope: RunScope, name: string, args: string): Promise<string>;
}

/** Thrown by a host call: the run ends here for now, and goes on later from its steps. */
export class RunSuspended extends Error {
  readonly reason: unknown;
  constructor(reason: unknown) {
    super('The run is suspended');
    this.name = 'RunSuspended';
    this.reason = reason;
  }
}

interface ScopeFacts {
  readonly executionId: string;
  readonly function: StoredFunction;
  readonly version: number;
  readonly caller: Caller;
  readonly dryRun?: boolean | undefined;
  readonly extra: ReadonlyMap<string, HostCall> | undefined;
}

/** What is the answer of a run whose code lets it through: who asks may not do this, or may ask again. */
const passedOn: ReadonlySet<number> = new Set([401, 403, 503]);

/** Refusals of one run that are remembered. */
const MAX_REFUSALS = 100;

type RefusalFacts = Pick<UserError, 'status' | 'code' | 'message'>;

const refusalKey = ({ status, code, message }: RefusalFacts): string =>
  `${status} ${code} ${message}`;

/** One for all: a reason of its own for each run would cost more than most calls. */
const runEnded = new DOMException('The run has ended', 'AbortError');

const ownRefusals = new WeakSet<Error>();

/** A 403 because of the code or its definition: that is the operator's business, and never an answer to who asks. */
export function notForCode(message: string): Error {
  const error = errors.FORBIDDEN({ message });
  ownRefusals.add(error);
  return error;
}

/** What would stay although the run is taken back. */
export const notInDryRun = (what: string): Error =>
  notForCode(`A dry run does not do this: ${what}`);

export class RunScope {
  readonly facts: ScopeFacts;
  readonly transactions = new Map<string, OpenTransaction>();
  /** Transactions that are not open yet: many calls come at once. */
  opening = 0;
  suspended: RunSuspended | undefined;
  readonly #secrets: SharedSecrets = sharedSecrets();
  /** Calls of the code, and those of them that only read. */
  #calls = 0;
  #reads = 0;
  readonly #refusals = new Map<string, PenstockError>();
  #controller: AbortController | undefined;
  #ending: AbortController | undefined;
  #isOver = false;

  constructor(facts: ScopeFacts) {
    this.facts = facts;
    this.#secrets.join(facts.function._id);
  }

  noteCall(): void {
    this.#calls += 1;
  }

  /** The call that was just noted leaves nothing behind, however often it is asked. */
  noteRead(): void {
    this.#reads += 1;
  }

  /** The run could begin again, as if it had asked for nothing. */
  get hasOnlyRead(): boolean {
    return this.#reads === this.#calls;
  }

  /** In whose name a call acts. Throws 403 where the definition does not give the rights of the system. */
  callerOf({ as }: GivenCall): Caller {
    const { caller, function: definition } = this.facts;
    if (as !== 'system') return caller;
    if (definition.inputs.rights !== 'system')
      throw notForCode('The function does not have the rights of the system');
    return system(`functions/${definition.name}`);
  }

  /** Throws 403 for what the definition does not list. `capability`: `database:read:Post`. */
  require(capability: string): void {
    const { capabilities } = this.facts.function.inputs;
    if (!capabilities) return;
    const parts = capability.split(':');
    const covers = (given: string): boolean =>
      given.split(':').every((part, at) => part === '*' || part === parts[at]);
    if (capabilities.some(covers)) return;
    throw notForCode(`The function does not list the capability ${capability}`);
  }

  /** Remembers that the platform refused a call in the name of the caller, or could not answer it now. */
  noteRefusal(error: unknown): void {
    if (!(error instanceof PenstockError) || ownRefusals.has(error)) return;
    // So is a conflict that another try would end.
    const isPassedOn = passedOn.has(error.status) || (error.status === 409 && error.retryAfter);
    if (isPassedOn && this.#refusals.size < MAX_REFUSALS)
      this.#refusals.set(refusalKey(error), error);
  }

  /** The refusal that the code let through, if this error is one. */
  refusalBehind(error: RefusalFacts): PenstockError | undefined {
    return this.#refusals.get(refusalKey(error));
  }

  /** From now on it is masked in whatever this run, others of the request, and later ones of their functions leave behind. */
  noteSecret(value: string): void {
    this.#secrets.note(value);
  }

  /** Ends the run: nothing of it is waited for. */
  suspend(reason: RunSuspended): void {
    this.suspended ??= reason;
    this.#controller?.abort();
  }

  signalWith(given: AbortSignal | undefined): AbortSignal | undefined {
    if (!this.facts.extra) return given;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    return given ? AbortSignal.any([given, signal]) : signal;
  }

  /** Aborted when the run has ended: what it asked for is for nobody then. */
  get ended(): AbortSignal {
    this.#ending ??= new AbortController();
    if (this.#isOver) this.#ending.abort(runEnded);
    return this.#ending.signal;
  }

  /** Keeps a transaction until the run ends; one that opened later than that is undone. */
  async keep(id: string, open: OpenTransaction): Promise<void> {
    if (this.#isOver) await open.abandon();
    else this.transactions.set(id, open);
  }

  /** Ends what the run left open: a transaction that was not committed is undone. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#ending?.abort(runEnded);
    if (this.transactions.size === 0) return;
    const open = [...this.transactions.values()];
    this.transactions.clear();
    await Promise.all(open.map((one) => one.abandon()));
  }

  maskedLines = (lines: readonly LogLine[]): readonly LogLine[] =>
    lines.map((line, at) => ({ ...line, text: this.#clean(line.text, at === lines.length - 1) }));

  masked(end: PoolEnd): PoolEnd {
    const { error, logs } = end;
    const clean = (text: string): string => this.#clean(text, true);
    return {
      ...end,
      logs: this.maskedLines(logs),
      ...(error && { error: maskedError(error, clean) }),
    };
  }

  /** `mayBeCut`: a bound of the log, or of an error, may have ended the text. */
  #clean(text: string, mayBeCut: boolean): string {
    return withoutSecrets(this.facts.function._id, text, mayBeCut);
  }
}

const maskedError = (error: UserError, clean: (text: string) => string): UserError => ({
  ...error,
  name: clean(error.name),
  message: clean(error.message),
  ...(error.stack !== undefined && { stack: clean(error.stack) }),
  ...(error.code !== undefined && { code: clean(error.code) }),
  ...(error.cause && { cause: maskedError(error.cause, clean) }),
});

/** What a run may ask for that leaves nothing behind. `call` looks at the operation itself. */
const dryCalls = /^(?:call$|db\.|auth\.|search\.|secrets\.|files\.(?:get|list|url|read)$)/;

const unknownCall = (name: string): string =>
  name.startsWith('step.')
    ? 'ctx.step, ctx.sleep and ctx.waitForEvent are for functions of the kind workflow'
    : `There is no call ${cutText(name, 64)} here`;

/** The calls of all parts of `ctx`, by name. */
export function createHostCalls(
  database: Database,
  calls: ReadonlyMap<string, HostCall>,
): HostCalls {
  /** What fails in a transaction of the platform (a hook of a sign-up) fails alone, so that the code can catch it. */
  const apart = async (name: string, call: HostCall, scope: RunScope, given: GivenCall) => {
    const isInside = given.transaction === undefined && database.inTransaction();
    const work = (): Promise<unknown> =>
      isInside && name !== 'db.begin'
        ? database.part(() => call(scope, given))
        : call(scope, given);
    // Parts go one after the other: beside one that the code holds open, a call would wait for its end.
    const held = isInside ? [...scope.transactions.values()].at(-1) : undefined;
    const value = await (held ? held.within(work) : work());
    return value instanceof JsonText ? value.text : (JSON.stringify(value) ?? '');
  };

  return {
    async call(scope, name, args) {
      const call = scope.facts.extra?.get(name) ?? calls.get(name);
      if (!call) throw errors.NOT_FOUND({ message: unknownCall(name) });
      if (scope.facts.dryRun && !dryCalls.test(name)) throw notInDryRun(name);
      scope.noteCall();
      // In turns of the event loop of its own, as large bodies of requests.
      if (args.length >= LARGE_BYTES) await loopTurn();
      const given = parseBoundedJson(args, `What ${name} is called with`);
      try {
        return await apart(name, call, scope, (given ?? {}) as GivenCall);
      } catch (error) {
        if (error instanceof RunSuspended) scope.suspend(error);
        scope.noteRefusal(error);
        throw error;
      }
    },
  };
}

/* Reading the arguments of calls. */

export const textArgument = ({ args = [] }: GivenCall, at: number, name: string): string => {
  const value = args[at];
  if (typeof value === 'string' && value !== '' && value.length <= 4_000) return value;
  throw invalid(name, 'type', 'must be a text');
};

export const objectArgument = (
  { args = [] }: GivenCall,
  at: number,
  name: string,
): Readonly<Record<string, unknown>> => {
  const value = args[at];
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw invalid(name, 'type', 'must be an object');
};

export const optionsArgument = (given: GivenCall, at: number): Readonly<Record<string, unknown>> =>
  given.args?.[at] === undefined || given.args[at] === null
    ? {}
    : objectArgument(given, at, 'options');
