/**
 * Who may read, asked without reading: the same rules as `get`, for whoever tells of records instead of showing them
 * (realtime). There is no second reading of the options of a schema.
 */
import type { Caller } from '../../../kernel/caller.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isRecordId } from '../../schema/language/record-key.ts';
import { isRowAuthorised, requireOffered, rowPredicate } from '../access/operation-access.ts';
import type { OpenRequestScope } from '../access/request-scope.ts';
import { recordErrors } from '../errors.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { RecordAccess } from '../store.ts';
import { type RecordDependencies, runRead } from './record-view.ts';

export function createRecordAccess(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
): RecordAccess {
  const offered = async (caller: Caller, name: string) => {
    const { dependencies, schema: find } = await requestScopeOf(caller, name);
    const schema = find(name);
    requireOffered(caller, schema, 'read');
    return { dependencies, schema, byRow: isRowAuthorised(caller, schema, 'read') };
  };
  return {
    readable: async (caller, name) => ((await offered(caller, name)).byRow ? 'some' : 'all'),
    async mayRead(caller, name, id) {
      const { dependencies, schema, byRow } = await offered(caller, name);
      return (
        !byRow || (isRecordId(schema.key, id) && isThere(dependencies, { caller, schema, id }))
      );
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

async function isThere(
  dependencies: RecordDependencies,
  { caller, schema, id }: Asked,
): Promise<boolean> {
  const predicate = await rowPredicate(dependencies.permissions, {
    caller,
    schema,
    action: 'read',
    scope: undefined,
  });
  const request = {
    schema,
    shape: `readable|${predicate?.shape ?? ''}`,
    values: [id],
    dynamic: true,
  };
  const statement = dependencies.plans.statement(
    request,
    (parameters) =>
      `select 1 from ${schema.rows} t0 where ${idTest(schema, 't0', '$1')}${restriction(predicate, 't0', parameters, 'row')} limit 1`,
  );
  return (await runRead(dependencies, schema, statement)).length > 0;
}
