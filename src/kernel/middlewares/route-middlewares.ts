/**
 * The middlewares of routes: kept in the database, applied by the registry to every operation that passes through it,
 * so that a route is never reachable without them, however often its module registers it again.
 */
import { type AuthorityObject, moduleOfOperation, requireAuthority } from '../authority.ts';
import { type Caller, callerKey } from '../caller.ts';
import type { Database, Queryable, Transaction } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Bus } from '../events/bus.ts';
import type { Method, Operation, SurfaceName } from '../operations/operation.ts';
import { type OperationRegistry, routesOf } from '../operations/registry.ts';
import { middlewareErrors } from './errors.ts';
import {
  declaredMiddlewares,
  isAddable,
  isMiddleware,
  type LimitNumbers,
  type MiddlewareLists,
  middlewaresOf,
  missingDemands,
  nameOfLimit,
  PROVIDED,
  type RunMiddleware,
  routeKeyOf,
  withLimit,
  withMiddlewares,
} from './middleware-lists.ts';
import {
  createProvidedMiddlewares,
  fullName,
  type ProvidedMiddleware,
  type ProvidedMiddlewares,
} from './provided-middlewares.ts';

/* The lists that operators set, as they are stored. */

async function readLists(database: Database): Promise<MiddlewareLists> {
  const { rows } = await database.query<{ route: string; middlewares: string[] }>(
    sql`select route, middlewares from penstock.route_middlewares order by route`,
  );
  return new Map(rows.map(({ route, middlewares }) => [route, middlewares]));
}

async function storeList(
  transaction: Queryable,
  caller: Caller,
  route: string,
  names: readonly string[],
): Promise<void> {
  await transaction.query(sql`
    insert into penstock.route_middlewares (route, middlewares, updated_by) values (${route}, ${names}, ${callerKey(caller)})
    on conflict (route) do update set middlewares = excluded.middlewares, version = route_middlewares.version + 1,
      updated_at = now(), updated_by = excluded.updated_by`);
}

async function removeLists(transaction: Queryable, routes: readonly string[]): Promise<void> {
  await transaction.query(sql`delete from penstock.route_middlewares where route = any(${routes})`);
}

/** Topic on which nodes hear that lists changed. */
const TOPIC = 'middlewares';

export interface RouteName {
  readonly surface: SurfaceName;
  readonly method: Method;
  /** Template, with whatever names for its parameters. */
  readonly path: string;
}

export interface RouteMiddlewares {
  /** Throws ROUTE_NOT_FOUND. */
  of(route: RouteName): readonly string[];
  /** What operators added to the route; nothing for a route that there is not. */
  addedTo(route: RouteName): readonly string[];
  /** The list of an operation as the registry answers it. */
  ofOperation(operation: Operation): readonly string[];
  /**
   * Makes `names` the list of the route, on every node, before it answers. Throws ROUTE_NOT_FOUND,
   * MIDDLEWARE_NOT_FOUND, MIDDLEWARE_REQUIRED, MIDDLEWARE_INCOMPATIBLE.
   */
  set(caller: Caller, route: RouteName, names: readonly string[]): Promise<void>;
  /** What is stored, by route key (`routeKeyOf`), also for routes that there are not now. */
  stored(): MiddlewareLists;
  /**
   * Stores lists, or takes them away (`undefined`), by route key. Routes may come later; what does not fit them then
   * has no effect, and what their modules demand always holds.
   */
  put(caller: Caller, lists: ReadonlyMap<string, readonly string[] | undefined>): Promise<void>;
  /** What whoever changes the list of this route (by key) must be allowed to touch; of one that comes later nothing. */
  touchedBy(key: string): readonly AuthorityObject[];
  /** Limits in place of those that operations declare, by operation id. They hold when this returns, on this node. */
  replaceLimits(limits: ReplacedLimits): void;
  /** Middlewares that a module runs itself. Those that are listed for routes and not there refuse every request (503). */
  provide(given: ReadonlyMap<string, ProvidedMiddleware>): void;
  /** Names of those. */
  provided(): readonly string[];
}

type ReplacedLimits = ReadonlyMap<string, LimitNumbers>;

interface RouteMiddlewaresOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly registry: OperationRegistry;
}

interface SetByOperators {
  lists: MiddlewareLists;
  limits: ReplacedLimits;
}

/** Operations with the limits and middlewares that operators set. */
function createAppliedOperations(set: Readonly<SetByOperators>, run: RunMiddleware) {
  const declared = new WeakMap<Operation, Operation>();
  const strict = new WeakMap<
    Operation,
    { readonly names: string; readonly operation: Operation }
  >();
  return {
    /** The same object as long as the list is the same: surfaces remember what they compiled for it. */
    apply(operation: Operation): Operation {
      const own = withLimit(operation, set.limits.get(operation.id));
      const names = middlewaresOf(own, set.lists);
      const known = strict.get(operation);
      if (known?.names === names.join()) return known.operation;
      const made = withMiddlewares(own, names, run);
      strict.set(operation, { names: names.join(), operation: made });
      declared.set(made, own);
      return made;
    },
    /** What the module declared, with the limit in its place. */
    declaredOf: (operation: Operation): Operation => declared.get(operation) ?? operation,
  };
}

/** Reads what is stored before it answers: create it before any module registers operations. */
export async function createRouteMiddlewares(
  options: RouteMiddlewaresOptions,
): Promise<RouteMiddlewares> {
  const { registry } = options;
  const state: SetByOperators = { lists: new Map(), limits: new Map() };
  const own = createProvidedMiddlewares();
  const { apply, declaredOf } = createAppliedOperations(state, own.run);
  const change = await followLists(options, (lists) => {
    state.lists = lists;
    registry.transform(apply);
  });

  const ofOperation = (operation: Operation): readonly string[] =>
    middlewaresOf(declaredOf(operation), state.lists);
  const served = lookup(registry);
  const known = (route: RouteName): Operation | undefined => {
    const found = served(routeKeyOf(route.surface, route.method, route.path));
    return found && declaredOf(found);
  };
  const find = (route: RouteName): Operation => known(route) ?? absent();

  return {
    of: (route) => middlewaresOf(find(route), state.lists),
    addedTo(route) {
      const operation = state.lists.size === 0 ? undefined : known(route);
      if (!operation) return [];
      const demanded = declaredMiddlewares(operation);
      return middlewaresOf(operation, state.lists).filter((name) => !demanded.includes(name));
    },
    ofOperation,
    stored: () => state.lists,
    replaceLimits(limits) {
      state.limits = limits;
      registry.transform(apply);
    },
    provide: own.provide,
    provided: own.names,
    touchedBy: (key) => objectsOf(served(key)),
    put: async (caller, given) => {
      requireAuthority(caller, ...[...given.keys()].flatMap((key) => objectsOf(served(key))));
      await change((transaction) => storeLists(transaction, caller, given));
    },
    async set(caller, route, names) {
      const operation = find(route);
      requireAuthority(caller, ...objectsOf(operation));
      const requested = [...new Set(names.map((name) => fullName(name, own)))];
      requireAllowed(operation, requested, own);
      const [key = '', ...aliases] = keysOf(operation);
      const nothingAdded = withMiddlewares(operation, requested) === operation;
      await change(async (transaction) => {
        // Other spellings of the route lose their lists, so that one list is in force.
        await removeLists(transaction, nothingAdded ? [key, ...aliases] : aliases);
        if (!nothingAdded)
          await storeList(transaction, caller, key, withoutOwnLimit(requested, operation));
      });
    },
  };
}

/** Changes stored lists; the change holds on every node when the transaction that this joins has ended. */
type ChangeLists = (work: (transaction: Transaction) => Promise<void>) => Promise<void>;

/** Tells what is stored: before it answers, and after every change on any node. */
async function followLists(
  { database, bus }: RouteMiddlewaresOptions,
  tell: (lists: MiddlewareLists) => void,
): Promise<ChangeLists> {
  const reload = oneAfterTheOther(async () => tell(await readLists(database)));
  await reload();
  bus.subscribe(TOPIC, reload);
  bus.freshness.watch('middlewares', reload);
  const spread = async (): Promise<void> =>
    void (await Promise.all([reload(), bus.announce(TOPIC, {})]));
  return (work) =>
    database.transaction(async (transaction) => {
      await work(transaction);
      transaction.afterCommit(spread, { alsoInDoubt: true });
    });
}

/** The operation's own limit is not stored: it may be another one later. */
const withoutOwnLimit = (names: readonly string[], { limit }: Operation): readonly string[] =>
  typeof limit === 'string' ? names : names.filter((name) => name !== nameOfLimit(limit));

async function storeLists(
  transaction: Transaction,
  caller: Caller,
  given: Parameters<RouteMiddlewares['put']>[1],
): Promise<void> {
  await removeLists(
    transaction,
    [...given].filter(([, names]) => names === undefined).map(([key]) => key),
  );
  for (const [key, names] of given) if (names) await storeList(transaction, caller, key, names);
}

/** A route belongs to the module of its operation. */
const objectsOf = (operation: Operation | undefined): readonly AuthorityObject[] =>
  operation ? [{ kind: 'module', module: moduleOfOperation(operation) }] : [];

const absent = (): never => {
  throw middlewareErrors.ROUTE_NOT_FOUND();
};

const keysOf = (operation: Operation): readonly string[] =>
  routesOf(operation).map(({ method, path }) => routeKeyOf(operation.surface, method, path));

/** Finds routes as they are served now. */
function lookup(registry: OperationRegistry): (key: string) => Operation | undefined {
  let byKey: ReadonlyMap<string, Operation> | undefined;
  registry.onChange(() => {
    byKey = undefined;
  });
  return (key) => {
    byKey ??= new Map(
      registry
        .all()
        .flatMap(({ operation }) => keysOf(operation).map((one) => [one, operation] as const)),
    );
    return byKey.get(key);
  };
}

function requireAllowed(
  operation: Operation,
  names: readonly string[],
  provided: ProvidedMiddlewares,
): void {
  const exists = (name: string): boolean =>
    isMiddleware(name) || (name.startsWith(PROVIDED) && provided.has(name.slice(PROVIDED.length)));
  const unknown = names.find((name) => !exists(name));
  if (unknown !== undefined)
    throw middlewareErrors.MIDDLEWARE_NOT_FOUND({
      message: `There is no middleware ${unknown}: GET /router/middlewares lists them`,
    });
  const declared = declaredMiddlewares(operation);
  const unfit = names.find((name) => !declared.includes(name) && !isAddable(name, operation));
  if (unfit !== undefined)
    throw middlewareErrors.MIDDLEWARE_INCOMPATIBLE({
      message: `${unfit} cannot be added to this route`,
    });
  const [missing] = missingDemands(names, operation);
  if (missing !== undefined)
    throw middlewareErrors.MIDDLEWARE_REQUIRED({
      message: `The module demands ${missing}: only what operators added can be taken away`,
    });
}

/** What is read last is what was stored last. */
function oneAfterTheOther(work: () => Promise<void>): () => Promise<void> {
  let queue: Promise<void> = Promise.resolve();
  return () => {
    const turn = queue.then(work, work);
    queue = turn.catch(() => undefined);
    return turn;
  };
}
