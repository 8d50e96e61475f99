/** Relation paths of a request, resolved against the schemas and the rights of the caller. */

import type { Caller } from '../caller.ts';
import { invalid } from '../errors.ts';
import type { PermissionPort, RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import type { SchemaRegistry } from '../schema/registry.ts';
import { cutText } from '../text.ts';
import { isRowAuthorised, mayRead, rowPredicate } from './access.ts';
import { recordErrors } from './errors.ts';

/** Limits of spec/database.md section 3. */
const MAX_PATHS = 10;
const MAX_DEPTH = 3;

export interface PopulateBranch {
  readonly target: CompiledSchema;
  readonly many: boolean;
  readonly predicate: RowPredicate | undefined;
  readonly children: PopulateTree;
}

export type PopulateTree = ReadonlyMap<string, PopulateBranch>;
type GrowingTree = Map<string, PopulateBranch & { readonly children: GrowingTree }>;

export const noPopulate: PopulateTree = new Map();

export interface PopulateRequest {
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
  if (paths.length > MAX_PATHS) throw invalid('populate', 'maxItems', `at most ${MAX_PATHS} relations at once`);
  const tree: GrowingTree = new Map();
  for (const path of paths) {
    const names = path.split('.');
    if (names.length > MAX_DEPTH) throw invalid('populate', 'depth', `relations are followed at most ${MAX_DEPTH} levels deep`);
    let level = tree;
    let source = schema;
    for (const name of names) {
      const branch = level.get(name) ?? (await branchOf(dependencies, { caller, source, name, path, scope }));
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
  { schemas, permissions }: { readonly schemas: SchemaRegistry; readonly permissions: PermissionPort },
  { caller, source, name, path, scope }: BranchRequest,
): Promise<PopulateBranch & { readonly children: GrowingTree }> {
  const relation = source.tree.fields.get(name)?.hidden ? undefined : source.relations.get(name);
  if (!relation) throw invalid('populate', 'relation', `"${cutText(path, 128)}" is not a relation of ${source.name}`);
  const target = schemas.get(relation.model);
  if (!target) throw invalid('populate', 'relation', `"${path}" points to ${relation.model}, which does not exist yet`);
  if (!mayRead(caller, target)) {
    const message = `"${path}" leads to records of ${target.name}, which you may not read`;
    throw recordErrors.POPULATE_FORBIDDEN({ message, errors: [{ path: 'populate', rule: 'access', message }] });
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
      `${name}:${target._id}:${target.__v}:${target.sight?.key ?? ''}:${predicate?.shape ?? ''}(${populateShape(children)})`,
  );
  return parts.join(',');
}

/** True when some part of the tree is limited to permitted rows: such statements carry values of their own. */
export const isRestricted = (tree: PopulateTree): boolean =>
  [...tree.values()].some(({ predicate, children }) => predicate !== undefined || isRestricted(children));
