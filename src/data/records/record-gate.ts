/**
 * Who is asked before records are changed that no call gives the new values of: dependants that go or lose a link with
 * another record, records that come out of the trash or change their owner, and earlier versions (made in hook-gate.ts).
 */
import type { Caller } from '../../kernel/caller.ts';
import type { RecordInput } from './store.ts';

export interface GatedChange {
  readonly schema: string;
  readonly operation: 'create' | 'update' | 'delete';
  readonly ids: readonly string[];
  /** What the change sets, the same in all of them. */
  readonly input?: RecordInput;
  /** `Type:id` of who will own them. */
  readonly owner?: string;
  /** They are in the trash, and come back. */
  readonly deleted?: boolean;
}

export interface RecordGate {
  /** Whether anybody is to be asked. */
  asks({ schema, operation }: Pick<GatedChange, 'schema' | 'operation'>): boolean;
  /**
   * About each of the records that is there. They are locked, and the transaction of the change is open: what is asked
   * sees it, and its own writes are part of it. Throws what refuses the change, or 409 for too many records.
   */
  ask(caller: Caller, change: GatedChange): Promise<void>;
  /** The same about new values of one record. Answers them as they were left. */
  input(
    caller: Caller,
    change: Omit<GatedChange, 'ids'> & { readonly id: string; readonly input: RecordInput },
  ): Promise<RecordInput>;
}
