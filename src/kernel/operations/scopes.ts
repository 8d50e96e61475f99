/** What an API token may do: scopes narrow it, in one place, for every way in. */
import type { AdminCaller } from '../caller.ts';
import type { Operation } from '../operation.ts';

/** Scopes about effects; every other scope is the name of a module. */
export const effectScopes = ['read', 'write'] as const;

/** True when the operation changes nothing, whatever its method says. */
export const isReading = ({ method, readOnly, changes }: Pick<Operation, 'method' | 'readOnly' | 'changes'>): boolean =>
  readOnly ?? (method === 'GET' && changes !== true);

/** The first word of an id: the module that declares the operation, or the part of the platform. */
const firstWord = ({ id }: Operation): string => id.slice(0, id.indexOf('.'));

/** Routes that belong to no module: the description of the API, and the way to the tools, each of which is checked itself. */
const common: ReadonlySet<string> = new Set(['docs', 'mcp', 'graphql']);

/** The module that an operation belongs to; what belongs to none is core's. */
export function moduleOfOperation(operation: Operation): string {
  const word = firstWord(operation);
  return common.has(word) ? 'core' : word;
}

/** Without scopes a caller may do whatever his rights allow. */
export function withinScopes({ scopes }: Pick<AdminCaller, 'scopes'>, operation: Operation): boolean {
  if (scopes === undefined) return true;
  return hasEffect(scopes, operation) && hasModule(scopes, operation);
}

function hasEffect(scopes: readonly string[], operation: Operation): boolean {
  const named = scopes.some(isEffectScope);
  return !named || scopes.includes('write') || (scopes.includes('read') && isReading(operation));
}

/** A token that may change nothing. */
export const isReadOnly = ({ scopes }: Pick<AdminCaller, 'scopes'>): boolean =>
  scopes?.includes('read') === true && !scopes.includes('write');

function hasModule(scopes: readonly string[], operation: Operation): boolean {
  const modules = scopes.filter((scope) => !isEffectScope(scope));
  const module = firstWord(operation);
  return modules.length === 0 || modules.includes(module) || common.has(module);
}

/** Tells `read` and `write` from names of modules. */
export const isEffectScope = (scope: string): boolean => (effectScopes as readonly string[]).includes(scope);
