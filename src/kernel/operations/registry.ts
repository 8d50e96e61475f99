/**
 * All operations that exist now. Owners (modules, or groups inside a module such
 * as the record routes) replace their whole list at once; surfaces are told
 * synchronously, so that a route is live when the call that made it returns.
 */
import { mapInSlices } from '../time-slices.ts';
import type { Method, Operation } from './operation.ts';

/* Names that other protocols give to routes. Stable: clients and models remember them. */

/**
 * The MCP tool name of a route (spec/core.md 9.4).
 * @example mcpToolName('DELETE', '/api-tokens/:id') // delete_apitokens_id
 */
export function mcpToolName(method: Method, path: string): string {
  const segments = path
    .replace(/^\/admin\//, '/')
    .split('/')
    .map((segment) => segment.replace(/[^A-Za-z0-9]/g, '').toLowerCase())
    .filter((segment) => segment !== '');
  return [method.toLowerCase(), ...segments].join('_');
}

/**
 * The name of a route in GraphQL and its OpenAPI `operationId` (spec/router.md 5.8): the method, then each
 * segment with its first letter raised. `-`, `:` and the like are dropped and raise nothing after them.
 * @example camelName('GET', '/database/Post/:id') // getDatabasePostId
 * @example camelName('POST', '/local/change-password') // postLocalChangepassword
 */
export function camelName(method: Method, path: string): string {
  const words = path.split('/').map((segment) => segment.replace(/\W/g, ''));
  return (
    method.toLowerCase() +
    words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('')
  );
}

export interface OperationRegistry {
  /**
   * Replaces everything that `owner` had. An empty list withdraws it. Throws on a clash; with `onConflict` the operation
   * that clashes is left out instead, for what is made of stored definitions: one of them must not take the others along.
   */
  replace(owner: string, operations: readonly Operation[], onConflict?: OnConflict): void;
  /** Does of a `replace` what takes time for thousands, in slices: the `replace` that follows is then short. */
  prepare(owner: string, operations: readonly Operation[]): Promise<void>;
  /** All operations, in a stable order (owner, then as given). */
  all(): readonly OwnedOperation[];
  /** Every operation passes through `rule` before anybody sees it, those that are there at once. Replaces an earlier rule. */
  transform(rule: (operation: Operation) => Operation): void;
  /** Says in a sentence what a module is for. Readers find it in documents. */
  describe(module: string, text: string): void;
  /** What was said of a module; its name where nothing was. */
  about(module: string): string;
  /** Called after each change, before `replace` or `transform` returns. */
  onChange(listener: () => void): void;
}

/** `name`: the id or the route that somebody else has. */
type OnConflict = (operation: Operation, name: string) => void;

export interface OwnedOperation {
  /** The module's name; groups inside a module are written `module/group`. */
  readonly owner: string;
  readonly operation: Operation;
}

/** The module part of an owner (`database/records` belongs to `database`). */
export const moduleOf = (owner: string): string => owner.split('/', 1)[0] ?? owner;

export function createOperationRegistry(): OperationRegistry {
  const byOwner = new Map<string, readonly Operation[]>();
  const descriptions = new Map<string, string>();
  const listeners: (() => void)[] = [];
  let flat: readonly OwnedOperation[] = [];
  let rule = (operation: Operation): Operation => operation;
  /** What has passed through the rule, by what it was: a change of one owner costs nothing for the others. */
  let ruled = new WeakMap<Operation, OwnedOperation>();

  const owned = (owner: string, operation: Operation): OwnedOperation => {
    const known = ruled.get(operation);
    if (known?.owner === owner) return known;
    const passed = { owner, operation: rule(operation) };
    ruled.set(operation, passed);
    return passed;
  };
  const flatten = (): OwnedOperation[] =>
    [...byOwner.keys()]
      .sort()
      .flatMap((owner) => (byOwner.get(owner) ?? []).map((operation) => owned(owner, operation)));
  const publish = (operations: readonly OwnedOperation[]): void => {
    flat = operations;
    for (const listener of listeners) listener();
  };
  /** Who has which id and route: a change of one owner is compared with these, not everything with everything. */
  let taken = new Map<string, string>();
  const claimsOfAll = (owner: string, operations: readonly Operation[]): readonly Claim[] =>
    operations.flatMap((operation) => claimsOf(owned(owner, operation).operation));

  return {
    replace(owner, given, onConflict) {
      const isTaken = (key: string): boolean => (taken.get(key) ?? owner) !== owner;
      const claims = (operation: Operation) => claimsOf(owned(owner, operation).operation);
      const operations = onConflict ? withoutConflicts(given, claims, isTaken, onConflict) : given;
      const claimed = claimsOfAll(owner, operations);
      const conflict = firstConflict(claimed, isTaken);
      if (conflict) throw new Error(`Two operations answer ${conflict}`);
      for (const [key] of claimsOfAll(owner, byOwner.get(owner) ?? [])) taken.delete(key);
      for (const [key] of claimed) taken.set(key, owner);
      if (operations.length === 0) byOwner.delete(owner);
      else byOwner.set(owner, operations);
      publish(flatten());
    },
    async prepare(owner, operations) {
      await mapInSlices(operations, (operation) => claimsOf(owned(owner, operation).operation));
    },
    transform(given) {
      rule = given;
      ruled = new WeakMap();
      const next = flatten();
      taken = takenBy(next);
      publish(next);
    },
    all: () => flat,
    describe(module, text) {
      descriptions.set(module, text);
    },
    about: (module) => descriptions.get(module) ?? module,
    onChange(listener) {
      listeners.push(listener);
    },
  };
}

/** Every method and path under which an operation answers. */
export const routesOf = (
  operation: Operation,
): readonly { method: Operation['method']; path: string }[] => [
  { method: operation.method, path: operation.path },
  ...(operation.aliases ?? []),
];

/** An id or a route, with the key that no other may have: what parameters are called makes no difference. */
type Claim = readonly [key: string, name: string];

const claims = new WeakMap<Operation, readonly Claim[]>();

function claimsOf(operation: Operation): readonly Claim[] {
  const known = claims.get(operation);
  if (known) return known;
  const made = [
    [`id ${operation.id}`, `the id ${operation.id}`] as const,
    ...routesOf(operation).map(({ method, path }) => {
      const route = `${operation.surface} ${method} ${path}`;
      return [route.replace(/:\w+/g, ':'), route] as const;
    }),
  ];
  claims.set(operation, made);
  return made;
}

const takenBy = (all: readonly OwnedOperation[]): Map<string, string> =>
  new Map(
    all.flatMap(({ owner, operation }) =>
      claimsOf(operation).map(([key]) => [key, owner] as const),
    ),
  );

/** Those that clash with none before them, and with nobody else. */
function withoutConflicts(
  operations: readonly Operation[],
  claims: (operation: Operation) => readonly Claim[],
  isTaken: (key: string) => boolean,
  onConflict: OnConflict,
): readonly Operation[] {
  const own = new Set<string>();
  return operations.filter((operation) => {
    const claimed = claims(operation);
    const [, name] = claimed.find(([key]) => own.has(key) || isTaken(key)) ?? [];
    if (name === undefined) for (const [key] of claimed) own.add(key);
    else onConflict(operation, name);
    return name === undefined;
  });
}

/** What two of these claim, or one of them and somebody else. */
function firstConflict(
  claimed: readonly Claim[],
  isTaken: (key: string) => boolean,
): string | undefined {
  const own = new Set<string>();
  for (const [key, name] of claimed) {
    if (own.has(key) || isTaken(key)) return name;
    own.add(key);
  }
  return undefined;
}
