/**
 * Places of runs on this node: so many of one function, so many of all. A crowd that comes at the same moment waits a
 * little, since most runs end soon; those that wait are few, as each holds a request of somebody.
 */
import { FairGate, type GateLimits } from '../../../kernel/request-account/fair-gate.ts';
import type { FunctionsConfig } from '../config.ts';
import { functionErrors } from '../errors.ts';

export interface Places {
  /** Runs `work` with what is left of its time, when there is a place. Throws FUNCTION_BUSY: nothing has run. */
  inPlace<T>(functionId: string, timeMs: number, work: (leftMs: number) => Promise<T>): Promise<T>;
  /** Runs of a function on this node. */
  active(functionId: string): number;
}

/** Half of what hooks before a write have, all of them together. Milliseconds. */
const MAX_WAIT_MS = 1_000;
const RETRY_AFTER_SECONDS = 1;

const busy = (of: 'own' | 'all') =>
  functionErrors.FUNCTION_BUSY({
    message: `Too many runs of ${of === 'own' ? 'this function' : 'functions'} now: try again shortly`,
    retryAfter: RETRY_AFTER_SECONDS,
  });

export function createPlaces(config: () => Pick<FunctionsConfig, 'limits'>): Places {
  const active = new Map<string, number>();
  const limits = (): GateLimits => {
    const { maxConcurrency: width, maxConcurrencyPerFunction: perKey } = config().limits;
    return {
      ...{ width, perKey, maxWaitMs: MAX_WAIT_MS },
      maxWaiting: { ofKey: perKey, ofAll: Math.ceil(width / 2) },
      maxBytes: { ofKey: Infinity, ofAll: Infinity },
    };
  };
  const gate = new FairGate(limits, busy);
  const begin = (id: string): void => void active.set(id, (active.get(id) ?? 0) + 1);
  const end = (id: string): void => {
    const others = (active.get(id) ?? 1) - 1;
    if (others === 0) active.delete(id);
    else active.set(id, others);
  };

  return {
    active: (id) => active.get(id) ?? 0,
    async inPlace(id, timeMs, work) {
      const cameAt = performance.now();
      const waiting = gate.enter(id);
      if (waiting) await waiting;
      begin(id);
      try {
        const leftMs = waiting ? timeMs - (performance.now() - cameAt) : timeMs;
        if (leftMs <= 0) throw busy('own');
        return await work(leftMs);
      } finally {
        end(id);
        gate.leave(id);
      }
    },
  };
}
