/** The process that finds out what a module imports. It reads the code of others with a native parser, which may end it. */
import { serveCalls } from '../../../kernel/threads/serve-calls.ts';

export interface Imports {
  readonly names: Set<string>;
  /** Everything is imported: `import * as x`. */
  whole: boolean;
}

/** Of packages, by what they are asked for. */
async function importsOf(code: string): Promise<ReadonlyMap<string, Imports>> {
  const { parseAst } = await import('rolldown/parseAst');
  const found = new Map<string, Imports>();
  for (const node of parseAst(code, { sourceType: 'module' }).body) {
    const isImport = node.type === 'ImportDeclaration';
    const isExport = node.type === 'ExportNamedDeclaration' || node.type === 'ExportAllDeclaration';
    if (!(isImport || isExport) || !node.source) continue;
    const { value } = node.source;
    const imports = found.get(value) ?? { names: new Set(), whole: false };
    found.set(value, imports);
    if (node.type === 'ExportAllDeclaration') imports.whole = true;
    else for (const one of node.specifiers) noteSpecifier(imports, one);
  }
  return found;
}

interface Specifier {
  readonly type: string;
  readonly imported?: object;
  readonly local?: object;
}

function noteSpecifier(imports: Imports, { type, imported, local }: Specifier): void {
  if (type === 'ImportNamespaceSpecifier') imports.whole = true;
  const named = type === 'ImportSpecifier' ? imported : type === 'ExportSpecifier' ? local : {};
  const name = named && 'name' in named ? String(named.name) : undefined;
  if (name !== undefined && name !== 'default') imports.names.add(name);
}

process.once('disconnect', () => process.exit());
serveCalls(
  new Map([['imports', async (code: unknown) => ({ result: await importsOf(String(code)) })]]),
);
