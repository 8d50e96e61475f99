/** Records that belong to the user who created them (`owner` of a schema): a rule on rows that needs no permission engine. */
import type { Caller } from '../caller.ts';
import { identifier } from '../database/sql.ts';
import type { RecordAction, RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import type { CrudOperation } from '../schema/options.ts';

const operations = { read: 'read', edit: 'update', delete: 'delete' } as const;

/** True when only the owner may do this. */
export const isOwnersOnly = ({ modelOptions }: CompiledSchema, action: RecordAction): boolean =>
  modelOptions.conduit.owner?.limit?.includes(operations[action]) ?? false;

/** True when this cannot be done without being somebody. */
export function needsOwner({ modelOptions }: CompiledSchema, operation: CrudOperation): boolean {
  const { owner } = modelOptions.conduit;
  return owner ? operation === 'create' || (owner.limit?.includes(operation) ?? false) : false;
}

/** The rows that belong to the caller. */
export function ownedRows({ modelOptions }: CompiledSchema, caller: Caller): RowPredicate {
  const field = identifier(modelOptions.conduit.owner?.field ?? '');
  const userId = caller.kind === 'user' ? caller.userId : null;
  return {
    shape: 'own',
    compile: (_id, next, _use, alias) => `${alias}.${field} = ${next(userId)}::uuid`,
  };
}

/** Rows that fit both. */
export const bothRules = (one: RowPredicate, other: RowPredicate): RowPredicate => ({
  shape: `${one.shape}&${other.shape}`,
  compile: (...parts) => `(${one.compile(...parts)}) and (${other.compile(...parts)})`,
});
