/** Asks again about what may have changed: soon, a few at a time, and never about the same thing twice at once. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { NewEvent } from '../../kernel/events/events.ts';
import type { PermissionPort } from '../../kernel/permissions.ts';

/** Milliseconds in which changes are gathered. */
const GATHER_MS = 50;
/** Milliseconds after which it is asked again where nobody could tell. */
const AGAIN_MS = 1_000;
const AT_ONCE = 4;

export interface Rechecks<T> {
  touch(some: Iterable<T>): void;
  stop(): void;
}

/** `look` answers false, or rejects, where nobody can tell now. What it is asked about may have gone. */
export function createRechecks<T>(look: (one: T) => Promise<boolean>): Rechecks<T> {
  const due = new Set<T>();
  const busy = new Set<T>();
  const outside = AsyncLocalStorage.snapshot();
  let [isRunning, isStopped] = [false, false];
  const next = (): T | undefined => due.values().find((one) => !busy.has(one));
  const worker = async (): Promise<void> => {
    for (let one = next(); one !== undefined && !isStopped; one = next()) {
      const current = one;
      due.delete(current);
      busy.add(current);
      const isKnown = await look(current).catch(() => false);
      busy.delete(current);
      if (!isKnown) setTimeout(() => touch([current]), AGAIN_MS).unref();
    }
  };
  const run = async (): Promise<void> => {
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    isRunning = false;
    if (due.size > 0) begin();
  };
  const begin = (): void => {
    if (isStopped) return;
    isRunning = true;
    setTimeout(() => outside(() => void run()), GATHER_MS).unref();
  };
  const touch = (some: Iterable<T>): void => {
    for (const one of some) due.add(one);
    if (!isRunning && due.size > 0) begin();
  };
  return {
    touch,
    stop() {
      isStopped = true;
      due.clear();
    },
  };
}

/**
 * Whether rights on records of a type may be others since something happened to a record of another one, of which nothing
 * is told as a change of rights.
 */
export async function hangsOn(
  { engine }: Pick<PermissionPort, 'engine'>,
  type: string,
  { schema = '', operation }: Pick<NewEvent, 'schema' | 'operation'>,
): Promise<boolean> {
  const found = operation && (await engine?.dependenciesOf?.(type));
  if (!found) return false;
  return found.values.has(schema) || (operation === 'delete' && found.presence.has(schema));
}
