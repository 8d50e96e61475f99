/**
 * Hooks before records are written, whoever writes: clients, endpoints, operators, batches, GraphQL and functions all
 * come through the record store. A hook sees the input and the record as it is, and the write holds only if the record
 * is still that one: nothing is locked while foreign code runs.
 */
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import { invalid, PenstockError } from '../../kernel/errors.ts';
import type { Hooks } from '../../kernel/hooks/hooks.ts';
import { all } from '../conditions/condition.ts';
import type { SchemaRegistry } from '../schema/registry/registry.ts';
import { lookAtEach, lookAtOne, type Seen } from './seen-records.ts';
import type {
  Assignment,
  RecordInput,
  RecordStore,
  RecordText,
  SelectionOptions,
  WriteOptions,
} from './store.ts';

export type RecordHookOperation = 'create' | 'update' | 'delete';

/** What a hook is asked about. It changes `input`; of a deletion there is none. */
export interface RecordHookValue {
  readonly schema: string;
  readonly operation: RecordHookOperation;
  readonly input?: RecordInput | undefined;
  /** Of what is there. */
  readonly id?: string | undefined;
  /** The record as it is, without hidden fields. */
  readonly previous?: Readonly<Record<string, unknown>> | undefined;
  /** `Type:id` of who will own it, where that is what changes. */
  readonly owner?: string | undefined;
}

/** The point of the hooks before a write. */
export const recordHookPoint = (schema: string, operation: RecordHookOperation): string =>
  `records:${operation}:${schema}`;

/** Records of one call by condition while a hook looks at each. */
export const MAX_SELECTED = 1_000;
/** Hooks of one call that run at a time. */
const AT_ONCE = 8;
/** How often a write begins anew because the record was changed while its hook ran. */
const ATTEMPTS = 3;

export interface HookedParts {
  readonly store: RecordStore;
  readonly hooks: Hooks;
  readonly database: Database;
  readonly schemas: SchemaRegistry;
}

export function withRecordHooks(parts: HookedParts): RecordStore {
  const { store } = parts;
  const hooked = (schema: string, operation: RecordHookOperation): boolean =>
    parts.hooks.has(recordHookPoint(schema, operation));
  const ask = askWith(parts);

  return {
    ...store,
    async create(caller, schema, input, options) {
      if (!hooked(schema, 'create')) return store.create(caller, schema, input, options);
      return store.create(
        caller,
        schema,
        await ask(caller, { schema, operation: 'create', input }),
        options,
      );
    },
    async createMany(caller, schema, inputs, options) {
      if (!hooked(schema, 'create')) return store.createMany(caller, schema, inputs, options);
      const changed = await inParallel(inputs, (input) =>
        ask(caller, { schema, operation: 'create', input }),
      );
      return store.createMany(caller, schema, changed, options);
    },
    update: (...given) =>
      hooked(given[1], 'update') ? changeOne(parts, 'update', given) : store.update(...given),
    replace(...given) {
      const isHooked =
        hooked(given[1], 'update') || (given[4]?.upsert && hooked(given[1], 'create'));
      return isHooked ? changeOne(parts, 'replace', given) : store.replace(...given);
    },
    updateMany: (...given) =>
      hooked(given[1], 'update') ? changeMany(parts, 'update', given) : store.updateMany(...given),
    replaceMany: (...given) =>
      hooked(given[1], 'update')
        ? changeMany(parts, 'replace', given)
        : store.replaceMany(...given),
    remove: (...given) =>
      hooked(given[1], 'delete') ? removeOne(parts, given) : store.remove(...given),
    updateWhere: (...given) =>
      hooked(given[1], 'update') ? updateSelected(parts, given) : store.updateWhere(...given),
    removeWhere: (...given) =>
      hooked(given[1], 'delete') ? removeSelected(parts, given) : store.removeWhere(...given),
  };
}

/** The input as the hooks left it. */
export const askWith =
  ({ hooks }: Pick<HookedParts, 'hooks'>) =>
  async (caller: Caller, value: RecordHookValue): Promise<RecordInput> => {
    const point = recordHookPoint(value.schema, value.operation);
    const { input } = await hooks.run(point, caller, value);
    return input ?? value.input ?? {};
  };

async function inParallel<I, O>(
  items: readonly I[],
  work: (item: I, index: number) => Promise<O>,
): Promise<readonly O[]> {
  const results: O[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    const some = items.slice(at, at + AT_ONCE);
    results.push(...(await Promise.all(some.map((item, i) => placed(at + i, work(item, at + i))))));
  }
  return results;
}

/** Says which of many a refusal is about. */
async function placed<T>(index: number, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PenstockError) || error.status >= 500) throw error;
    const errors = error.errors ?? [{ path: '', rule: 'hook', message: error.message }];
    const at = (path: string): string => (path === '' ? `docs.${index}` : `docs.${index}.${path}`);
    throw new PenstockError(error.code, error.status, error.message, {
      errors: errors.map((problem) => ({ ...problem, path: at(problem.path) })),
      cause: error,
    });
  }
}

const isOutdated = (error: unknown): boolean =>
  error instanceof PenstockError && error.status === 412;

/** Runs a write that holds only for the record that its hook saw; again when that was changed meanwhile. */
async function whileUnchanged<T>(isAsked: boolean, write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write();
    } catch (error) {
      if (isAsked || attempt === ATTEMPTS || !isOutdated(error)) throw error;
    }
  }
}

type Update = Parameters<RecordStore['update']>;

function changeOne(
  parts: HookedParts,
  kind: 'update' | 'replace',
  [caller, schema, id, input, options = {}]: Update,
): Promise<RecordText> {
  const { store } = parts;
  return whileUnchanged(options.expectedVersion !== undefined, async () => {
    const seen = await lookAtOne(parts, schema, id);
    const operation = seen || !options.upsert ? 'update' : 'create';
    // What is not there is for the store to say.
    if (!seen && operation === 'update') return store[kind](caller, schema, id, input, options);
    const named = { id: seen?.id ?? id, previous: seen?.record };
    const value = { schema, operation, input, ...named } as const;
    const changed = await askWith(parts)(caller, value);
    return store[kind](caller, schema, id, changed, unchanged(options, seen));
  });
}

/** The write holds for the version that was seen, unless the caller names one. */
const unchanged = <O extends Pick<WriteOptions, 'expectedVersion'>>(
  options: O,
  seen: Seen | undefined,
): O =>
  options.expectedVersion !== undefined || seen?.version === undefined
    ? options
    : { ...options, expectedVersion: seen.version };

function removeOne(
  parts: HookedParts,
  [caller, schema, id, options = {}]: Parameters<RecordStore['remove']>,
): Promise<void> {
  return whileUnchanged(options.expectedVersion !== undefined, async () => {
    const seen = await lookAtOne(parts, schema, id);
    if (!seen) return parts.store.remove(caller, schema, id, options);
    const named = { id: seen.id, previous: seen.record };
    await askWith(parts)(caller, { schema, operation: 'delete', ...named });
    return parts.store.remove(caller, schema, id, unchanged(options, seen));
  });
}

type UpdateMany = Parameters<RecordStore['updateMany']>;

/** Each by itself, in one transaction, after all hooks have agreed. */
async function changeMany(
  parts: HookedParts,
  kind: 'update' | 'replace',
  [caller, schema, inputs, options = {}]: UpdateMany,
): Promise<readonly RecordText[]> {
  const { store, database } = parts;
  const ids = inputs.map(({ _id }) => _id);
  const isSane = ids.every((id) => typeof id === 'string') && new Set(ids).size === ids.length;
  // Whatever is wrong with the list is for the store to say.
  if (!isSane || ids.length > MAX_SELECTED)
    return store[`${kind}Many`](caller, schema, inputs, options);
  return whileUnchanged(false, async () => {
    const there = await lookAtEach(parts, schema, ids as readonly string[]);
    if (!there) return store[`${kind}Many`](caller, schema, inputs, options);
    const changed = await inParallel(inputs, async ({ _id, ...input }, at) => {
      const seen = there[at] as Seen;
      const { id, record: previous } = seen;
      const value = { schema, operation: 'update', input, id, previous } as const;
      return { seen, id: String(_id), input: await askWith(parts)(caller, value) };
    });
    return database.transaction(async () => {
      const written: RecordText[] = [];
      for (const [i, { seen, id, input }] of changed.entries()) {
        const write = store[kind](caller, schema, id, input, unchanged(options, seen));
        written.push(await placed(i, write));
      }
      return written;
    });
  });
}

/** The records that a condition means for the caller. Throws 400 where there are too many to ask a hook about each. */
async function selected(
  { store }: HookedParts,
  caller: Caller,
  schema: string,
  { filter, ...options }: SelectionOptions,
): Promise<readonly string[]> {
  const found = JSON.parse(
    await store.select(caller, schema, {
      ...options,
      filter: all(filter),
      limit: 1,
      granted: true,
    }),
  ) as { readonly count: number };
  if (found.count > MAX_SELECTED)
    throw invalid('query', 'count', `a hook looks at each record: at most ${MAX_SELECTED} at once`);
  const json = await store.find(caller, schema, { ...options, filter, granted: true });
  return (JSON.parse(json) as readonly { readonly _id: string }[]).map(({ _id }) => _id);
}

const operators = {
  increment: '$inc',
  decrement: '$inc',
  append: '$push',
  remove: '$pull',
} as const;

/** Assignments as the input of an update, which is what hooks look at. */
function inputOf(assignments: readonly Assignment[]): RecordInput {
  const input: Record<string, unknown> = {};
  for (const { field, action, value } of assignments) {
    if (action === 'set') input[field] = value;
    else {
      const name = operators[action];
      const signed = action === 'decrement' ? -Number(value) : value;
      input[name] = { ...(input[name] as object | undefined), [field]: signed };
    }
  }
  return input;
}

async function updateSelected(
  parts: HookedParts,
  [caller, schema, assignments, options]: Parameters<RecordStore['updateWhere']>,
): Promise<number> {
  const { filter: _, ...rest } = options;
  const ids = await selected(parts, caller, schema, options);
  await parts.database.transaction(async () => {
    for (const id of ids)
      await changeOne(parts, 'update', [caller, schema, id, inputOf(assignments), rest]);
  });
  return ids.length;
}

async function removeSelected(
  parts: HookedParts,
  [caller, schema, options]: Parameters<RecordStore['removeWhere']>,
): Promise<number> {
  const { filter: _, ...rest } = options;
  const ids = await selected(parts, caller, schema, options);
  await parts.database.transaction(async () => {
    for (const id of ids) await removeOne(parts, [caller, schema, id, rest]);
  });
  return ids.length;
}
