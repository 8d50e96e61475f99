/**
 * Access to single fields. A schema as somebody sees it is a schema of its own, in which the fields that they
 * may not see are hidden: so nothing shows them, sorts by them, filters by them or follows them. There are
 * only as many as there are different sets of such fields, and statements are cached for each.
 */
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../../kernel/caller.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import {
  type AccessRule,
  type Field,
  readRuleOf,
  writeRuleOf,
} from '../../schema/language/field.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { isTrusted } from './operation-access.ts';

/** Schemas as different callers see them, kept per schema. */
const MAX_VISIBLE_SCHEMAS = 64;

/** What of a caller decides which fields they see and sets. */
export interface Viewer {
  readonly caller: Caller;
  readonly roles: Pick<ReadonlySet<string>, 'has'>;
}

const noRoles: ReadonlySet<string> = new Set();

/** True, false, or: it depends on the record. */
type Verdict = boolean | 'row';

function verdictOf(rule: AccessRule, { caller, roles }: Viewer): Verdict {
  switch (rule.kind) {
    case 'public':
      return true;
    case 'user':
      return caller.kind === 'user';
    case 'role':
      return roles.has(rule.name);
    case 'owner':
    case 'relation':
      return caller.kind === 'user' && 'row';
    case 'admin':
      return false;
  }
}

interface FieldRules {
  readonly read: readonly (readonly [string, AccessRule])[];
  readonly write: readonly (readonly [string, AccessRule])[];
  /** Some rule is about a role. */
  readonly roles: boolean;
}

const rulesBySchema = new WeakMap<CompiledSchema, FieldRules>();

/** The rules of a schema that are not "everybody". */
function rulesOf(schema: CompiledSchema): FieldRules {
  let rules = rulesBySchema.get(schema);
  if (!rules) {
    const pick = (ruleOf: (field: Field) => AccessRule) =>
      [...schema.tree.fields]
        .map(([name, field]) => [name, ruleOf(field)] as const)
        .filter(([, { kind }]) => kind !== 'public');
    const [read, write] = [pick(readRuleOf), pick(writeRuleOf)];
    rules = { read, write, roles: [...read, ...write].some(([, { kind }]) => kind === 'role') };
    rulesBySchema.set(schema, rules);
  }
  return rules;
}

type Need = 'none' | 'rules' | 'roles';
const needs = new WeakMap<readonly CompiledSchema[], Map<string, Need>>();

/** What the rules of a schema, and of all that its relations lead to, ask for. */
function needOf(schemas: SchemaRegistry, name: string): Need {
  const all = schemas.all();
  // The list is the same object until some schema changes.
  const known = needs.get(all) ?? new Map<string, Need>();
  needs.set(all, known);
  let need = known.get(name);
  if (!need) {
    const rules = reachedFrom(schemas, name).map(rulesOf);
    const some = rules.some(({ read, write }) => read.length > 0 || write.length > 0);
    need = rules.some(({ roles }) => roles) ? 'roles' : some ? 'rules' : 'none';
    if (rules.length > 0) known.set(name, need);
  }
  return need;
}

function reachedFrom(schemas: SchemaRegistry, name: string): readonly CompiledSchema[] {
  const reached = new Map<string, CompiledSchema>();
  const queue = [name];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const schema = reached.has(next) ? undefined : schemas.get(next);
    if (!schema) continue;
    reached.set(next, schema);
    for (const { model } of schema.relations.values()) queue.push(model);
  }
  return [...reached.values()];
}

interface AccessDependencies {
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
}

/** `undefined` for a caller who sees everything of a schema and what it leads to. Waits only for roles. */
export function viewerOf(
  { schemas, permissions }: AccessDependencies,
  caller: Caller,
  schema: string,
): Viewer | undefined | Promise<Viewer | undefined> {
  const need = needOf(schemas, schema);
  if (need === 'none' || isTrusted(caller)) return undefined;
  // Without the engine nobody can say who holds a role: then nobody does.
  if (need === 'rules' || caller.kind !== 'user' || !permissions.engine)
    return { caller, roles: noRoles };
  return permissions.engine.roles(caller).then((roles) => ({ caller, roles }));
}

const visibleSchemas = new WeakMap<CompiledSchema, LRUCache<string, CompiledSchema>>();

/** The schema as the viewer sees it. */
export function visibleSchema(schema: CompiledSchema, viewer: Viewer): CompiledSchema {
  const verdicts = rulesOf(schema).read.map(([name, rule]) => ({
    name,
    rule,
    verdict: verdictOf(rule, viewer),
  }));
  const out = verdicts.filter(({ verdict }) => verdict !== true);
  if (out.length === 0) return schema;
  const key = out.map(({ name, verdict }) => (verdict === 'row' ? `${name}?` : name)).join();
  let cache = visibleSchemas.get(schema);
  if (!cache) {
    cache = new LRUCache({ max: MAX_VISIBLE_SCHEMAS });
    visibleSchemas.set(schema, cache);
  }
  let seen = cache.get(key);
  if (!seen) {
    const conditional = new Map(
      out.filter(({ verdict }) => verdict === 'row').map(({ name, rule }) => [name, rule]),
    );
    seen = restrictedSchema(schema, {
      key,
      conditional,
      hidden: new Set(out.map(({ name }) => name)),
    });
    cache.set(key, seen);
  }
  return seen;
}

interface VisibilityParts {
  readonly key: string;
  readonly conditional: ReadonlyMap<string, AccessRule>;
  readonly hidden: ReadonlySet<string>;
}

function restrictedSchema(
  schema: CompiledSchema,
  { key, conditional, hidden }: VisibilityParts,
): CompiledSchema {
  const fields = [...schema.tree.fields].map(([name, field]): [string, Field] => [
    name,
    hidden.has(name) ? { ...field, hidden: true } : field,
  ]);
  // What nobody sees anyway is not shown to anybody by a rule.
  const visibleIf = new Map(
    [...conditional].filter(([name]) => schema.tree.fields.get(name)?.hidden === false),
  );
  return {
    ...schema,
    fieldVisibility: { key, conditional: visibleIf },
    tree: { ...schema.tree, fields: new Map(fields) },
    sortable: new Set([...schema.sortable].filter((name) => !hidden.has(name))),
  };
}

/** What a caller may not set. */
export interface WriteRights {
  /** Not in any record. */
  readonly denied: ReadonlySet<string>;
  /** Only in records where the rule holds. */
  readonly guarded: ReadonlyMap<string, AccessRule>;
}

export const allRights: WriteRights = { denied: new Set(), guarded: new Map() };

/** What the caller may set. */
export function rightsOf(schema: CompiledSchema, viewer: Viewer | undefined): WriteRights {
  const { write } = rulesOf(schema);
  if (!viewer || write.length === 0) return allRights;
  const denied = new Set<string>();
  const guarded = new Map<string, AccessRule>();
  for (const [name, rule] of write) {
    const verdict = verdictOf(rule, viewer);
    if (verdict === 'row') guarded.set(name, rule);
    else if (!verdict) denied.add(name);
  }
  return { denied, guarded };
}
