/** Who may do what with the records of a schema (spec/database.md 1.1, 5.10): deny unless a rule allows. */
import { hasAuthority, requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { errors } from '../../../kernel/errors.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type {
  PermissionEngine,
  PermissionPort,
  RecordAction,
  RowAction,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { schemaErrors } from '../../schema/errors.ts';
import type { CrudOperation } from '../../schema/language/options.ts';
import { canonicalId, isRecordId } from '../../schema/language/record-key.ts';
import { publicSchema } from '../../schema/public-view.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { recordErrors } from '../errors.ts';

/* Records that belong to the user who created them (`owner` of a schema): a rule on rows that needs no permission engine. */

const operations = { read: 'read', edit: 'update', delete: 'delete' } as const;

export const isRecordAction = (action: string): action is RecordAction =>
  Object.hasOwn(operations, action);

/** True when only the owner may do this. */
export const isOwnersOnly = ({ modelOptions }: CompiledSchema, action: RecordAction): boolean =>
  modelOptions.conduit.owner?.limit?.includes(operations[action]) ?? false;

/** True when this cannot be done without being somebody. */
function needsOwner({ modelOptions }: CompiledSchema, operation: CrudOperation): boolean {
  const { owner } = modelOptions.conduit;
  return owner ? operation === 'create' || (owner.limit?.includes(operation) ?? false) : false;
}

/** The rows that belong to the caller. */
function ownedRows({ modelOptions }: CompiledSchema, caller: Caller): RowPredicate {
  const field = identifier(modelOptions.conduit.owner?.field ?? '');
  const userId = caller.kind === 'user' ? caller.userId : null;
  return {
    shape: 'own',
    compile: (_id, next, _use, alias) => `${alias}.${field} = ${next(userId)}::uuid`,
  };
}

/** Rows that fit both. */
export const bothRules = (one: RowPredicate, other: RowPredicate): RowPredicate => ({
  shape: `${one.shape}&${other.shape}`,
  compile: (...parts) => `(${one.compile(...parts)}) and (${other.compile(...parts)})`,
  many: one.many === true || other.many === true,
});

/** Rows that fit one of them. */
export const eitherRule = (one: RowPredicate, other: RowPredicate): RowPredicate => ({
  shape: `${one.shape}|${other.shape}`,
  compile: (...parts) => `(${besideOther(one, parts)}) or (${besideOther(other, parts)})`,
  many: one.many === true || other.many === true,
});

function besideOther(
  rule: RowPredicate,
  [id, next, use, alias]: Parameters<RowPredicate['compile']>,
): string {
  return rule.few && use !== 'row' ? rule.few(id, next, alias) : rule.compile(id, next, use, alias);
}

/** Operators and the platform itself are not bound by what clients may see; validation binds everybody. */
export const isTrusted = (caller: Caller): boolean =>
  caller.kind === 'admin' || caller.kind === 'system';

const isWithinAuthority = (caller: Caller, schema: CompiledSchema): boolean =>
  schemaObject(schema).every((object) => hasAuthority(caller, object));

/** Throws 403 for an operator whose token is for other modules than that of the schema. */
export function requireTheirSchema(caller: Caller, schema: CompiledSchema): void {
  if (caller.kind === 'admin' && caller.scopes !== undefined)
    requireAuthority(caller, ...schemaObject(schema));
}

/** True when client routes offer this operation at all. */
export function isOffered(schema: CompiledSchema, operation: CrudOperation): boolean {
  const { cms } = schema.modelOptions.conduit;
  if (operation !== 'read' && schema.mapping?.writable === false) return false;
  return cms.enabled && cms.crudOperations[operation].enabled;
}

/** True when only signed-in users may do this. */
export const needsUser = (schema: CompiledSchema, operation: CrudOperation): boolean =>
  // What visitors may read of records with permissions of their own, the permissions say.
  (schema.modelOptions.conduit.authorization.enabled && operation !== 'read') ||
  schema.modelOptions.conduit.cms.crudOperations[operation].authenticated ||
  needsOwner(schema, operation);

/** Refuses what the schema does not offer to this caller: 404, or 401 when signing in would help. */
export function requireOffered(
  caller: Caller,
  schema: CompiledSchema,
  operation: CrudOperation,
): void {
  if (isTrusted(caller)) return;
  if (!isOffered(schema, operation)) throw schemaErrors.SCHEMA_NOT_FOUND();
  if (needsUser(schema, operation) && caller.kind !== 'user') throw errors.UNAUTHORIZED();
}

/** True when the caller may read records of this schema, as far as the schema itself decides. */
export const mayRead = (caller: Caller, schema: CompiledSchema): boolean =>
  schema.isPublicView ||
  (isTrusted(caller)
    ? isWithinAuthority(caller, schema)
    : isOffered(schema, 'read') && (caller.kind === 'user' || !needsUser(schema, 'read')));

/** The schema of the records that a reference leads to: whole for who may read it, else what is public of it. */
export function referencedSchema(
  { get, publicViews }: Pick<SchemaRegistry, 'get' | 'publicViews'>,
  caller: Caller,
  name: string,
): CompiledSchema | undefined {
  const schema = get(name);
  if (!schema || mayRead(caller, schema)) return schema;
  const view = publicViews.get(name);
  return view && (caller.kind === 'user' || view.visitors) ? publicSchema(schema, view) : schema;
}

/**
 * For what was offered to the caller in another way than by the client routes of the schema (a custom
 * endpoint): only rows that are a matter of permission, or of an owner, still need a user. Throws 401.
 */
export function requireGranted(
  caller: Caller,
  schema: CompiledSchema,
  operation: CrudOperation,
): void {
  if (isTrusted(caller) || caller.kind === 'user') return;
  if (schema.modelOptions.conduit.authorization.enabled || needsOwner(schema, operation))
    throw errors.UNAUTHORIZED();
}

interface RowAccess {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  /** Records themselves know no `refer`: whoever reads one may refer to it. */
  readonly action: RowAction;
  /** The action of the type that is asked for, where that is another one. */
  readonly asked?: string;
  readonly scope: string | undefined;
  /** The records that it is about, where they are known. */
  readonly ids?: readonly string[] | undefined;
}

/** Which rows the caller may act on; `undefined` means all of them. */
export function rowPredicate(
  permissions: PermissionPort,
  { caller, schema, action: requested, asked, scope, ids }: RowAccess,
): MaybePromise<RowPredicate | undefined> {
  const action = requested === 'refer' ? 'read' : requested;
  const own = isOwnersOnly(schema, action) ? ownedRows(schema, caller) : undefined;
  if (!schema.modelOptions.conduit.authorization.enabled) return own;
  const rule = permissions.rules.get(schema.name);
  const about = ids && canonicalIds(schema, ids);
  const { engine } = permissions;
  if (rule) return rule(caller, requested, { scope, ids: about }, engine);
  if (!engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  const permitted = engine.predicate(caller, asked ?? action, schema.name, { scope, ids: about });
  if (!own) return permitted;
  const combine = schema.modelOptions.conduit.owner?.combine === 'or' ? eitherRule : bothRules;
  return andThen(permitted, (rows) => combine(own, rows));
}

/** The engine, where it alone says which rows of the schema the user reads. */
export function engineAlone(
  permissions: PermissionPort,
  caller: Caller,
  schema: CompiledSchema,
): PermissionEngine | undefined {
  if (caller.kind !== 'user' || !schema.modelOptions.conduit.authorization.enabled)
    return undefined;
  if (isOwnersOnly(schema, 'read') || permissions.rules.has(schema.name)) return undefined;
  return permissions.engine;
}

/** As relations name them. What is no id is no record. */
export const canonicalIds = ({ key }: CompiledSchema, ids: readonly string[]): readonly string[] =>
  ids.filter((id) => isRecordId(key, id)).map((id) => canonicalId(key, id));

/** True when what this caller may do is decided row by row: by permission, by the owner, or by both, as `owner.combine` says. */
export const isRowAuthorised = (
  caller: Caller,
  schema: CompiledSchema,
  action: RecordAction,
): boolean =>
  (schema.modelOptions.conduit.authorization.enabled || isOwnersOnly(schema, action)) &&
  !schema.isPublicView &&
  !isTrusted(caller);

/** False where whoever may change a record may read it, which most definitions say by themselves. */
export async function mayChangeUnread(
  { engine }: PermissionPort,
  { caller, schema, asked = 'edit' }: Pick<RowAccess, 'caller' | 'schema' | 'asked'>,
): Promise<boolean> {
  if (!isRowAuthorised(caller, schema, 'read')) return false;
  const { authorization, owner } = schema.modelOptions.conduit;
  const [reads, changes] = [isOwnersOnly(schema, 'read'), isOwnersOnly(schema, 'edit')];
  if (!authorization.enabled) return !changes;
  // Who changes it as its owner reads it as its owner, or by permission alike.
  const isByOwner = reads === changes || reads === (owner?.combine === 'or');
  return !isByOwner || !(await engine?.includes(schema.name, asked, 'read'));
}

/** True for a field whose value can be the id of a user. */
export function namesUser(schema: CompiledSchema, name: string): boolean {
  const field = schema.tree.fields.get(name);
  return field?.kind === 'relation'
    ? field.model === 'User'
    : field?.kind === 'objectId' || field?.kind === 'string';
}
