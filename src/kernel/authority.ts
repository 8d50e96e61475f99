/**
 * The one answer to "may this operator touch that". It is asked of the object (a module, a configuration, a schema),
 * not of the route that leads to it, so that a narrow credential is narrow by every door. What users may do with
 * records is asked of the record engine (`data/records/access`), which asks here for operators.
 */
import type { AdminCaller, Caller } from './caller.ts';
import { errors, type PenstockError } from './errors.ts';
import { isSuperAdmin } from './identity.ts';
import { operationErrors } from './operations/errors.ts';
import type { Operation } from './operations/operation.ts';

/* What an API token may do: scopes narrow it, in one place, for every way in. */

/** Scopes about effects; every other scope is the name of a module. */
export const effectScopes = ['read', 'write'] as const;

/** True when the operation changes nothing, whatever its method says. */
export const isReading = ({
  method,
  readOnly,
  changes,
}: Pick<Operation, 'method' | 'readOnly' | 'changes'>): boolean =>
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

/** Without scopes a caller may do whatever their rights allow. */
export function withinScopes(
  { scopes }: Pick<AdminCaller, 'scopes'>,
  operation: Operation,
): boolean {
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
const isEffectScope = (scope: string): boolean =>
  (effectScopes as readonly string[]).includes(scope);

/** What a call touches. */
export type AuthorityObject =
  /** Data and settings of one module. */
  | { readonly kind: 'module'; readonly module: string }
  /** Whatever the platform or another operator may do; `what` needs that, in words. */
  | { readonly kind: 'everything'; readonly what: string }
  /** A change of configuration keys; `guarded` are those that are not marked harmless. */
  | { readonly kind: 'configKeys'; readonly module: string; readonly guarded: readonly string[] }
  /** A schema, or its records. */
  | { readonly kind: 'schema'; readonly name: string; readonly ownerModule: string }
  /** Accounts and tokens of operators: whoever makes them can reach whatever they can. */
  | { readonly kind: 'credentials' }
  /** Stored secrets in clear. */
  | { readonly kind: 'secrets'; readonly module: string };

/** Why the caller may not touch the object; `undefined`: the caller may. Users and visitors have no authority over any of these. */
function denialOf(caller: Caller, object: AuthorityObject): PenstockError | undefined {
  if (caller.kind === 'system') return undefined;
  if (caller.kind !== 'admin') return errors.FORBIDDEN();
  switch (object.kind) {
    case 'module':
      return outsideOf(caller, object.module, `what belongs to the module ${object.module}`);
    case 'everything':
      return modulesOfCaller(caller) === undefined
        ? undefined
        : operationErrors.SCOPE_EXCEEDED({
            message: `${object.what} needs a token for all modules`,
          });
    case 'schema':
      return outsideOf(
        caller,
        object.ownerModule,
        `${object.name}, which belongs to the module ${object.ownerModule}`,
      );
    case 'configKeys':
      return (
        outsideOf(caller, object.module, `the configuration of ${object.module}`) ??
        guardedKeys(caller, object.guarded)
      );
    case 'secrets':
      return (
        outsideOf(caller, object.module, `secrets of ${object.module}`) ??
        superAdmins(caller, 'Only a super admin may see secrets')
      );
    case 'credentials':
      return scopesOf(caller) === undefined
        ? undefined
        : operationErrors.SCOPE_EXCEEDED({
            message: 'Accounts and tokens of operators need a credential without scopes',
          });
  }
}

/** Throws 403 for the first object that the caller may not touch. */
export function requireAuthority(caller: Caller, ...objects: readonly AuthorityObject[]): void {
  for (const object of objects) {
    const denial = denialOf(caller, object);
    if (denial) throw denial;
  }
}

export const hasAuthority = (caller: Caller, object: AuthorityObject): boolean =>
  denialOf(caller, object) === undefined;

/** A schema as an object; nothing for one that is not there. */
export const schemaObject = (
  schema: { readonly name: string; readonly ownerModule: string } | undefined,
): AuthorityObject[] =>
  schema ? [{ kind: 'schema', name: schema.name, ownerModule: schema.ownerModule }] : [];

/** The modules that a credential is narrowed to; `undefined`: all of them. */
export function modulesOfCaller(caller: Caller): readonly string[] | undefined {
  const named = scopesOf(caller)?.filter((scope) => !isEffectScope(scope)) ?? [];
  return named.length === 0 ? undefined : named;
}

const scopesOf = (caller: Caller): readonly string[] | undefined =>
  caller.kind === 'admin' ? caller.scopes : undefined;

function outsideOf(caller: Caller, module: string, what: string): PenstockError | undefined {
  const modules = modulesOfCaller(caller);
  if (modules === undefined || modules.includes(module)) return undefined;
  return operationErrors.SCOPE_EXCEEDED({
    message: `The scopes of this API token do not reach ${what}`,
  });
}

const guardedKeys = (caller: Caller, keys: readonly string[]): PenstockError | undefined =>
  keys.length === 0
    ? undefined
    : superAdmins(caller, `Only a super admin may change ${keys.join(', ')}`);

const superAdmins = (caller: Caller, message: string): PenstockError | undefined =>
  isSuperAdmin(caller) ? undefined : errors.FORBIDDEN({ message });

/** Owner of schemas that admins make. */
export const adminOwner = 'database';
