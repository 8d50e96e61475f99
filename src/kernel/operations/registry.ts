/**
 * All operations that exist now. Owners (modules, or groups inside a module such
 * as the record routes) replace their whole list at once; surfaces are told
 * synchronously, so that a route is live when the call that made it returns.
 */
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
  /** Replaces everything that `owner` had. An empty list withdraws it. Throws on a clash of two owners. */
  replace(owner: string, operations: readonly Operation[]): void;
  /** All operations, in a stable order (owner, then as given). */
  all(): readonly OwnedOperation[];
  /** Every operation passes through `rule` before anybody sees it, those that are there at once. Replaces an earlier rule. */
  transform(rule: (operation: Operation) => Operation): void;
  /** Called after each change, before `replace` or `transform` returns. */
  onChange(listener: () => void): void;
}

export interface OwnedOperation {
  /** The module's name; groups inside a module are written `module/group`. */
  readonly owner: string;
  readonly operation: Operation;
}

/** The module part of an owner (`database/records` belongs to `database`). */
export const moduleOf = (owner: string): string => owner.split('/', 1)[0] ?? owner;

export function createOperationRegistry(): OperationRegistry {
  const byOwner = new Map<string, readonly Operation[]>();
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

  return {
    replace(owner, operations) {
      const before = byOwner.get(owner);
      if (operations.length === 0) byOwner.delete(owner);
      else byOwner.set(owner, operations);
      const next = flatten();
      const conflict = firstConflict(next);
      if (conflict) {
        if (before) byOwner.set(owner, before);
        else byOwner.delete(owner);
        throw new Error(`Two operations answer ${conflict}`);
      }
      publish(next);
    },
    transform(given) {
      rule = given;
      ruled = new WeakMap();
      publish(flatten());
    },
    all: () => flat,
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

const routeKeys = new WeakMap<Operation, readonly (readonly [key: string, route: string])[]>();

/** Its routes, each with the key that another one must not have: what parameters are called makes no difference. */
function routeKeysOf(operation: Operation): readonly (readonly [key: string, route: string])[] {
  const known = routeKeys.get(operation);
  if (known) return known;
  const keys = routesOf(operation).map(({ method, path }) => {
    const route = `${operation.surface} ${method} ${path}`;
    return [route.replace(/:\w+/g, ':'), route] as const;
  });
  routeKeys.set(operation, keys);
  return keys;
}

function firstConflict(operations: readonly OwnedOperation[]): string | undefined {
  const routes = new Set<string>();
  const ids = new Set<string>();
  for (const { operation } of operations) {
    if (ids.has(operation.id)) return `the id ${operation.id}`;
    ids.add(operation.id);
    for (const [key, route] of routeKeysOf(operation)) {
      if (routes.has(key)) return route;
      routes.add(key);
    }
  }
  return undefined;
}
