/** What the checks of names and sizes ask of a syntax tree. */
import type { Comment } from 'oxc-parser';

/** A function with everything inside it. */
export interface FunctionSize {
  /** What it is called or given to; empty where it has no name. */
  readonly name: string;
  /** Where it begins, from 1. */
  readonly line: number;
  /** Lines of code: neither blank nor only a comment. */
  readonly lines: number;
}

interface TreeNode {
  readonly type?: string;
  readonly start?: number;
  readonly end?: number;
  readonly name?: unknown;
  readonly id?: { readonly name?: string } | null;
  readonly key?: { readonly name?: string };
}

const functionTypes = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
]);

/** Every identifier of a file, keys of objects and types included. */
export function identifiersOf(program: unknown): ReadonlySet<string> {
  const names = new Set<string>();
  walk(program, '', (node) => {
    if (node.type?.endsWith('Identifier') && typeof node.name === 'string') names.add(node.name);
  });
  return names;
}

/** Sizes of all functions, closures included: a factory is as long as what it makes. */
export function functionsOf(
  text: string,
  program: unknown,
  comments: readonly Comment[],
): FunctionSize[] {
  const code = withoutComments(text, comments);
  const found: FunctionSize[] = [];
  walk(program, '', ({ type, start = 0, end = 0 }, name) => {
    if (!functionTypes.has(type ?? '')) return;
    const lines = code
      .slice(start, end)
      .split('\n')
      .filter((line) => line.trim() !== '').length;
    found.push({ name, line: text.slice(0, start).split('\n').length, lines });
  });
  return found;
}

const withoutComments = (text: string, comments: readonly Comment[]): string =>
  comments.reduce(
    (rest, { start, end }) =>
      rest.slice(0, start) + rest.slice(start, end).replace(/[^\n]/g, ' ') + rest.slice(end),
    text,
  );

/** Visits all nodes; `name` is that of the nearest thing with a name around the node, its own included. */
function walk(node: unknown, name: string, visit: (node: TreeNode, name: string) => void): void {
  if (typeof node !== 'object' || node === null) return;
  if (Array.isArray(node)) {
    for (const each of node) walk(each, name, visit);
    return;
  }
  const { type, id, key } = node as TreeNode;
  const own = id?.name ?? (type === 'Property' ? key?.name : undefined) ?? name;
  visit(node as TreeNode, own);
  for (const child of Object.values(node)) walk(child, own, visit);
}
