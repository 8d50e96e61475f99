/** What an offer asks of its callers beside what the schema asks (`Grant` of store.ts): actions of one's own. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors, type PenstockError, relocated } from '../../../kernel/errors.ts';
import type {
  PermissionEngine,
  PermissionPort,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { recordErrors } from '../errors.ts';
import { idsTest, idTest } from '../sql/row-id.ts';
import type { Grant, NeededAction } from '../store.ts';
import { bothRules, canonicalIds, isOwnersOnly, isTrusted } from './operation-access.ts';

interface Dependencies {
  readonly permissions: PermissionPort;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}

interface Asked {
  readonly caller: Caller;
  readonly scope: string | undefined;
  /** Further rows that the caller must be able to act on, where they are of this schema. */
  readonly also?: { readonly schema: string; readonly action: string } | undefined;
  readonly needs: Grant['needs'];
  /** The records that it is about, where they are known. */
  readonly ids?: readonly string[] | undefined;
}

/** True when there is something to ask. */
export const asksMore = (caller: Caller, { needs }: Pick<Grant, 'needs'>): boolean =>
  needs !== undefined && !isTrusted(caller);

/** Those of the rows for which everything holds. Throws 403 when the caller lacks an action on the record that is named. */
export async function grantedRows(
  dependencies: Dependencies,
  { caller, scope, also, needs, ids }: Asked,
  rows: RowPredicate | undefined,
): Promise<RowPredicate | undefined> {
  if (isTrusted(caller) || (!also && !needs)) return rows;
  const { engine } = dependencies.permissions;
  if (!engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  const ownSchema = also && dependencies.schemas.get(also.schema);
  const about = ownSchema && ids && canonicalIds(ownSchema, ids);
  const found = [
    rows,
    also && (await engine.predicate(caller, also.action, also.schema, { scope, ids: about })),
    needs && (await recordHolds(dependencies, engine, { caller, scope, needs })),
  ].filter((one) => one !== undefined);
  return found.reduce(bothRules);
}

interface Named {
  readonly caller: Caller;
  readonly scope: string | undefined;
  readonly needs: NeededAction;
}

/** True for every row while the caller has the action on the record, by the statement itself. */
async function recordHolds(
  { schemas }: Dependencies,
  engine: PermissionEngine,
  { caller, scope, needs }: Named,
): Promise<RowPredicate> {
  await requireAction(engine, { caller, scope, needs });
  const target = schemas.get(needs.schema);
  if (!target) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  const about = canonicalIds(target, [needs.id]);
  const held = await engine.predicate(caller, needs.action, needs.schema, { scope, ids: about });
  return {
    shape: `needs ${needs.schema}:${held.shape}`,
    compile(_id, next) {
      const test = held.compile('g0."_id"', next, 'row', 'g0');
      const id = target.mapping ? next(needs.id) : `${next(needs.id)}::uuid`;
      return `exists (select 1 from ${target.rows} g0 where ${idTest(target, 'g0', id)} and (${test}))`;
    },
  };
}

/** Throws 403, and 400 with its place for what is no id at all. */
async function requireAction(
  engine: PermissionEngine,
  { caller, scope, needs }: Named,
): Promise<void> {
  const { schema, id, action, place } = needs;
  const may = await engine.check(caller, action, `${schema}:${id}`, scope).catch((error) => {
    throw relocated(error, (path) => (path === 'resource' ? place : path));
  });
  if (!may) throw lacksAction(needs);
}

interface WithDatabase extends Dependencies {
  readonly database: Queryable;
}

/** The same, of a record that is there: relations and rules also hold about what lies in the trash. */
export async function requireActionOnRecord(
  { permissions, schemas, database }: WithDatabase,
  named: Named,
): Promise<void> {
  const { schema, id } = named.needs;
  if (!permissions.engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  await requireAction(permissions.engine, named);
  const target = schemas.get(schema);
  if (!target) return;
  const text = `select 1 from ${target.rows} g0 where ${idsTest(target, 'g0', '$1')}`;
  const values = [canonicalIds(target, [id])];
  const { rows } = await database.query({ text, values });
  if (rows.length === 0) throw lacksAction(named.needs);
}

/** 403 for a change of rows that the caller may read: what it would take. */
export function lacksRows({ schema, operation, options }: LackedRows): PenstockError {
  const { action: asked, needs } = options;
  const action = operation === 'delete' ? 'delete' : 'edit';
  const { authorization, owner } = schema.modelOptions.conduit;
  const ofOwner = isOwnersOnly(schema, action);
  if (!authorization.enabled)
    return needs && !ofOwner
      ? lacksAction(needs)
      : errors.FORBIDDEN({
          message: `Only the owner of a record of ${schema.name} may ${action} it`,
        });
  const permitted = lackMessage({ action: asked ?? action, schema: schema.name });
  const message = ofOwner
    ? `${permitted}, ${owner?.combine ?? 'and'} to own the record`
    : permitted;
  return errors.FORBIDDEN({ message });
}

interface LackedRows {
  readonly schema: CompiledSchema;
  readonly operation: 'create' | 'update' | 'delete';
  readonly options: Grant;
}

const lackMessage = ({ action, schema }: Pick<NeededAction, 'action' | 'schema'>): string =>
  `This needs the action "${action}" on ${schema}`;

const lacksAction = (needed: NeededAction) => errors.FORBIDDEN({ message: lackMessage(needed) });
