/** The stored functions, in memory on every node without their texts, and the changes of them. */
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Events } from '../../../kernel/events/events.ts';
import type { Health } from '../../../kernel/health.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { functionErrors } from '../errors.ts';
import { deleteFunctions, enableFunction, loadFunctions } from '../queries/functions.ts';

export interface FunctionStore {
  /** By name. Functions that did not change stay the same objects. */
  all(): readonly StoredFunction[];
  byId(id: string): StoredFunction | undefined;
  byName(name: string): StoredFunction | undefined;
  /** Runs on every node after it has taken in a change, before the changing call returns. Answers how to stop listening. */
  onChange(listener: (before: readonly StoredFunction[]) => void): () => void;
  /** Makes a change that holds on every node when this returns. */
  change(caller: Caller, work: (transaction: Transaction) => Promise<void>): Promise<void>;
  /** `before` runs in the same transaction, and may refuse. */
  remove(
    caller: Caller,
    ids: readonly string[],
    before?: (transaction: Transaction) => Promise<void>,
  ): Promise<void>;
  enable(caller: Caller, id: string, enabled: boolean): Promise<void>;
  close(): void;
}

interface StoreOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly events: Events;
  readonly health?: Pick<Health, 'leaveOut'>;
  readonly log?: Pick<Logger, 'error'>;
}

/** The channel of the interface (specification section 6). */
const TOPIC = 'functions';
const EVENT = 'functions:change:Functions';

export async function createFunctionStore(options: StoreOptions): Promise<FunctionStore> {
  const { database, bus, events } = options;
  let functions: readonly StoredFunction[] = [];
  let [byId, byName] = [new Map<string, StoredFunction>(), new Map<string, StoredFunction>()];
  let queue: Promise<void> = Promise.resolve();
  const listeners = new Set<(before: readonly StoredFunction[]) => void>();

  async function refreshNow(): Promise<void> {
    const before = functions;
    functions = sameWhereUnchanged(before, await loadFunctions(database));
    byId = new Map(functions.map((one) => [one._id, one]));
    byName = new Map(functions.map((one) => [one.name, one]));
    reportDamaged(options, functions, before);
    for (const listener of listeners) listener(before);
  }

  /** Calls never overtake each other. */
  function refresh(): Promise<void> {
    const next = queue.then(refreshNow, refreshNow);
    queue = next.catch(() => undefined);
    return next;
  }

  /** A transaction of its own, also where a request has one open: it must be committed before the nodes take it in. */
  const change: FunctionStore['change'] = (caller, work) =>
    database
      .outside(async () => {
        await database.transaction(async (transaction) => {
          await work(transaction);
          await events.emit(transaction, caller, { topic: EVENT, payload: {} });
        });
        await refresh();
        await bus.announce(TOPIC, {});
      })
      .catch(namedError);

  const stops = [bus.subscribe(TOPIC, refresh), bus.freshness.watch('functions', refresh)];
  await refresh();
  return {
    all: () => functions,
    // Ids are the same in capitals, as everywhere else.
    byId: (id) => byId.get(id.toLowerCase()),
    byName: (name) => byName.get(name),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    change,
    remove: (caller, ids, before) =>
      change(caller, async (transaction) => {
        await before?.(transaction);
        const asked = new Set(ids.map((id) => id.toLowerCase()));
        if ((await deleteFunctions(transaction, ids)) < asked.size)
          throw functionErrors.FUNCTION_NOT_FOUND();
      }),
    enable: (caller, id, enabled) =>
      change(caller, async (transaction) => {
        if (!(await enableFunction(transaction, id, enabled)))
          throw functionErrors.FUNCTION_NOT_FOUND();
      }),
    close() {
      for (const stop of stops) stop();
      listeners.clear();
    },
  };
}

/** Says which functions cannot be used as they are stored. */
function reportDamaged(
  { health, log }: StoreOptions,
  functions: readonly StoredFunction[],
  before: readonly StoredFunction[],
): void {
  const found = functions.flatMap(({ name, damage }) =>
    damage ? [{ name, reason: damage.problem }] : [],
  );
  if (found.length > 0 || before.some(({ damage }) => damage)) health?.leaveOut('functions', found);
  const known = new Set(before);
  for (const one of functions)
    if (one.damage && !known.has(one))
      log?.error(
        { function: one.name, problem: one.damage.problem },
        'A stored function cannot be used and is left out',
      );
}

/** The loaded functions, with the objects of before for those that have not changed. */
function sameWhereUnchanged(
  before: readonly StoredFunction[],
  loaded: readonly StoredFunction[],
): readonly StoredFunction[] {
  const keyOf = (one: StoredFunction): string =>
    [one._id, one.version, one.checksum, one.enabled, one.damage?.problem].join();
  const known = new Map(before.map((one) => [keyOf(one), one]));
  return loaded.map((one) => known.get(keyOf(one)) ?? one);
}

function namedError(error: unknown): never {
  if (codeOf(error) !== '23505') throw error;
  throw functionErrors.FUNCTION_EXISTS({
    errors: [{ path: 'name', rule: 'unique', message: 'another function has this name' }],
    cause: error,
  });
}

/** By which the processes know the text of a version. */
export const versionKey = (id: string, version: number): string => `${id}:${version}`;

/** Versions that were in force before and are so no more. */
export function goneVersions(
  before: readonly StoredFunction[],
  now: readonly StoredFunction[],
): readonly string[] {
  const keysOf = (all: readonly StoredFunction[]) =>
    all.map(({ _id, version }) => versionKey(_id, version));
  const there = new Set(keysOf(now));
  return keysOf(before).filter((key) => !there.has(key));
}

export const writtenBy = (caller: Caller): string => callerKey(caller);
