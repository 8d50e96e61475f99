/** Remembers, for the answer to a call, which nodes did not confirm what it changed. */
import { AsyncLocalStorage } from 'node:async_hooks';

const store = new AsyncLocalStorage<Set<string>>();

/** Runs a call that may change something; `nodes` are those that did not confirm it. */
export async function withUnconfirmed<T>(work: () => T | Promise<T>): Promise<{ readonly result: T; readonly nodes: readonly string[] }> {
  const nodes = new Set<string>();
  const result = await store.run(nodes, work);
  return { result, nodes: [...nodes] };
}

/** Tells the call that runs now; take it before work leaves the call's flow. */
export function unconfirmedReport(): (nodes: readonly string[]) => void {
  const noted = store.getStore();
  return (nodes) => {
    for (const node of nodes) noted?.add(node);
  };
}
