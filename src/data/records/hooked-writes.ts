/** Changing and deleting one record that its hook has looked at. */
import type { Caller } from '../../kernel/caller.ts';
import { errors, PenstockError } from '../../kernel/errors.ts';
import { all, type Condition } from '../conditions/condition.ts';
import { asksMore } from './access/granted-rows.ts';
import { isRowAuthorised } from './access/operation-access.ts';
import { askWith, type HookedParts } from './record-hook-value.ts';
import { lookAtOne, type Seen } from './seen-records.ts';
import type { RecordStore, RecordText, WriteOptions } from './store.ts';

/** How often a write begins anew because the record was changed while its hook ran. */
const ATTEMPTS = 3;

const isOutdated = (error: unknown): boolean =>
  error instanceof PenstockError && error.status === 412;

/** Runs a write that holds only for the record that its hook saw; again when that was changed meanwhile. */
export async function whileUnchanged<T>(isAsked: boolean, write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write();
    } catch (error) {
      if (isAsked || attempt === ATTEMPTS || !isOutdated(error)) throw error;
    }
  }
}

/** What a write is about before its hook is asked. */
export interface AskedWrite {
  readonly caller: Caller;
  readonly schema: string;
  readonly operation: 'update' | 'delete';
  /** By condition: whoever does not fit it any more is passed over. */
  readonly filter?: Condition | undefined;
  /** Fields that are to be set. */
  readonly fields: readonly string[];
  readonly options: WriteOptions;
}

/**
 * Whether the write may change all of the records that were seen. A hook is not asked about others: what it says would
 * tell somebody of a record that is not theirs. Throws 412 where one of them has changed since.
 */
export async function areMeant(
  { store, schemas }: HookedParts,
  { caller, schema, operation, filter, fields, options }: AskedWrite,
  there: readonly Seen[],
): Promise<boolean> {
  const about = schemas.get(schema);
  const action = operation === 'delete' ? 'delete' : 'edit';
  const isRuled = (about && isRowAuthorised(caller, about, action)) || asksMore(caller, options);
  if (!isRuled && !filter) return true;
  const { expectedVersion: _, populate: __, ...rights } = options;
  const found = await store.meant(caller, schema, operation, {
    ...rights,
    ...{ filter: filter ?? all(), fields, among: there.map(({ id }) => id), limit: there.length },
  });
  const versions = new Map(found.map(({ id, version }) => [id, version]));
  if (there.some(({ id, version }) => versions.has(id) && versions.get(id) !== version))
    throw errors.PRECONDITION_FAILED();
  return there.every(({ id }) => versions.has(id));
}

/**
 * The store says itself what is wrong. Where nothing is, any more, the write was not asked about: it is taken back, and
 * all begins anew.
 */
export const refused = <T>({ database }: HookedParts, write: () => Promise<T>): Promise<T> =>
  database.transaction(async () => {
    await write();
    throw errors.PRECONDITION_FAILED();
  });

type Update = Parameters<RecordStore['update']>;

export const changeOne = (
  parts: HookedParts,
  kind: 'update' | 'replace',
  given: Update,
): Promise<RecordText> =>
  whileUnchanged(given[4]?.expectedVersion !== undefined, async () => {
    const [caller, schema, id, input, options = {}] = given;
    const write = (): Promise<RecordText> => parts.store[kind](caller, schema, id, input, options);
    const seen = await lookAtOne(parts, schema, id);
    if (!seen && options.upsert && kind === 'replace') return createUnder(parts, given);
    const fields = Object.keys(input);
    const asked = { caller, schema, operation: 'update', fields, options } as const;
    if (!seen || !(await areMeant(parts, asked, [seen]))) return refused(parts, write);
    return changeSeen(parts, kind, given, seen);
  });

async function changeSeen(
  parts: HookedParts,
  kind: 'update' | 'replace',
  [caller, schema, id, input, options = {}]: Update,
  seen: Seen,
): Promise<RecordText> {
  const value = { schema, operation: 'update', input, id: seen.id, previous: seen.record } as const;
  const changed = await askWith(parts)(caller, value);
  return parts.store[kind](caller, schema, id, changed, unchanged(options, seen));
}

/** Was there none when its hook was asked, then there must be none: who is faster has made a record to be asked about. */
async function createUnder(
  parts: HookedParts,
  [caller, schema, id, input, options]: Update,
): Promise<RecordText> {
  const changed = await askWith(parts)(caller, { schema, operation: 'create', input, id });
  return parts.store.replace(caller, schema, id, changed, { ...options, absent: true });
}

/** The write holds for the version that was seen, unless the caller names one. */
export const unchanged = (options: WriteOptions, seen: Seen): WriteOptions =>
  options.expectedVersion !== undefined || seen.version === undefined
    ? options
    : { ...options, expectedVersion: seen.version };

type Remove = Parameters<RecordStore['remove']>;

export const removeOne = (parts: HookedParts, given: Remove): Promise<void> =>
  whileUnchanged(given[3]?.expectedVersion !== undefined, async () => {
    const [caller, schema, id, options = {}] = given;
    const seen = await lookAtOne(parts, schema, id);
    const asked = { caller, schema, operation: 'delete', fields: [], options } as const;
    if (!seen || !(await areMeant(parts, asked, [seen])))
      return refused(parts, () => parts.store.remove(caller, schema, id, options));
    return removeSeen(parts, given, seen);
  });

export async function removeSeen(
  parts: HookedParts,
  [caller, schema, id, options = {}]: Remove,
  seen: Seen,
): Promise<void> {
  const named = { id: seen.id, previous: seen.record };
  await askWith(parts)(caller, { schema, operation: 'delete', ...named });
  return parts.store.remove(caller, schema, id, unchanged(options, seen));
}
