/** What a TypeScript file imports, type imports included, what it names and how long its functions are, read from its syntax tree. */
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync } from 'oxc-parser';
import { type FunctionSize, functionsOf, identifiersOf } from './syntax.ts';

/** A source file with its imports of other files; packages are left out. Paths are relative to the root, with `/`. */
export interface SourceFile {
  readonly path: string;
  readonly imports: readonly string[];
  /** Modules that it declares under `requires` or `uses` (only in a module's `index.ts`). */
  readonly requires: readonly string[];
  /** Every name in it, keys and types included. */
  readonly identifiers: ReadonlySet<string>;
  readonly functions: readonly FunctionSize[];
}

export function readSourceFile(root: string, path: string): SourceFile {
  return parseSourceFile(path, readFileSync(join(root, path), 'utf8'));
}

export function parseSourceFile(path: string, text: string): SourceFile {
  const { module, program, comments } = parseSync(path, text);
  const requests = [
    ...module.staticImports.map((one) => one.moduleRequest.value),
    ...module.staticExports.flatMap((one) =>
      one.entries.flatMap((entry) => entry.moduleRequest?.value ?? []),
    ),
    ...module.dynamicImports.flatMap((one) =>
      literal(text.slice(one.moduleRequest.start, one.moduleRequest.end)),
    ),
    ...[...text.matchAll(/\bimport\(\s*(['"][^'"]+['"])\s*\)/g)].flatMap((match) =>
      literal(match[1] ?? ''),
    ),
  ];
  const imports = [
    ...new Set(
      requests
        .filter((request) => request.startsWith('.'))
        .map((request) => resolve(path, request)),
    ),
  ];
  return {
    path,
    imports,
    requires: requiredModules(path, module.staticImports, program),
    identifiers: identifiersOf(program),
    functions: functionsOf(text, program, comments),
  };
}

const resolve = (from: string, request: string): string =>
  normalize(join(dirname(from), request)).replaceAll('\\', '/');

/** The text of a string literal; an import that is computed cannot be judged and is not listed. */
const literal = (source: string): string[] =>
  /^(['"]).*\1$/.test(source) ? [source.slice(1, -1)] : [];

type StaticImports = ReturnType<typeof parseSync>['module']['staticImports'];

/** `requires: { authorization, database }`, and `uses` alike, names imported definitions: answers the folders they come from. */
function requiredModules(path: string, imports: StaticImports, program: unknown): string[] {
  const folderOf = new Map<string, string>();
  for (const one of imports) {
    const folder = /^src\/modules\/([^/]+)\//.exec(resolve(path, one.moduleRequest.value))?.[1];
    if (folder) for (const entry of one.entries) folderOf.set(entry.localName.value, folder);
  }
  return [...namesUnder('requires', program), ...namesUnder('uses', program)].flatMap(
    (name) => folderOf.get(name) ?? [],
  );
}

interface TreeNode {
  readonly type?: string;
  readonly name?: string;
  readonly key?: TreeNode;
  readonly value?: unknown;
}

/** Identifiers inside the value of a property of this name, anywhere in the tree. */
function* namesUnder(property: string, node: unknown, inside = false): Generator<string> {
  if (typeof node !== 'object' || node === null) return;
  const { type, name, key, value } = node as TreeNode;
  if (inside && type === 'Identifier' && name) yield name;
  if (type === 'Property' && (inside || key?.name === property)) {
    yield* namesUnder(property, value, true);
    return;
  }
  for (const child of Object.values(node)) yield* namesUnder(property, child, inside);
}
