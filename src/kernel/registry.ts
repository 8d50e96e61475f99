/**
 * All operations that exist now. Owners (modules, or groups inside a module such
 * as the record routes) replace their whole list at once; surfaces are told
 * synchronously, so that a route is live when the call that made it returns.
 */
import type { Operation } from './operation.ts';

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

  const flatten = (): OwnedOperation[] =>
    [...byOwner.keys()].sort().flatMap((owner) => (byOwner.get(owner) ?? []).map((operation) => ({ owner, operation: rule(operation) })));
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
      const clash = firstClash(next);
      if (clash) {
        if (before) byOwner.set(owner, before);
        else byOwner.delete(owner);
        throw new Error(`Two operations answer ${clash}`);
      }
      publish(next);
    },
    transform(given) {
      rule = given;
      publish(flatten());
    },
    all: () => flat,
    onChange(listener) {
      listeners.push(listener);
    },
  };
}

/** Every method and path under which an operation answers. */
export const routesOf = (operation: Operation): readonly { method: Operation['method']; path: string }[] => [
  { method: operation.method, path: operation.path },
  ...(operation.aliases ?? []),
];

function firstClash(operations: readonly OwnedOperation[]): string | undefined {
  const routes = new Set<string>();
  const ids = new Set<string>();
  for (const { operation } of operations) {
    if (ids.has(operation.id)) return `the id ${operation.id}`;
    ids.add(operation.id);
    for (const { method, path } of routesOf(operation)) {
      const key = `${operation.surface} ${method} ${path.replace(/:\w+/g, ':')}`;
      if (routes.has(key)) return `${operation.surface} ${method} ${path}`;
      routes.add(key);
    }
  }
  return undefined;
}
