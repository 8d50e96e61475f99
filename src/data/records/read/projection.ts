/** Relation paths of a request, resolved against the schemas and the rights of the caller. */
import type { Caller } from '../../../kernel/caller.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { SelectedFields } from '../../../kernel/operations/operation-input.ts';
import type { PermissionPort, RowPredicate } from '../../../kernel/permissions.ts';
import { cutText } from '../../../kernel/text.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { AccessRule } from '../../schema/language/field.ts';
import { automaticFields } from '../../schema/language/names.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import {
  isRowAuthorised,
  isTrusted,
  mayRead,
  referencedSchema,
  rowPredicate,
} from '../access/operation-access.ts';
import { recordErrors } from '../errors.ts';
import type { Parameters } from '../sql/prepared-statements.ts';

/** Limits of spec/database.md section 3. */
const MAX_PATHS = 10;
const MAX_DEPTH = 3;

interface PopulateBranch {
  readonly target: CompiledSchema;
  readonly many: boolean;
  readonly predicate: RowPredicate | undefined;
  readonly children: PopulateTree;
}

export type PopulateTree = ReadonlyMap<string, PopulateBranch>;
type GrowingTree = Map<string, PopulateBranch & { readonly children: GrowingTree }>;

export const noPopulate: PopulateTree = new Map();

interface PopulateRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly paths: readonly string[];
  readonly scope: string | undefined;
}

/** Throws 400 for a path that is no relation, 403 for one that leads to what the caller may not read. */
export async function resolvePopulate(
  dependencies: { readonly schemas: SchemaRegistry; readonly permissions: PermissionPort },
  { caller, schema, paths, scope }: PopulateRequest,
): Promise<PopulateTree> {
  if (paths.length > MAX_PATHS)
    throw invalid('populate', 'maxItems', `at most ${MAX_PATHS} relations at once`);
  const tree: GrowingTree = new Map();
  for (const path of paths) {
    const names = path.split('.');
    if (names.length > MAX_DEPTH)
      throw invalid('populate', 'depth', `relations are followed at most ${MAX_DEPTH} levels deep`);
    let level = tree;
    let source = schema;
    for (const name of names) {
      const branch =
        level.get(name) ?? (await branchOf(dependencies, { caller, source, name, path, scope }));
      level.set(name, branch);
      level = branch.children;
      source = branch.target;
    }
  }
  return tree;
}

interface BranchRequest {
  readonly caller: Caller;
  readonly source: CompiledSchema;
  readonly name: string;
  readonly path: string;
  readonly scope: string | undefined;
}

async function branchOf(
  {
    schemas,
    permissions,
  }: { readonly schemas: SchemaRegistry; readonly permissions: PermissionPort },
  { caller, source, name, path, scope }: BranchRequest,
): Promise<PopulateBranch & { readonly children: GrowingTree }> {
  const relation = source.tree.fields.get(name)?.hidden ? undefined : source.relations.get(name);
  if (!relation)
    throw invalid(
      'populate',
      'relation',
      `"${cutText(path, 128)}" is not a relation of ${source.name}`,
    );
  const target = referencedSchema(schemas, caller, relation.model);
  if (!target)
    throw invalid(
      'populate',
      'relation',
      `"${path}" points to ${relation.model}, which does not exist yet`,
    );
  if (!mayRead(caller, target)) {
    const message = `"${path}" leads to records of ${target.name}, which you may not read`;
    throw recordErrors.POPULATE_FORBIDDEN({
      message,
      errors: [{ path: 'populate', rule: 'access', message }],
    });
  }
  const predicate = isRowAuthorised(caller, target, 'read')
    ? await rowPredicate(permissions, { caller, schema: target, action: 'read', scope })
    : undefined;
  return { target, many: relation.many, predicate, children: new Map() };
}

/** What of a tree decides the text of a statement. */
export function populateShape(tree: PopulateTree): string {
  if (tree.size === 0) return '';
  const parts = [...tree].map(
    ([name, { target, predicate, children }]) =>
      `${name}:${target._id}:${target.__v}:${target.fieldVisibility?.key ?? ''}:${predicate?.shape ?? ''}(${populateShape(children)})`,
  );
  return parts.join(',');
}

/** True when some part of the tree is limited to permitted rows: such statements carry values of their own. */
export const isRestricted = (tree: PopulateTree): boolean =>
  [...tree.values()].some(
    ({ predicate, children }) => predicate !== undefined || isRestricted(children),
  );

/** True when what the tree is limited to is known by a few searches for each record (`RowPredicate.isLight`). */
export const isLightlyRestricted = (tree: PopulateTree): boolean =>
  [...tree.values()].every(
    ({ predicate, children }) =>
      (predicate === undefined || predicate.isLight === true) && isLightlyRestricted(children),
  );

/** Relations of a record that may be read with it as if they were part of it. */
const FEW_RELATIONS = 4;

/** Whether each record brings no more than a few others with it, each found by its id. */
export const isFewRecords = (tree: PopulateTree): boolean =>
  tree.size <= FEW_RELATIONS &&
  [...tree.values()].every(
    ({ many, children, target }) => !many && children.size === 0 && target.mapping === undefined,
  );

/* Schemas as if they had only the fields that somebody looks at: the others cost the server time and the wire bytes. */

interface Projected<T> {
  readonly viewSchema: T;
  /** What of it decides the text of a statement. */
  readonly key: string;
}

/** By the names, which are the same object for each call of a prepared query. */
const bySelection = new WeakMap<
  SelectedFields,
  Projected<CompiledSchema> & { readonly schema: CompiledSchema }
>();

/** The whole schema when some name is not a field. */
export function projectedSchema(
  schema: CompiledSchema,
  only: SelectedFields | undefined,
): Projected<CompiledSchema> {
  if (!only) return { viewSchema: schema, key: '' };
  const known = bySelection.get(only);
  if (known?.schema === schema) return known;
  const { fields } = schema.tree;
  const isWhole = [...only.keys()].some(
    (name) => !automaticFields.has(name) && !fields.has(name) && name !== '__typename',
  );
  const kept = new Map([...fields].filter(([name]) => only.has(name)));
  const timestamps =
    schema.modelOptions.timestamps && (only.has('createdAt') || only.has('updatedAt'));
  const viewSchema = {
    ...schema,
    tree: { ...schema.tree, fields: kept },
    modelOptions: { ...schema.modelOptions, timestamps },
  };
  const made = isWhole
    ? { schema, viewSchema: schema, key: '' }
    : { schema, viewSchema, key: [...kept.keys(), timestamps].join() };
  bySelection.set(only, made);
  return made;
}

/** The same for what relations lead to. */
export function projectedTree(
  tree: PopulateTree,
  only: SelectedFields | undefined,
): Projected<PopulateTree> {
  if (tree.size === 0 || !only) return { viewSchema: tree, key: '' };
  const branches = [...tree].map(([name, branch]) => ({
    name,
    ...projectedBranch(branch, only.get(name)),
  }));
  return {
    viewSchema: new Map(branches.map(({ name, viewSchema }) => [name, viewSchema])),
    key: branches.map(({ name, key }) => `${name}:${key}`).join(),
  };
}

function projectedBranch(
  branch: PopulateBranch,
  only: SelectedFields | undefined,
): Projected<PopulateBranch> {
  if (!only?.size) return { viewSchema: branch, key: '' };
  const target = projectedSchema(branch.target, only);
  const children = projectedTree(branch.children, only);
  return {
    viewSchema: { ...branch, target: target.viewSchema, children: children.viewSchema },
    key: `{${target.key}}(${children.key})`,
  };
}

const keys = new WeakMap<SelectedFields, string>();

/** What of requested fields decides the text of a statement that renders them exactly. */
export function requestedKey(only: SelectedFields): string {
  const known = keys.get(only);
  if (known !== undefined) return known;
  const key = [...only]
    .map(([name, inner]) => (inner.size === 0 ? name : `${name}{${requestedKey(inner)}}`))
    .concat(only.has('__typename') ? (only.typeName ?? '') : [])
    .join();
  keys.set(only, key);
  return key;
}

/* Rules of fields that depend on the record, as SQL over its row: the caller owns it, or stands in a relation to it. */

export interface RowConditions {
  /** Decides the text of the tests. */
  readonly shape: string;
  /** True for a row `alias` where the rule holds. */
  test(
    schema: CompiledSchema,
    rule: AccessRule,
    row: { readonly alias: string; readonly parameters: Parameters },
  ): string;
}

/** The relation that a rule asks the permission engine for. `undefined`: the owner field decides. */
function relationOf({ modelOptions }: CompiledSchema, rule: AccessRule): string | undefined {
  if (rule.kind === 'relation') return rule.name;
  return rule.kind === 'owner' && !modelOptions.conduit.owner ? 'owner' : undefined;
}

interface ConditionRequest {
  readonly caller: Caller;
  /** The schema that is read or written, with the rules that matter of it. */
  readonly schema: CompiledSchema;
  readonly rules: readonly AccessRule[];
  readonly populate: PopulateTree;
  readonly scope: string | undefined;
}

/** `undefined` when nothing depends on the record. Throws 503 where the engine is needed and does not run. */
export async function conditionsOf(
  permissions: PermissionPort,
  request: ConditionRequest,
): Promise<RowConditions | undefined> {
  const { caller, schema, rules, populate, scope } = request;
  const asked = [...rules.map((rule) => ({ schema, rule })), ...populatedRules(populate)];
  if (asked.length === 0 || isTrusted(caller)) return undefined;
  const predicates = new Map<string, RowPredicate>();
  for (const one of asked) {
    const relation = relationOf(one.schema, one.rule);
    const key = `${one.schema.name}:${relation}`;
    if (relation === undefined || predicates.has(key)) continue;
    if (!permissions.engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
    predicates.set(
      key,
      await permissions.engine.predicate(caller, relation, one.schema.name, {
        scope,
        orNone: true,
      }),
    );
  }
  const userId = caller.kind === 'user' ? caller.userId : null;
  return {
    shape: [...predicates].map(([key, { shape }]) => `${key}=${shape}`).join(),
    test(of, rule, { alias, parameters }) {
      const predicate = predicates.get(`${of.name}:${relationOf(of, rule)}`);
      if (predicate) return predicate.compile(`${alias}."_id"`, parameters.next, 'rows', alias);
      const { owner } = of.modelOptions.conduit;
      return owner
        ? `${alias}.${identifier(owner.field)} = ${parameters.next(userId)}::uuid`
        : 'false';
    },
  };
}

/** Rules of the fields of related records. */
const populatedRules = (
  tree: PopulateTree,
): { readonly schema: CompiledSchema; readonly rule: AccessRule }[] =>
  [...tree.values()].flatMap(({ target, children }) => [
    ...[...(target.fieldVisibility?.conditional.values() ?? [])].map((rule) => ({
      schema: target,
      rule,
    })),
    ...populatedRules(children),
  ]);
