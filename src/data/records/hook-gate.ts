/** Hooks before changes that no call of the record store names (contract: record-gate.ts). */
import type { Caller } from '../../kernel/caller.ts';
import type { Hooks } from '../../kernel/hooks/hooks.ts';
import { recordErrors } from './errors.ts';
import { MAX_SELECTED } from './hooked-batches.ts';
import type { RecordGate } from './record-gate.ts';
import { askWith, type RecordHookValue, recordHookPoint } from './record-hook-value.ts';
import { withRecordHooks } from './record-hooks.ts';
import { createRecordStore, type RecordStoreOptions } from './record-store.ts';
import { type LookParts, look, lookAtOne } from './seen-records.ts';
import type { RecordInput, RecordStore } from './store.ts';

/** Records that are held in memory while hooks look at them. */
const PAGE = 100;

/** The record store with hooks before everything that it writes. */
export function createHookedRecords(options: RecordStoreOptions, hooks: Hooks): RecordStore {
  const { schemas, database } = options;
  const parts = { schemas, store: (): RecordStore => store };
  const gate = createHookGate(hooks, () => ({ schemas: parts.schemas, store: parts.store() }));
  const store: RecordStore = createRecordStore({ ...options, gate });
  return withRecordHooks({ store, hooks, database, schemas });
}

function createHookGate(hooks: Hooks, parts: () => LookParts): RecordGate {
  const ask = askWith({ hooks });
  return {
    asks: ({ schema, operation }) => hooks.has(recordHookPoint(schema, operation)),
    async ask(caller, { ids, deleted = false, ...change }) {
      requireFew(caller, change.schema, ids.length);
      for (let at = 0; at < ids.length; at += PAGE) {
        const some = ids.slice(at, at + PAGE);
        const there = await look(parts(), { schema: change.schema, ids: some, deleted });
        // One after the other: they share a transaction.
        for (const { id, record: previous } of there.values()) {
          const given = deleted ? { input: fieldsOf(previous) } : {};
          await ask(caller, { ...change, ...given, id, previous });
        }
      }
    },
    async input(caller, change) {
      const seen = await lookAtOne(parts(), change.schema, change.id);
      const value: RecordHookValue = { ...change, previous: seen?.record };
      return ask(caller, value);
    },
  };
}

/** The platform's own work is not cut short: nobody could ask for the rest of it. */
function requireFew({ kind }: Caller, schema: string, count: number): void {
  if (kind === 'system' || count <= MAX_SELECTED) return;
  const message = `A hook looks at each record of ${schema}: at most ${MAX_SELECTED} at once, and more depend on this. Go step by step`;
  throw recordErrors.DEPENDANT_LIMIT_EXCEEDED({ message });
}

const automatic: ReadonlySet<string> = new Set([
  ...['_id', '__v', 'createdAt', 'updatedAt', 'deletedAt'],
]);

/** What a caller could have given. */
const fieldsOf = (record: RecordInput): RecordInput =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !automatic.has(name)));
