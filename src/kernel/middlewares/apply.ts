/** An operation as it is with what operators added to its route. */
import type { Access, Operation, RateLimit } from '../operation.ts';
import { routesOf } from '../registry.ts';
import { declaredMiddlewares, isAddable, limitOf, missingDemands, routeKeyOf } from './names.ts';

/** Lists that operators set, by route key. */
export type MiddlewareLists = ReadonlyMap<string, readonly string[]>;

/**
 * The list in force: what the operator set, with every demand of the module, whether he kept it or not (the module
 * may have come to demand it later), and without what no longer fits the route.
 */
export function middlewaresOf(operation: Operation, lists: MiddlewareLists): readonly string[] {
  const declared = declaredMiddlewares(operation);
  const set = routesOf(operation).flatMap(({ method, path }) => lists.get(routeKeyOf(operation.surface, method, path)) ?? []);
  const fitting = set.filter((name) => declared.includes(name) || isAddable(name, operation));
  return [...new Set([...missingDemands(fitting, operation), ...fitting])];
}

/** The same operation when nothing was added. It can only become stricter. */
export function withMiddlewares(operation: Operation, names: readonly string[]): Operation {
  const declared = declaredMiddlewares(operation);
  const added = names.filter((name) => !declared.includes(name));
  if (added.length === 0) return operation;
  const limits = added.map(limitOf).filter((limit): limit is RateLimit => limit !== undefined);
  return Object.freeze({
    ...operation,
    access: stricter(operation.access, added),
    ...(limits.length > 0 ? { addedLimits: limits } : {}),
  });
}

function stricter(access: Access, added: readonly string[]): Access {
  if (added.includes('authMiddleware') && (access === 'public' || access === 'optionalUser')) return 'user';
  return added.includes('superAdminMiddleware') && access === 'admin' ? 'superAdmin' : access;
}
