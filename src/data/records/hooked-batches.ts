/** Changing and deleting many records that hooks look at one by one. */
import { invalid, PenstockError } from '../../kernel/errors.ts';
import type { Condition } from '../conditions/condition.ts';
import { inputOf, leftBy } from './hooked-assignments.ts';
import {
  type AskedWrite,
  areMeant,
  refused,
  removeSeen,
  unchanged,
  whileUnchanged,
} from './hooked-writes.ts';
import { askWith, type HookedParts } from './record-hook-value.ts';
import { lookAtEach, lookAtOne, type Seen } from './seen-records.ts';
import type { RecordStore, RecordText } from './store.ts';

/** Records of one call by condition while a hook looks at each. */
export const MAX_SELECTED = 1_000;
/** Hooks of one call that run at a time. */
const AT_ONCE = 8;

export async function inParallel<I, O>(
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
    const problems = error.errors ?? [{ path: '', rule: 'hook', message: error.message }];
    const at = (path: string): string => (path === '' ? `docs.${index}` : `docs.${index}.${path}`);
    throw new PenstockError(error.code, error.status, error.message, {
      errors: problems.map((problem) => ({ ...problem, path: at(problem.path) })),
      cause: error,
    });
  }
}

type UpdateMany = Parameters<RecordStore['updateMany']>;

/** Each by itself, in one transaction, after all hooks have agreed. */
export async function changeMany(
  parts: HookedParts,
  kind: 'update' | 'replace',
  [caller, schema, inputs, options = {}]: UpdateMany,
): Promise<readonly RecordText[]> {
  const { store, database } = parts;
  const write = () => store[`${kind}Many`](caller, schema, inputs, options);
  const ids = inputs.map(({ _id }) => _id);
  const isSane = ids.every((id) => typeof id === 'string') && new Set(ids).size === ids.length;
  // Whatever is wrong with the list is for the store to say.
  if (!isSane || ids.length > MAX_SELECTED) return write();
  return whileUnchanged(false, async () => {
    const there = await lookAtEach(parts, schema, ids as readonly string[]);
    // Which fields may be set in which of them is for the store to say.
    const asked = { caller, schema, operation: 'update', fields: [], options } as const;
    if (!there || !(await areMeant(parts, asked, there))) return refused(parts, write);
    const changed = await inParallel(inputs, async ({ _id, ...input }, at) => {
      const seen = there[at] as Seen;
      const { id, record: previous } = seen;
      const value = { schema, operation: 'update', input, id, previous } as const;
      return { seen, id: String(_id), input: await askWith(parts)(caller, value) };
    });
    return database.transaction(async () => {
      const written: RecordText[] = [];
      for (const [i, { seen, id, input }] of changed.entries()) {
        const one = store[kind](caller, schema, id, input, unchanged(options, seen));
        written.push(await placed(i, one));
      }
      return written;
    });
  });
}

/**
 * Writes to each record that a condition means for the caller, in one transaction. What does not fit any more when its turn
 * comes is passed over. Throws 400 where there are too many to ask a hook about each.
 */
async function writeSelected(
  parts: HookedParts,
  asked: AskedWrite & { readonly filter: Condition },
  write: (seen: Seen) => Promise<unknown>,
): Promise<number> {
  const { caller, schema, operation, filter, fields, options } = asked;
  const question = { ...options, filter, fields, limit: MAX_SELECTED + 1 };
  const meant = await parts.store.meant(caller, schema, operation, question);
  if (meant.length > MAX_SELECTED)
    throw invalid('query', 'count', `a hook looks at each record: at most ${MAX_SELECTED} at once`);
  return parts.database.transaction(async () => {
    let count = 0;
    for (const { id } of meant)
      await whileUnchanged(false, async () => {
        const seen = await lookAtOne(parts, schema, id);
        if (!seen || !(await areMeant(parts, asked, [seen]))) return;
        await write(seen);
        count += 1;
      });
    return count;
  });
}

export async function updateSelected(
  parts: HookedParts,
  [caller, schema, assignments, { filter, ...options }]: Parameters<RecordStore['updateWhere']>,
): Promise<number> {
  const fields = assignments.map(({ field }) => field);
  const asked = { caller, schema, operation: 'update', filter, fields, options } as const;
  return writeSelected(parts, asked, async (seen) => {
    const { id, record: previous } = seen;
    const told = inputOf(parts.schemas.get(schema), assignments);
    const value = {
      schema,
      operation: 'update',
      input: structuredClone(told),
      id,
      previous,
    } as const;
    const changed = await askWith(parts)(caller, value);
    const { input, assigned } = leftBy(changed, told, assignments);
    await parts.store.update(caller, schema, id, input, { ...unchanged(options, seen), assigned });
  });
}

export async function removeSelected(
  parts: HookedParts,
  [caller, schema, { filter, ...options }]: Parameters<RecordStore['removeWhere']>,
): Promise<number> {
  const asked = { caller, schema, operation: 'delete', filter, fields: [], options } as const;
  return writeSelected(parts, asked, (seen) =>
    removeSeen(parts, [caller, schema, seen.id, options], seen),
  );
}
