/** What becomes of records that were deleted or changed: the trash and the history, as the store offers them. */
import type { Caller } from '../../../kernel/caller.ts';
import { errors, PenstockError, type Problem } from '../../../kernel/errors.ts';
import { all } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Field, ObjectField } from '../../schema/language/field.ts';
import { historyTable } from '../../schema/migrations.ts';
import { isTrusted } from '../access/operation-access.ts';
import type { OpenRequestScope } from '../access/request-scope.ts';
import { recordErrors } from '../errors.ts';
import {
  type HistoryRequest,
  listVersions,
  pruneHistory,
  readVersion,
  requireHistory,
} from '../read/history.ts';
import type { RecordDependencies } from '../read/record-view.ts';
import { createRenderContext, selectList } from '../read/render.ts';
import type { RecordGate } from '../record-gate.ts';
import { createParameters } from '../sql/prepared-statements.ts';
import type { RecordHistory, RecordInput, RecordText, RecordTrash } from '../store.ts';
import { missError } from './missed-records.ts';
import { purgeExpired, purgeRecords, restoreRecord } from './trash.ts';
import { type Column, type ColumnValues, requireValid, validatorOf } from './validate.ts';
import {
  announceEvents,
  type OpenWrite,
  requireId,
  runWrite,
  type WriteContext,
} from './write-context.ts';
import { changeRecord, insertRecord } from './write-record.ts';
import { meantRecords } from './write-selected.ts';

/* Making a record what it was: checked against the schema of today, and a new version like any other change. */

/**
 * Sets every field that the caller may see and set to what it was; others stay as they are. For operators a
 * record that is gone for good is made again, under its id. Throws 400, 403, 404 or 412.
 */
async function restoreVersion(
  context: WriteContext,
  id: string,
  version: number,
): Promise<RecordText> {
  const { schema, caller, dependencies, rights } = context;
  requireHistory(schema);
  requireId(context.schema, id, 'id');
  return dependencies.database.transaction(async () => {
    const state = await stateOf(context, id, version);
    const { stored } = state;
    if (!stored) throw await absence(context, id);
    if (!state.exists && isTrusted(caller)) return reviveRecord(context, id, { ...state, stored });
    // What hooks and rules say of a record is not for those who may not change it.
    const about = { filter: all(), among: [id.toLowerCase()], limit: 1 };
    if (context.predicate && (await meantRecords(context, about)).length === 0)
      throw await missError(context, id);
    const kept = [...schema.tree.fields].filter(
      ([name, { hidden }]) => hidden || rights.denied.has(name) || rights.guarded.has(name),
    );
    const left = new Set(kept.map(([name]) => name));
    const input = Object.fromEntries(Object.entries(stored).filter(([name]) => !left.has(name)));
    const change = { schema: schema.name, operation: 'update', id, input } as const;
    const values = checked(schema, { ...stored, ...(await asked(context, change)) }, left);
    return changeRecord(context, id, values, { operation: 'restore' });
  });
}

/** There is no such version; who does not see the record does not learn even that. */
async function absence(context: WriteContext, id: string): Promise<Error> {
  const missing = recordErrors.VERSION_NOT_FOUND();
  if (isTrusted(context.caller)) return missing;
  const reason = await missError(context, id);
  return reason instanceof PenstockError && reason.code === 'RECORD_NOT_FOUND' ? reason : missing;
}

interface State {
  /** The row is there, in the trash or not. */
  readonly exists: boolean;
  /** Fields as they were; those that came later are missing. */
  readonly stored: Record<string, unknown> | undefined;
  readonly createdAt: Date;
  /** The highest version that was kept. */
  readonly last: number;
}

async function stateOf(context: WriteContext, id: string, version: number): Promise<State> {
  const { schema } = context;
  const parameters = createParameters([schema.name, id.toLowerCase(), version]);
  const list = selectList(openly(schema), 't0', new Map(), createRenderContext(parameters));
  const of = 'h.schema = $1 and h.record_id = $2';
  const text =
    `select exists (select 1 from ${schema.table} where "_id" = $2::uuid) as found, ` +
    `(select max(h.version) from ${historyTable} h where ${of}) as last, v.keys, v.json, v.created from (select 1) one left join lateral (` +
    `select array(select jsonb_object_keys(h.data)) as keys, t0."createdAt" as created, ` +
    `(select row_to_json(x.*) from (select ${list}) x) as json ` +
    `from ${historyTable} h cross join lateral jsonb_populate_record(null::${schema.table}, h.data) t0 ` +
    `where ${of} and h.version = $3 order by h.id desc limit 1) v on true`;
  const [row] = await runWrite<{
    found: boolean;
    last: number;
    keys: string[] | null;
    json: Record<string, unknown>;
    created: Date;
  }>(context, {
    text,
    values: parameters.values,
  });
  const stored =
    row?.keys &&
    Object.fromEntries(Object.entries(row.json).filter(([name]) => row.keys?.includes(name)));
  return {
    exists: row?.found ?? false,
    stored: stored ?? undefined,
    createdAt: row?.created ?? new Date(),
    last: row?.last ?? 0,
  };
}

/** The schema with nothing hidden in it. */
function openly(schema: CompiledSchema): CompiledSchema {
  const { fieldVisibility: _, ...rest } = schema;
  return { ...rest, tree: opened(schema.tree) as ObjectField, droppedFields: [] };
}

function opened(field: Field): Field {
  if (field.kind === 'array') return { ...field, hidden: false, items: opened(field.items) };
  if (field.kind !== 'object') return { ...field, hidden: false };
  return {
    ...field,
    hidden: false,
    fields: new Map([...field.fields].map(([name, child]) => [name, opened(child)])),
  };
}

function checked(
  schema: CompiledSchema,
  stored: Record<string, unknown>,
  without?: ReadonlySet<string>,
): ColumnValues {
  const problems: Problem[] = [];
  const values = validatorOf(schema).whole(stored, '', problems, without);
  requireValid(problems);
  return values;
}

/** The new values as hooks leave them. */
const asked = async (
  { caller, dependencies: { gate } }: WriteContext,
  change: Parameters<RecordGate['input']>[1],
): Promise<RecordInput> => (gate?.asks(change) ? gate.input(caller, change) : change.input);

async function reviveRecord(
  context: WriteContext,
  id: string,
  { stored, createdAt, last }: State & { readonly stored: Record<string, unknown> },
): Promise<RecordText> {
  const { schema } = context;
  const isVisible = (name: string): boolean => !schema.tree.fields.get(name)?.hidden;
  const input = Object.fromEntries(Object.entries(stored).filter(([name]) => isVisible(name)));
  const change = { schema: schema.name, operation: 'create', id, input } as const;
  const { columns, values } = checked(schema, { ...stored, ...(await asked(context, change)) });
  const whole = {
    columns: [...columns, createdColumn, versionColumn],
    values: [...values, createdAt, last + 1],
  };
  const row = await insertRecord(context, id, whole, 'revive');
  if (!row) throw errors.INTERNAL_SERVER_ERROR();
  announceEvents(context.dependencies);
  return row;
}

const plain = { required: false, unique: false, hidden: false, indexed: false } as const;
const asIs = (value: unknown): unknown => value;
const createdColumn: Column = {
  name: 'createdAt',
  field: { kind: 'date', ...plain },
  type: 'timestamptz(3)',
  check: asIs,
};
const versionColumn: Column = {
  name: '__v',
  field: { kind: 'number', storage: 'integer', integer: true, ...plain },
  type: 'integer',
  check: asIs,
};

export const createTrash = (write: OpenWrite): RecordTrash => ({
  async restore(...[caller, name, id, options]) {
    return restoreRecord(await write(caller, name, 'delete', { ...options, ids: [id] }), id);
  },
  async purge(caller, name, ids) {
    requireTrusted(caller);
    return purgeRecords(await write(caller, name, 'delete'), ids);
  },
  async purgeExpired(caller, name, signal) {
    requireTrusted(caller);
    const context = await write(caller, name, 'delete');
    const days = context.schema.softDelete?.retainDays;
    return days === undefined ? 0 : purgeExpired(context, days, signal);
  },
});

export function createHistory(
  requestScopeOf: OpenRequestScope<RecordDependencies>,
  write: OpenWrite,
): RecordHistory {
  const request = async (
    caller: Caller,
    name: string,
    { id, scope }: { id: string; scope?: string | undefined },
  ): Promise<HistoryRequest> => {
    const { dependencies, schema } = await requestScopeOf(caller, name);
    return { dependencies, caller, schema: schema(name), id, scope };
  };
  return {
    async list(caller, name, id, options = {}) {
      return listVersions(await request(caller, name, { id, scope: options.scope }), options);
    },
    async get(...[caller, name, id, version, options = {}]) {
      return readVersion(
        await request(caller, name, { id, scope: options.scope }),
        version,
        options,
      );
    },
    async restore(...[caller, name, id, version, options]) {
      return restoreVersion(
        await write(caller, name, 'update', { ...options, ids: [id] }),
        id,
        version,
      );
    },
    async prune(caller, name, signal) {
      requireTrusted(caller);
      const { dependencies, schema } = await requestScopeOf(caller, name);
      return pruneHistory(dependencies, schema(name), signal);
    },
  };
}

function requireTrusted(caller: Caller): void {
  if (!isTrusted(caller)) throw errors.FORBIDDEN();
}
