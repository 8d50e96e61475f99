/** Schemas as if they had only the fields that somebody looks at: the others cost the server time and the wire bytes. */
import type { Wanted } from '../operation.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { automaticFields } from '../schema/names.ts';
import type { PopulateBranch, PopulateTree } from './populate.ts';

interface Narrowed<T> {
  readonly shownAs: T;
  /** What of it decides the text of a statement. */
  readonly key: string;
}

/** By the names, which are the same object for each call of a prepared query. */
const bySelection = new WeakMap<Wanted, Narrowed<CompiledSchema> & { readonly schema: CompiledSchema }>();

/** The whole schema when some name is not a field. */
export function narrowedSchema(schema: CompiledSchema, only: Wanted | undefined): Narrowed<CompiledSchema> {
  if (!only) return { shownAs: schema, key: '' };
  const known = bySelection.get(only);
  if (known?.schema === schema) return known;
  const { fields } = schema.tree;
  const isWhole = [...only.keys()].some((name) => !automaticFields.has(name) && !fields.has(name));
  const kept = new Map([...fields].filter(([name]) => only.has(name)));
  const timestamps = schema.modelOptions.timestamps && (only.has('createdAt') || only.has('updatedAt'));
  const shownAs = { ...schema, tree: { ...schema.tree, fields: kept }, modelOptions: { ...schema.modelOptions, timestamps } };
  const made = isWhole ? { schema, shownAs: schema, key: '' } : { schema, shownAs, key: [...kept.keys(), timestamps].join() };
  bySelection.set(only, made);
  return made;
}

/** The same for what relations lead to. */
export function narrowedTree(tree: PopulateTree, only: Wanted | undefined): Narrowed<PopulateTree> {
  if (tree.size === 0 || !only) return { shownAs: tree, key: '' };
  const branches = [...tree].map(([name, branch]) => ({ name, ...narrowedBranch(branch, only.get(name)) }));
  return {
    shownAs: new Map(branches.map(({ name, shownAs }) => [name, shownAs])),
    key: branches.map(({ name, key }) => `${name}:${key}`).join(),
  };
}

function narrowedBranch(branch: PopulateBranch, only: Wanted | undefined): Narrowed<PopulateBranch> {
  if (!only?.size) return { shownAs: branch, key: '' };
  const target = narrowedSchema(branch.target, only);
  const children = narrowedTree(branch.children, only);
  return {
    shownAs: { ...branch, target: target.shownAs, children: children.shownAs },
    key: `{${target.key}}(${children.key})`,
  };
}
