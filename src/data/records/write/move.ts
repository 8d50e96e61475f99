/**
 * Gives records another owner. Whoever has the action `move` of a record may do it, for an owner for whom they may
 * create; where the type has an action `create`, it is asked of the record as it is then.
 */

import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid, relocated } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import type { Owner, PermissionEngine } from '../../../kernel/permissions.ts';
import { isTrusted } from '../access/operation-access.ts';
import { recordErrors } from '../errors.ts';
import type { RecordRow } from '../read/record-view.ts';
import { filteredStatement } from '../read/selection.ts';
import { changedRows, touched } from '../sql/changed-rows.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { idsTest, live } from '../sql/row-id.ts';
import type { RecordStore, RecordText } from '../store.ts';
import { MAX_BULK } from './bulk.ts';
import { asMoved } from './created-answer.ts';
import { missError } from './missed-records.ts';
import { requirePlacement } from './placement.ts';
import { withAnswer } from './statements.ts';
import {
  announceEvents,
  askGate,
  type OpenWrite,
  requireId,
  runWrite,
  type WriteContext,
} from './write-context.ts';

interface Move {
  readonly ids: readonly string[];
  /** `Type:id` of the new owner; the caller unless given. */
  readonly to: string | undefined;
}

/** The call of the store. */
export const createMoves =
  (write: OpenWrite): RecordStore['move'] =>
  async (caller, name, ids, { to, ...options } = {}) =>
    moveRecords(await write(caller, name, 'update', { ...options, ids, action: 'move' }), {
      ids,
      to,
    });

/** All of them or none. Throws 400, 403, 404 or 412. The answer is what the caller may see of them then. */
async function moveRecords(
  context: WriteContext,
  { ids, to }: Move,
): Promise<readonly RecordText[]> {
  const { schema, caller, dependencies } = context;
  const { engine } = dependencies.permissions;
  if (!engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  requireMovable(context);
  const requested = distinctIds(context, ids);
  if (to === undefined && isTrusted(caller)) throw invalid('to', 'required', 'name the new owner');
  const owner = await ownerOf(engine, context, to);
  const moved = await dependencies.database.transaction(async (transaction) => {
    const touched = await touchRows(context, requested, transaction);
    const to = `${owner.type}:${owner.id}`;
    await askGate(context, { schema: schema.name, operation: 'update', ids: requested, owner: to });
    await engine.changeOwner(caller, schema.name, requested, owner);
    await requireCreatable(context, engine, requested);
    return asMoved(context, touched, transaction);
  });
  announceEvents(dependencies);
  const byId = new Map(moved.map((row) => [row.id, row]));
  return requested.flatMap((id) => byId.get(id) ?? []);
}

/** Who will own them; what is wrong with it is told by its name here. */
async function ownerOf(
  engine: PermissionEngine,
  { caller, schema }: WriteContext,
  to: string | undefined,
): Promise<Owner> {
  try {
    return await engine.owner(caller, schema.name, to);
  } catch (error) {
    throw relocated(error, (path) => (path === 'scope' ? 'to' : path));
  }
}

function requireMovable({ schema }: WriteContext): void {
  const { authorization } = schema.modelOptions.conduit;
  if (authorization.enabled && !schema.mapping) return;
  throw errors.FORBIDDEN({ message: `Records of ${schema.name} have no owner by permission` });
}

function distinctIds(context: WriteContext, ids: readonly string[]): readonly string[] {
  if (ids.length > MAX_BULK)
    throw invalid('ids', 'maxItems', `at most ${MAX_BULK} records at once`);
  return ids.map((id, i) => {
    const place = ids.length === 1 ? 'id' : `ids.${i}`;
    requireId(context.schema, id, place);
    if (ids.indexOf(id) !== i) throw invalid(place, 'unique', 'this record is there twice');
    return id.toLowerCase();
  });
}

/** A new version of each, for those who watch them. Throws for one that the caller may not move. */
async function touchRows(
  context: WriteContext,
  ids: readonly string[],
  transaction: Transaction,
): Promise<readonly RecordRow[]> {
  const { schema, caller, dependencies, predicate, populate, conditions, options } = context;
  const statement = filteredStatement(
    dependencies.plans,
    { schema, values: [actorOf(caller), ids] },
    (parameters) => {
      const { expectedVersion } = options;
      const version =
        expectedVersion === undefined
          ? ''
          : ` and t0."__v" = ${parameters.next(expectedVersion)}::integer`;
      const where = `${idsTest(schema, 't0', '$2')}${version}${live(schema, 't0')}${restriction(predicate, 't0', parameters, 'row')}`;
      const change = changedRows(schema, { set: touched, where, operation: 'update', many: true });
      return withAnswer(
        schema,
        change,
        { kind: 'update', many: true, populate, conditions },
        parameters,
      );
    },
  );
  const rows = await runWrite<RecordRow>(context, statement, transaction);
  const found = new Set(rows.map(({ id }) => id));
  const missing = ids.find((id) => !found.has(id));
  if (missing !== undefined) throw await missError(context, missing, { database: transaction });
  return rows;
}

/** Nobody moves records to where they could not create them. */
async function requireCreatable(
  context: WriteContext,
  engine: PermissionEngine,
  ids: readonly string[],
): Promise<void> {
  const { caller, schema } = context;
  const placement = isTrusted(caller) ? undefined : await engine.placement(caller, schema.name);
  if (placement) await requirePlacement(context, { compared: [], placement }, [{ moved: ids }]);
}
