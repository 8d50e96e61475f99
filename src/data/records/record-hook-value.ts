/** What hooks before writes are asked about, and how (record-hooks.ts). */
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import type { Hooks } from '../../kernel/hooks/hooks.ts';
import type { SchemaRegistry } from '../schema/registry/registry.ts';
import type { RecordInput, RecordStore } from './store.ts';

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

export interface HookedParts {
  readonly store: RecordStore;
  readonly hooks: Hooks;
  readonly database: Database;
  readonly schemas: SchemaRegistry;
}

/** The input as the hooks left it. */
export const askWith =
  ({ hooks }: Pick<HookedParts, 'hooks'>) =>
  async (caller: Caller, value: RecordHookValue): Promise<RecordInput> => {
    const point = recordHookPoint(value.schema, value.operation);
    const { input } = await hooks.run(point, caller, value);
    return input ?? value.input ?? {};
  };
