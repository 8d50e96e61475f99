import { AsyncLocalStorage } from 'node:async_hooks';

/* Remembers, for the answer to a call, which nodes did not confirm what it changed. */

const store = new AsyncLocalStorage<Set<string>>();

/** Runs a call that may change something; `nodes` are those that did not confirm it. */
export async function withUnconfirmed<T>(
  work: () => T | Promise<T>,
): Promise<{ readonly result: T; readonly nodes: readonly string[] }> {
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

/**
 * Whether this node may answer from memory. What it keeps about schemas, routes, endpoints and
 * configuration has a version in the database (migrations.ts), which changes in the transaction of
 * the change itself. A node that cannot be sure to have heard of every change reads those versions
 * before it answers, and loads again what is older than that (docs/decisions/041).
 */
export interface Freshness {
  /**
   * Keeps what is loaded from the tables of `topic` current: `refresh` loads it again whenever the
   * database has a newer version. Calls to `refresh` may overlap. Answers how to stop.
   */
  watch(topic: Topic, refresh: () => Promise<unknown>): () => void;
  /**
   * Nothing while memory may be trusted, which costs a look at the clock. Otherwise resolves when
   * everything watched is at least as new as this call. Throws 503 when the database cannot be asked.
   */
  catchUp(): Promise<void> | undefined;
}

/** What has a version of its own. */
export type Topic =
  | 'schemas'
  | 'config'
  | 'middlewares'
  | 'endpoints'
  | 'signing-keys'
  | 'functions';

/** For a platform that is one process: nobody else changes anything. */
export const alwaysFresh: Freshness = { watch: () => () => undefined, catchUp: () => undefined };
