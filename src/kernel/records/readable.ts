/**
 * Who may read, asked without reading: the same rules as `get`, for whoever tells of records instead of showing them
 * (realtime). There is no second reading of the options of a schema.
 */
import type { Caller } from '../caller.ts';
import type { LostRelation } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { isRecordId } from '../schema/mapping/key.ts';
import { isRowAuthorised, requireOffered, rowPredicate } from './access.ts';
import type { OpenDesk } from './desk.ts';
import { recordErrors } from './errors.ts';
import { idTest } from './mapped/row-id.ts';
import { restriction } from './parameters.ts';
import { type RecordDependencies, runRead } from './reads.ts';

export interface RecordAccess {
  /** `all`: whatever is there; `some`: each record must be asked about. Throws 401 and 404 as `list` does. */
  readable(caller: Caller, schema: string): Promise<'all' | 'some'>;
  /** Whether `get` would answer the record now. Throws 401, 404 for the schema, 503 while nobody can tell. */
  mayRead(caller: Caller, schema: string, id: string): Promise<boolean>;
  /** Whether the caller could read a record right before it was deleted, and `lost` with it. */
  couldRead(caller: Caller, schema: string, id: string, lost: readonly LostRelation[]): Promise<boolean>;
}

export function createRecordAccess(deskOf: OpenDesk): RecordAccess {
  const offered = async (caller: Caller, name: string) => {
    const { dependencies, schema: find } = await deskOf(caller, name);
    const schema = find(name);
    requireOffered(caller, schema, 'read');
    return { dependencies, schema, byRow: isRowAuthorised(caller, schema, 'read') };
  };
  return {
    readable: async (caller, name) => ((await offered(caller, name)).byRow ? 'some' : 'all'),
    async mayRead(caller, name, id) {
      const { dependencies, schema, byRow } = await offered(caller, name);
      return !byRow || (isRecordId(schema.key, id) && isThere(dependencies, { caller, schema, id }));
    },
    async couldRead(caller, name, id, lost) {
      const { dependencies, schema } = await offered(caller, name);
      // An owner changes by a change of the record, which is asked about by itself.
      if (!schema.modelOptions.conduit.authorization.enabled) return true;
      const { engine } = dependencies.permissions;
      if (!engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
      return engine.could(caller, 'read', `${name}:${id}`, lost);
    },
  };
}

interface Asked {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly id: string;
}

async function isThere(dependencies: RecordDependencies, { caller, schema, id }: Asked): Promise<boolean> {
  const predicate = await rowPredicate(dependencies.permissions, { caller, schema, action: 'read', scope: undefined });
  const request = { schema, shape: `readable|${predicate?.shape ?? ''}`, values: [id], dynamic: true };
  const statement = dependencies.plans.statement(
    request,
    (parameters) =>
      `select 1 from ${schema.rows} t0 where ${idTest(schema, 't0', '$1')}${restriction(predicate, 't0', parameters, 'row')} limit 1`,
  );
  return (await runRead(dependencies, schema, statement)).length > 0;
}
