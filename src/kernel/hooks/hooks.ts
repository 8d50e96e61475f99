/**
 * Hooks: code that is asked before something happens, and may change or refuse it. One registry for all of them; what
 * happens after a change goes through consumers of events (`events/event-consumer.ts`), so that it survives a crash.
 *
 * Who asks knows the point (`records:create:Order`); without a hook that costs one look into a map.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Caller, callerKey } from '../caller.ts';
import { defineErrors, PenstockError } from '../errors.ts';
import { shortened } from '../text.ts';

export const hookErrors = defineErrors({
  HOOK_REFUSED: [400, 'A hook refused this'],
  HOOK_DEPTH_EXCEEDED: [400, 'Hooks cause each other without an end'],
  HOOK_TIMEOUT: [504, 'A hook took too long'],
});

export interface HookCall<T> {
  /** What is about to happen; a hook answers another one to change it. */
  readonly value: T;
  readonly caller: Caller;
  /** When it is refused without an answer; on the clock of `performance.now()`. */
  readonly deadlineAt: number;
}

/** Answers the changed value, or nothing to leave it. A throw refuses: a `PenstockError` as it is, anything else with its message. */
export type HookHandler<T> = (call: HookCall<T>) => Promise<T | undefined>;

interface Hook {
  /** For messages and for the chain of causes. */
  readonly name: string;
  readonly handle: HookHandler<unknown>;
}

export interface Hooks {
  /** Answers how to take it away. Hooks of one point run in the order of their names. */
  register<T>(point: string, name: string, handle: HookHandler<T>): () => void;
  has(point: string): boolean;
  /** The value as the hooks of the point left it. Throws HOOK_REFUSED, HOOK_DEPTH_EXCEEDED, HOOK_TIMEOUT, and what a hook throws. */
  run<T>(point: string, caller: Caller, value: T): Promise<T>;
}

/** Milliseconds that all hooks of one point may take together. */
const HOOK_MS = 2_000;
/** Hooks that may have caused each other before one is refused. */
const MAX_CAUSES = 5;

const causes = new AsyncLocalStorage<readonly string[]>();

/** The hooks and functions on whose behalf this flow runs, the first cause first. */
export const currentCauses = (): readonly string[] => causes.getStore() ?? [];

/** Runs work that a hook or function causes. Throws HOOK_DEPTH_EXCEEDED where there are too many before it. */
export function causedBy<T>(chain: readonly string[], work: () => T): T {
  requireDepth(chain);
  return causes.run(chain, work);
}

/** Throws HOOK_DEPTH_EXCEEDED for a chain that is too long; the message names it. */
export function requireDepth(chain: readonly string[]): void {
  if (chain.length <= MAX_CAUSES) return;
  throw hookErrors.HOOK_DEPTH_EXCEEDED({
    message: `Hooks cause each other without an end: ${chain.join(' > ')}`,
  });
}

/** Goes on with work that was put off: it is caused by what caused it then. */
export const causedThen = <T>(chain: readonly string[], work: () => T): T =>
  causes.run(chain, work);

const VIA = ' via ';

/** Who causes a change, as events keep it: the caller, and the hooks that act for them. */
export function actorOf(caller: Caller): string {
  const chain = causes.getStore();
  return chain === undefined || chain.length === 0
    ? callerKey(caller)
    : `${callerKey(caller)}${VIA}${chain.join('>')}`;
}

/** The same as SQL, where the hooks are in a column. */
export const actorSql = (actor: string, chain: string): string =>
  `${actor} || coalesce('${VIA}' || nullif(array_to_string(${chain}, '>'), ''), '')`;

/** The two parts of a stored actor. */
export function partsOfActor(stored: string): { actor: string; causes?: readonly string[] } {
  const at = stored.lastIndexOf(VIA);
  if (at < 0) return { actor: stored };
  return { actor: stored.slice(0, at), causes: stored.slice(at + VIA.length).split('>') };
}

export function createHooks(): Hooks {
  const points = new Map<string, readonly Hook[]>();
  return {
    register(point, name, handle) {
      const hook: Hook = { name, handle: handle as HookHandler<unknown> };
      const before = points.get(point) ?? [];
      points.set(
        point,
        [...before, hook].sort((a, b) => (a.name < b.name ? -1 : 1)),
      );
      return () => {
        const left = (points.get(point) ?? []).filter((one) => one !== hook);
        if (left.length > 0) points.set(point, left);
        else points.delete(point);
      };
    },
    has: (point) => points.has(point),
    async run<T>(point: string, caller: Caller, value: T) {
      const hooks = points.get(point) ?? [];
      const deadlineAt = performance.now() + HOOK_MS;
      let current: unknown = value;
      for (const hook of hooks)
        current = (await runOne(hook, { value: current, caller, deadlineAt })) ?? current;
      return current as T;
    },
  };
}

async function runOne({ name, handle }: Hook, call: HookCall<unknown>): Promise<unknown> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () =>
      late.reject(hookErrors.HOOK_TIMEOUT({ message: `The hook ${name} took longer than 2 s` })),
    call.deadlineAt - performance.now(),
  );
  try {
    const chain = [...currentCauses(), name];
    return await Promise.race([causedBy(chain, () => handle(call)), late.promise]);
  } catch (error) {
    if (error instanceof PenstockError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw hookErrors.HOOK_REFUSED({ message: shortened(message, 500), cause: error });
  } finally {
    clearTimeout(timer);
  }
}
