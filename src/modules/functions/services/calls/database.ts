/**
 * `ctx.db`: records, with the rights of the caller. Of the schemas that operators have made, the switches of their own
 * routes do not count: code stands in their place. What modules keep (accounts, messages, templates) is not offered by
 * it to anybody who has not got it otherwise.
 */
import { type Condition, leavesOf } from '../../../../data/conditions/condition.ts';
import { parseFilter } from '../../../../data/conditions/parse.ts';
import {
  isTrusted,
  mayRead,
  referencedSchema,
} from '../../../../data/records/access/operation-access.ts';
import { invalidRecord, recordErrors } from '../../../../data/records/errors.ts';
import { PathError, resolveTarget } from '../../../../data/records/filter/target.ts';
import type {
  AggregateOptions,
  ListOptions,
  RecordInput,
  RecordStore,
} from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { shortName } from '../../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import {
  type GivenCall,
  type HostCall,
  JsonText,
  objectArgument,
  optionsArgument,
  type RunScope,
  textArgument,
} from '../host-calls.ts';
import { openTransaction } from '../transactions.ts';

interface Parts {
  readonly records: RecordStore;
  readonly schemas: Pick<SchemaRegistry, 'get' | 'publicViews'>;
  readonly database: Database;
}

/** One call on the records of one schema. */
interface RecordCall extends Pick<Parts, 'records' | 'schemas'> {
  readonly caller: Caller;
  readonly schema: string;
  /** The schema is offered by the code, whatever its own routes offer. */
  readonly granted: boolean;
  readonly given: GivenCall;
}

type Work = (call: RecordCall) => Promise<unknown>;

const text = (value: unknown, name: string): string => {
  if (typeof value === 'string') return value;
  throw invalid(`options.${name}`, 'type', 'must be a text');
};
const MAX_TEXTS = 20;
function listed(value: unknown, name: string): readonly unknown[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length <= MAX_TEXTS) return list;
  throw invalid(`options.${name}`, 'maxItems', `takes at most ${MAX_TEXTS} names`);
}
const texts = (value: unknown, name: string): readonly string[] | undefined =>
  value === undefined ? undefined : listed(value, name).map((one) => text(one, name));
const objects = (value: unknown, name: string): readonly object[] => {
  if (
    Array.isArray(value) &&
    value.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one))
  )
    return value as object[];
  throw invalid(name, 'type', 'must be a list of objects');
};
const whole = (value: unknown, name: string): number | undefined => {
  if (value === undefined) return undefined;
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw invalid(`options.${name}`, 'type', 'must be a whole number');
};

function listOptions(given: GivenCall, at: number): ListOptions {
  const { skip, limit, sort, populate, scope, cursor } = optionsArgument(given, at);
  const range = { skip: whole(skip, 'skip'), limit: whole(limit, 'limit') };
  const names = { sort: texts(sort, 'sort'), populate: texts(populate, 'populate') };
  const words = {
    scope: scope === undefined ? undefined : text(scope, 'scope'),
    cursor: cursor === undefined ? undefined : text(cursor, 'cursor'),
  };
  return Object.fromEntries(
    Object.entries({ ...range, ...names, ...words }).filter(([, value]) => value !== undefined),
  );
}

const writeOptions = (given: GivenCall, at: number) => {
  const { populate, scope } = listOptions(given, at);
  const version = whole(optionsArgument(given, at).version, 'version');
  return {
    ...(populate && { populate }),
    ...(scope !== undefined && { scope }),
    ...(version !== undefined && { expectedVersion: version }),
  };
};

const isOperators = (schema: CompiledSchema | undefined): boolean =>
  schema?.ownerModule === adminOwner;

/** Missing: every record that the caller may read. Throws 400, and 403 for a path into what a module keeps from the caller. */
function filterOf({ schemas, caller, schema, given: { args = [] } }: RecordCall): Condition {
  const filter = parseFilter(args[1] ?? {});
  const about = schemas.get(schema);
  if (!about || isTrusted(caller)) return filter;
  for (const { left, place } of leavesOf(filter)) {
    const followed = (name: string): CompiledSchema | undefined => {
      const target = schemas.get(name);
      if (!target || isOperators(target)) return target;
      const open = referencedSchema(schemas, caller, name);
      if (open && mayRead(caller, open)) return open;
      const message = `"${shortName(left.path)}" leads to records of ${name}, which you may not read`;
      throw recordErrors.POPULATE_FORBIDDEN({
        message,
        errors: [{ path: place, rule: 'access', message }],
      });
    };
    try {
      resolveTarget(about, left.path, { schema: followed, hidden: true });
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      throw invalidRecord([{ path: place, rule: 'field', message: error.message }]);
    }
  }
  return filter;
}

/** The documents of a list, without what is said beside them. */
async function documents(call: RecordCall, options: ListOptions): Promise<unknown[]> {
  const { records, caller, schema, granted } = call;
  const filter = filterOf(call);
  const text = await records.select(caller, schema, {
    limit: 100,
    ...options,
    count: 'none',
    filter,
    granted,
  });
  return (JSON.parse(text) as { readonly documents: unknown[] }).documents;
}

/** Which options each call takes, and where they stand among its arguments. */
const optionsOf: Readonly<Record<string, { readonly at: number; readonly names: string }>> = {
  find: { at: 2, names: 'skip, limit, sort, populate, scope, cursor' },
  findOne: { at: 2, names: 'skip, sort, populate, scope, cursor' },
  get: { at: 2, names: 'populate, scope' },
  count: { at: 2, names: 'scope' },
  aggregate: { at: 2, names: 'groupBy, values, sort, skip, limit, scope' },
  create: { at: 2, names: 'populate, scope' },
  createMany: { at: 2, names: 'populate, scope' },
  update: { at: 3, names: 'populate, scope, version' },
  updateMany: { at: 2, names: 'populate, scope' },
  replace: { at: 3, names: 'populate, scope, version' },
  delete: { at: 2, names: 'scope, version' },
};

/** Throws 400 for an option that would change nothing: whoever gives a version believes that it is compared. */
function requireOptions(call: string, given: GivenCall): void {
  const { at = 0, names = '' } = optionsOf[call] ?? {};
  const known = names.split(', ');
  const stray = Object.keys(optionsArgument(given, at)).find((name) => !known.includes(name));
  if (stray === undefined) return;
  throw invalid(`options.${shortName(stray)}`, 'unknown', `${call} takes ${names}`);
}

const inputs = ({ args = [] }: GivenCall): readonly RecordInput[] =>
  objects(args[1], 'documents') as readonly RecordInput[];

const listText = (rows: readonly { readonly json: string }[]): JsonText =>
  new JsonText(`[${rows.map(({ json }) => json).join(',')}]`);

const reads: Readonly<Record<string, Work>> = {
  find: async (call) => documents(call, listOptions(call.given, 2)),
  findOne: async (call) =>
    (await documents(call, { ...listOptions(call.given, 2), limit: 1 }))[0] ?? null,
  get: async ({ records, caller, schema, given }) => {
    const { populate, scope } = listOptions(given, 2);
    const id = textArgument(given, 1, 'id');
    const options = { ...(populate && { populate }), ...(scope !== undefined && { scope }) };
    return new JsonText((await records.get(caller, schema, id, options)).json);
  },
  count: async (call) => {
    const { records, caller, schema, given, granted } = call;
    const filter = filterOf(call);
    const { scope } = listOptions(given, 2);
    const rows = { filter, granted, ...(scope !== undefined && { scope }) };
    const text = await records.select(caller, schema, { ...rows, limit: 1 });
    return (JSON.parse(text) as { readonly count: number }).count;
  },
  aggregate: async (call) => {
    const { records, caller, schema, given, granted } = call;
    const { groupBy, values } = optionsArgument(given, 2);
    const { sort, skip, limit, scope } = listOptions(given, 2);
    return new JsonText(
      await records.aggregate(caller, schema, {
        filter: filterOf(call),
        granted,
        groupBy: texts(groupBy, 'groupBy') ?? [],
        values: objects(values ?? [], 'options.values') as AggregateOptions['values'],
        ...(sort && { sort }),
        ...(skip !== undefined && { skip }),
        ...(limit !== undefined && { limit }),
        ...(scope !== undefined && { scope }),
      }),
    );
  },
};

const writes: Readonly<Record<string, Work>> = {
  create: async ({ records, caller, schema, given, granted }) => {
    const input = objectArgument(given, 1, 'document');
    const options = { ...writeOptions(given, 2), granted };
    return new JsonText((await records.create(caller, schema, input, options)).json);
  },
  createMany: async ({ records, caller, schema, given, granted }) =>
    listText(
      await records.createMany(caller, schema, inputs(given), {
        ...writeOptions(given, 2),
        granted,
      }),
    ),
  update: async ({ records, caller, schema, given, granted }) => {
    const id = textArgument(given, 1, 'id');
    const input = objectArgument(given, 2, 'document');
    const options = { ...writeOptions(given, 3), granted };
    return new JsonText((await records.update(caller, schema, id, input, options)).json);
  },
  updateMany: async ({ records, caller, schema, given, granted }) =>
    listText(
      await records.updateMany(caller, schema, inputs(given), {
        ...writeOptions(given, 2),
        granted,
      }),
    ),
  replace: async ({ records, caller, schema, given, granted }) => {
    const id = textArgument(given, 1, 'id');
    const input = objectArgument(given, 2, 'document');
    const options = { ...writeOptions(given, 3), granted };
    return new JsonText((await records.replace(caller, schema, id, input, options)).json);
  },
  delete: async ({ records, caller, schema, given, granted }) => {
    const id = textArgument(given, 1, 'id');
    await records.remove(caller, schema, id, { ...writeOptions(given, 2), granted });
  },
};

export function databaseCalls({
  records,
  schemas,
  database,
}: Parts): ReadonlyMap<string, HostCall> {
  const recordCall =
    (effect: 'read' | 'write', name: string, work: Work): HostCall =>
    async (scope, given) => {
      const schema = textArgument(given, 0, 'schema');
      scope.require(`database:${effect}:${schema}`);
      if (effect === 'read') scope.noteRead();
      requireOptions(name, given);
      const caller = scope.callerOf(given);
      const granted = isTrusted(caller) || isOperators(schemas.get(schema));
      const run = () => work({ records, schemas, caller, schema, granted, given });
      const { transaction } = given;
      return transaction === undefined ? run() : openOf(scope, given).within(run);
    };
  const named = (effect: 'read' | 'write', works: Readonly<Record<string, Work>>) =>
    Object.entries(works).map(
      ([name, work]) => [`db.${name}`, recordCall(effect, name, work)] as const,
    );
  return new Map<string, HostCall>([
    ...named('read', reads),
    ...named('write', writes),
    ['db.begin', (scope) => begin(database, scope)],
    ['db.commit', (scope, given) => end(scope, given, (one) => one.commit())],
    ['db.rollback', (scope, given) => end(scope, given, (one) => one.rollback())],
  ]);
}

/** Open ones of one run: each has a connection for itself. */
const MAX_TRANSACTIONS = 2;

async function begin(database: Database, scope: RunScope): Promise<string> {
  if (scope.transactions.size + scope.opening >= MAX_TRANSACTIONS)
    throw errors.CONFLICT({ message: 'A run has at most 2 open transactions' });
  scope.opening += 1;
  try {
    const open = await openTransaction(database);
    const id = newId();
    await scope.keep(id, open);
    return id;
  } finally {
    scope.opening -= 1;
  }
}

function openOf({ transactions }: RunScope, { transaction }: GivenCall) {
  const open = transactions.get(String(transaction));
  if (!open) throw errors.CONFLICT({ message: 'This transaction has ended' });
  return open;
}

async function end(
  scope: RunScope,
  given: GivenCall,
  how: (open: ReturnType<typeof openOf>) => Promise<void>,
): Promise<void> {
  const open = openOf(scope, given);
  scope.transactions.delete(String(given.transaction));
  await how(open);
}
