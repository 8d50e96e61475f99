/** What a function is called with: `ctx`, `grpcSdk` (its older name), and the way of one run. */
import { callPlatform, runState } from './core.ts';
import { logMethods, StopSignal } from './globals.ts';
import { fetchOutside } from './web.ts';

/** Facts of a run, as the platform gives them. */
export interface RunFacts {
  readonly requestId: string;
  readonly function: string;
  readonly version: number;
  readonly trigger: string;
  readonly attempt: number;
  readonly idempotencyKey?: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  readonly caller: Readonly<Record<string, unknown>>;
  /** Whether `ctx.system` is there. */
  readonly system: boolean;
  readonly logCharacters: number;
  /** Of one call, and of the result. */
  readonly mostCharacters?: number;
}

type Method = (...args: unknown[]) => Promise<unknown>;
type Namespace = Readonly<Record<string, Method>>;
/** Whose rights, and in which transaction. */
interface Scope {
  readonly as?: 'system';
  readonly transaction?: string;
}

/** Methods of `ctx` that are one call of the platform each. */
const platformMethods = {
  db: [
    'find',
    'findOne',
    'get',
    'count',
    'create',
    'createMany',
    'update',
    'updateMany',
    'replace',
    'delete',
    'aggregate',
  ],
  auth: ['user', 'userById', 'can'],
  files: ['get', 'list', 'url', 'read', 'create', 'delete'],
  messages: ['email', 'sms', 'push', 'send'],
  search: ['query'],
  realtime: ['publish', 'toUser'],
} as const;

const namespaceOf = (name: string, methods: readonly string[], scope: Scope): Namespace =>
  Object.fromEntries(
    methods.map((method) => [
      method,
      (...args: unknown[]) => callPlatform(`${name}.${method}`, { args, ...scope }),
    ]),
  );

/** Runs `work` with calls that belong together; whatever it throws undoes them. */
async function inTransaction(
  scope: Scope,
  work: (database: Namespace) => Promise<unknown>,
): Promise<unknown> {
  const transaction = (await callPlatform('db.begin', scope)) as string;
  try {
    const value = await work(namespaceOf('db', platformMethods.db, { ...scope, transaction }));
    await callPlatform('db.commit', { transaction });
    return value;
  } catch (error) {
    await callPlatform('db.rollback', { transaction }).catch(() => undefined);
    throw error;
  }
}

interface Methods {
  readonly spaces: Readonly<Record<keyof typeof platformMethods, Namespace>>;
  readonly database: Namespace;
  readonly call: (operation: string, input?: unknown) => Promise<unknown>;
}

function methodsOf(scope: Scope): Methods {
  const spaces = Object.fromEntries(
    Object.entries(platformMethods).map(([name, methods]) => [
      name,
      namespaceOf(name, methods, scope),
    ]),
  ) as Methods['spaces'];
  const transaction = (work: unknown) =>
    inTransaction(scope, work as (database: Namespace) => Promise<unknown>);
  return {
    spaces: { ...spaces, db: { ...spaces.db, transaction } },
    database: olderDatabase(spaces.db),
    call: (operation, input) => callPlatform('call', { args: [operation, input], ...scope }),
  };
}

/** They are the same for every run of an isolate; only the objects that hold them are new, since code may change these. */
const ownMethods = methodsOf({});
let systemMethods: Methods | undefined;

function scopedContext({ spaces, database, call }: Methods): Record<string, unknown> {
  const { db, auth, files, messages, search, realtime } = spaces;
  return {
    db: { ...db },
    auth: { ...auth },
    files: { ...files },
    messages: { ...messages },
    search: { ...search },
    realtime: { ...realtime },
    database: { ...database },
    call,
  };
}

/** Options of existing functions that mean nothing here; others are refused where they do not fit. */
function withoutOlder(options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return options;
  const {
    select: _,
    userId: __,
    readPreference: ___,
    ...others
  } = options as Readonly<Record<string, unknown>>;
  return others;
}

/** The names that existing functions use. */
function olderDatabase(db: Namespace): Namespace {
  const older: Record<string, Method> = {
    findOne: (schema, query) => db.findOne?.(schema, query) as Promise<unknown>,
    findMany: (schema, query, options) =>
      db.find?.(schema, query, withoutOlder(options)) as Promise<unknown>,
    create: (schema, document) => db.create?.(schema, document) as Promise<unknown>,
    createMany: (schema, documents) => db.createMany?.(schema, documents) as Promise<unknown>,
    findByIdAndUpdate: (schema, id, document) =>
      db.update?.(schema, id, document) as Promise<unknown>,
    countDocuments: (schema, query) => db.count?.(schema, query) as Promise<unknown>,
    async deleteOne(schema, query) {
      const found = (await db.findOne?.(schema, query)) as { readonly _id: string } | null;
      if (found) await db.delete?.(schema, found._id);
      return { deletedCount: found ? 1 : 0 };
    },
  };
  return older;
}

/** What `ctx.reject` throws. */
class Rejection extends Error {
  readonly status: number;
  readonly code: string | undefined;
  constructor(status: number, message: string, code: string | undefined) {
    super(message);
    this.name = 'Rejection';
    this.status = status;
    this.code = code;
  }
}

export const isRejection = (error: unknown): error is Rejection => error instanceof Rejection;

/** What the platform tells of codes; anything else is FUNCTION_REFUSED. */
const codeShape = /^[A-Z][A-Z0-9_]{2,63}$/;

function reject(status: unknown, message: unknown = 'Refused', code?: unknown): never {
  const number = Number(status);
  if (!Number.isInteger(number) || number < 400 || number > 599)
    throw new TypeError('ctx.reject takes a status of 400 to 599');
  if (code !== undefined && !codeShape.test(String(code)))
    logMethods.warn(`ctx.reject: the code ${String(code)} is not told: write it as ORDER_CLOSED`);
  throw new Rejection(number, String(message), code === undefined ? undefined : String(code));
}

/** Does `work` once, however often the run is begun again: what it answered is kept under `name`. */
async function step(name: string, work: () => unknown): Promise<unknown> {
  if (typeof work !== 'function') throw new TypeError('ctx.step takes a name and a function');
  const known = (await callPlatform('step.begin', { name })) as {
    readonly done: boolean;
    readonly value?: unknown;
  };
  if (known.done) return known.value;
  let value: unknown;
  try {
    value = await work();
  } catch (error) {
    await callPlatform('step.fail', { name, message: String(error) });
    throw error;
  }
  const kept = (await callPlatform('step.end', { name, value })) as
    | { readonly value: unknown }
    | undefined;
  return kept ? kept.value : value;
}

export interface MadeContext {
  readonly ctx: Record<string, unknown>;
  readonly signal: StopSignal;
}

/** `user`: of the request, where somebody is signed in. */
export function makeContext(facts: RunFacts, context: Record<string, unknown>): MadeContext {
  const signal = new StopSignal();
  const own = scopedContext(ownMethods);
  const ctx: Record<string, unknown> = {
    ...own,
    requestId: facts.requestId,
    function: { name: facts.function, version: facts.version },
    trigger: facts.trigger,
    attempt: facts.attempt,
    idempotencyKey: facts.idempotencyKey,
    deadline: new Date(facts.deadline),
    caller: facts.caller,
    user: context.user,
    signal,
    log: { ...logMethods },
    secrets: { get: (name: string) => callPlatform('secrets.get', { args: [name] }) },
    fetch: fetchOutside,
    reject,
    step,
    sleep: (...args: unknown[]) => callPlatform('step.sleep', { args }),
    waitForEvent: (...args: unknown[]) => callPlatform('step.wait', { args }),
    get system() {
      if (!facts.system)
        throw new Error('ctx.system needs "rights": "system" in the inputs of the function');
      systemMethods ??= methodsOf({ as: 'system' });
      return scopedContext(systemMethods);
    },
    databaseProvider: own.database,
  };
  return { ctx, signal };
}

/** Resolves when `finished` says so, or when nothing is left that could make it. */
export const untilIdle = (finished: Promise<void>): Promise<void> =>
  new Promise((resolve) => {
    runState.idle = resolve;
    void finished.then(resolve);
  });
