/**
 * Locks records that one transaction is about to change, in one order for everybody: two transactions that share several
 * and change them in opposite orders would end each other. Rights come first: only those are locked that the caller may
 * change, so nobody keeps the records of others from them.
 */
import type { Caller } from '../../../kernel/caller.ts';
import { canonicalId, isRecordId } from '../../schema/language/record-key.ts';
import { createParameters, restriction } from '../sql/prepared-statements.ts';
import { live } from '../sql/row-id.ts';
import type { RecordHolder } from '../store.ts';
import { type OpenWrite, runWrite, type WriteContext } from './write-context.ts';

/** Records of one schema that are changed with the same rights. */
interface Group {
  readonly context: WriteContext;
  readonly ids: Set<string>;
}

export function createRecordLocks(write: OpenWrite, caller: Caller): RecordHolder {
  const groups = new Map<string, Group>();
  return {
    async add(schema, operation, id, { scope } = {}) {
      const key = JSON.stringify([schema, operation, scope]);
      const known = groups.get(key);
      const group = known ?? {
        context: await write(caller, schema, operation, { ...(scope !== undefined && { scope }) }),
        ids: new Set(),
      };
      groups.set(key, group);
      group.ids.add(id);
    },
    async lock() {
      const bySchema = [...Map.groupBy(groups.values(), ({ context }) => context.schema.name)];
      bySchema.sort(([one], [other]) => (one < other ? -1 : 1));
      for (const [, ofSchema] of bySchema) await lockGroups(ofSchema);
    },
  };
}

/** Of one schema. Ids that are none, and rows that are missing or not the caller's to change, are left alone. */
async function lockGroups(groups: readonly Group[]): Promise<void> {
  const [first] = groups;
  // Tables of others may be views, whose rows cannot be locked.
  if (!first || first.context.schema.mapping) return;
  const { schema } = first.context;
  const parameters = createParameters();
  const tests = groups.map(({ context, ids }) => {
    const known = [...ids]
      .filter((id) => isRecordId(schema.key, id))
      .map((id) => canonicalId(schema.key, id));
    return `(t0."_id" = any(${parameters.next(known)}::uuid[])${restriction(context.predicate, 't0', parameters)})`;
  });
  const strength = groups.some(({ context }) => context.operation === 'delete')
    ? 'update'
    : 'no key update';
  const text = `select 1 from ${schema.table} t0 where (${tests.join(' or ')})${live(schema, 't0')} order by t0."_id" for ${strength} of t0`;
  await runWrite(first.context, { text, values: parameters.values });
}
