/**
 * Packages that functions ask for, out of those that the operator installed into a folder, as one text each. They are
 * bundled when a function is stored and kept with its version: nothing is read or fetched when it runs, and what is
 * installed later changes no function that is stored.
 */
import { realpath } from 'node:fs/promises';
import { builtinModules, createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import type { Plugin, RolldownLog } from 'rolldown';
import { invalid } from '../../../kernel/errors.ts';
import { shortened } from '../../../kernel/text.ts';
import { createProcessLink } from '../../../kernel/threads/worker-link.ts';
import type { SourceForm } from '../engine/protocol.ts';
import type { Imports } from './imports-process.ts';

export interface BundleRequest {
  readonly names: readonly string[];
  readonly form: SourceForm;
  /** The text that runs: what it imports from a package by name is what the bundle exports. */
  readonly code: string;
}

export interface Bundler {
  /** Texts by name. Throws 400 for a package that is not there or that cannot run in a sandbox. */
  bundle(request: BundleRequest): Promise<Readonly<Record<string, string>>>;
}

interface BundlerOptions {
  /** Where the operator installs packages: it has a `node_modules`. */
  readonly folder: string;
  /** Bytes of all packages of one function. */
  readonly maxBytes: () => number;
}

/** What every sandbox brings along. */
const builtInPackages: ReadonlySet<string> = new Set(['axios']);
/** Packages of the platform that existing functions take for granted; one that the operator installed goes first. */
const givenPackages: ReadonlySet<string> = new Set(['lodash']);

/** Of the process that finds out what a module imports. */
const HEAP_MEGABYTES = 512;

/** Most modules import nothing: the parser is not loaded for those. */
const importWord = /\b(?:from|import)\b/;

const packageName = /^(?:@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*(?:\/[A-Za-z0-9._-]+){0,10}$/;
const isName = (name: string): boolean =>
  name.length <= 200 && packageName.test(name) && !name.split('/').includes('..');

export const createBundler = (options: BundlerOptions): Bundler => ({
  async bundle(request) {
    const asked = await packagesOf(request);
    if (asked.size === 0) return {};
    const texts: [name: string, text: string][] = [];
    for (const [name, imports] of asked) {
      const root = isName(name) ? await folderOf(name, options.folder) : undefined;
      if (root === undefined) throw missing(name);
      texts.push([name, await bundleOne({ name, form: request.form, root, imports })]);
    }
    const bytes = texts.reduce((sum, [, text]) => sum + Buffer.byteLength(text), 0);
    const max = options.maxBytes();
    if (bytes > max)
      throw problem('maxLength', `the packages have ${bytes} bytes, and ${max} are allowed`);
    return Object.fromEntries(texts);
  },
});

/** The folder in which a package and all that it asks for are; nothing where nothing was installed. */
async function folderOf(name: string, installed: string): Promise<string | undefined> {
  const [first = ''] = name.split('/');
  if (givenPackages.has(first)) {
    const own = await realpath(join(installed, 'node_modules', first)).catch(() => undefined);
    if (own === undefined)
      return dirname(createRequire(import.meta.url).resolve(`${first}/package.json`));
  }
  return realpath(installed).catch(() => undefined);
}

/** By name, with what is imported from them. */
async function packagesOf({
  names,
  form,
  code,
}: BundleRequest): Promise<ReadonlyMap<string, Imports | undefined>> {
  if (form === 'module') return importWord.test(code) ? importsOf(code) : new Map();
  return new Map(
    names.filter((name) => !builtInPackages.has(name)).map((name) => [name, undefined]),
  );
}

const problem = (rule: string, message: string) => invalid('functionCode', rule, message);
const missing = (name: string) => problem('package', `${shortened(name, 100)} ${adviceFor(name)}`);

/** What to do where this is asked for and nothing of the kind is there. */
function adviceFor(name: string): string {
  if (/^(?:\.|\/|[a-z]+:\/\/|data:|file:)/.test(name))
    return 'is no package: a function is one text, and shares code with others by a package';
  if (name.startsWith('node:'))
    return 'is of Node, which functions do not have: there are fetch, crypto, Buffer and ctx';
  if (!isName(name)) return 'is no name of a package';
  const [first = '', second = ''] = name.split('/');
  const install = first.startsWith('@') ? `${first}/${second}` : first;
  return `is not installed for functions: run "npm install ${install}" in the folder functions of the data folder`;
}

/* What a module imports. */

/**
 * In a process of its own each time: the parser is native, and a chain of a hundred thousand operators, which V8 takes,
 * overruns its stack and ends its process.
 */
async function importsOf(code: string): Promise<ReadonlyMap<string, Imports>> {
  const file = new URL('./imports-process.ts', import.meta.url);
  const reader = createProcessLink({ file, idleMs: 0, heapMegabytes: HEAP_MEGABYTES });
  try {
    return await reader.call('imports', code);
  } catch {
    throw problem('package', 'is nested too deeply to tell what it imports');
  } finally {
    await reader.close();
  }
}

/* One bundle. */

interface One {
  readonly name: string;
  readonly form: SourceForm;
  /** Nothing outside of this folder becomes part of it. */
  readonly root: string;
  readonly imports: Imports | undefined;
}

const ENTRY = '\0entry';
const STUB = '\0absent:';

/** What asks for the package, in the form in which the sandbox loads it. */
function entryText({ name, form, imports }: One): string {
  const from = JSON.stringify(name);
  if (form === 'body') return `module.exports = require(${from});`;
  const names = [...(imports?.names ?? [])].map((one) => `export const ${one} = all.${one};`);
  const rest = imports?.whole ? `export * from ${from};` : '';
  return `import * as all from ${from};
${rest}
${imports?.whole ? '' : names.join('\n')}
export default 'default' in all ? all.default : all;`;
}

async function bundleOne(one: One): Promise<string> {
  const { rolldown } = await import('rolldown');
  const { name, form, root } = one;
  const undefinedNames: string[] = [];
  const unresolved = new Set<string>();
  const bundle = await rolldown({
    cwd: root,
    input: { package: ENTRY },
    platform: 'browser',
    tsconfig: false,
    resolve: { conditionNames: [form === 'module' ? 'import' : 'require', 'browser', 'default'] },
    transform: { define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' } },
    plugins: [contained(one, unresolved)],
    onLog: (_level, log) => {
      const asked = undefinedImport(log);
      if (asked !== undefined && asked !== 'default') undefinedNames.push(asked);
    },
  });
  try {
    const { output } = await bundle.generate({
      format: form === 'module' ? 'esm' : 'cjs',
      exports: 'auto',
      codeSplitting: false,
    });
    const stray = undefinedNames.find((asked) => one.imports?.names.has(asked));
    if (stray !== undefined) throw problem('package', `the package ${name} exports no ${stray}`);
    return output[0].code;
  } catch (error) {
    throw unresolved.has(name) ? missing(name) : named(error, one);
  } finally {
    await bundle.close();
  }
}

const undefinedImport = ({ code, message }: RolldownLog): string | undefined =>
  code === 'IMPORT_IS_UNDEFINED' ? /`([^`]{1,100})`/.exec(message)?.[1] : undefined;

/** What the bundler says, for the operator: without colours and places of this machine. */
function named(error: unknown, { name, root }: One): unknown {
  if (!(error instanceof Error) || !('errors' in error)) return error;
  const [first] = error.errors as readonly RolldownLog[];
  const text = (first?.message ?? error.message)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours of a terminal
    .replace(/\u001b\[[0-9;]*m/g, '')
    .replaceAll(root, '.');
  return problem('package', `the package ${name} cannot be bundled: ${shortened(text, 400)}`);
}

const nodeModules: ReadonlySet<string> = new Set(builtinModules);
const withoutScheme = (id: string): string => id.replace(/^node:/, '');

/** Finds packages in their folder alone; what only Node has is a stub that says so when it is used. */
const contained = (one: One, unresolved: Set<string>): Plugin => ({
  name: 'penstock-contained',
  async resolveId(id, importer, { kind }) {
    if (id === ENTRY) return ENTRY;
    const isAsked = importer === ENTRY;
    const from = isAsked ? join(one.root, 'index.js') : importer;
    const resolved = await this.resolve(id, from, { skipSelf: true });
    if (resolved && inside(one.root, resolved.id)) return resolved;
    const stub = stubOf(id, resolved?.id);
    if (stub !== undefined) return stub;
    unresolved.add(id);
    // A package may try what need not be there.
    if (kind === 'require-call' && !isAsked) return `${STUB}${id}`;
    throw new Error(`${id} is not installed`);
  },
  load(id) {
    if (id === ENTRY) return { code: entryText(one), moduleType: 'js' };
    return id.startsWith(STUB) ? { code: stubText(id.slice(STUB.length)), moduleType: 'js' } : null;
  },
});

/** What stands for something outside of the folder. Throws for a file there. */
function stubOf(id: string, resolved: string | undefined): string | undefined {
  if (id.startsWith('node:') || nodeModules.has(id)) return `${STUB}node:${withoutScheme(id)}`;
  if (resolved?.startsWith('\0')) return resolved;
  if (resolved === undefined || resolved === id) return undefined;
  throw new Error(`${id} is not in the folder for packages`);
}

const inside = (root: string, id: string): boolean => id.startsWith(root + sep);

function stubText(name: string): string {
  if (name === 'node:buffer') return 'module.exports = { Buffer: globalThis.Buffer };';
  if (name === 'node:url') return 'module.exports = { URL, URLSearchParams };';
  const message = JSON.stringify(`Functions have no ${name}`);
  return `module.exports = Object.create(new Proxy({}, { get(_, key) {
  if (typeof key === 'symbol' || key === '__esModule' || key === 'then') return undefined;
  throw new Error(${message} + ', which a package asked for ' + key);
} }));`;
}
