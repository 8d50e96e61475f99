/**
 * State documents as files: one JSON or YAML file, or a folder with one file per configuration and type.
 *
 *     state.yaml                             formatVersion, platformVersion
 *     configs/<module>.yaml                  keys of one configuration
 *     modules/<module>/<type>.yaml           a list of documents
 *     environments/<name>.yaml               values of variables (variables.ts)
 */
import { glob, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, extname, join, sep } from 'node:path';
import { parse } from 'yaml';
import { StartError } from '../../kernel/start-error.ts';
import { yamlText } from '../../kernel/yaml-text.ts';
import { requireSet, substituted, type Unset, type Variables, withVariables } from './variables.ts';

type Tree = Readonly<Record<string, unknown>>;

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const extensions: ReadonlySet<string> = new Set(['.json', '.yaml', '.yml']);

/** The document that a file or a folder holds, variables filled in. Throws `StartError` with the file, and the place in it, that is wrong. */
export async function readStateFiles(path: string, variables: Variables): Promise<Tree> {
  const unset: Unset[] = [];
  const document = await readRaw(path, (content, file) => {
    const filled = substituted(content, variables.values, `${file}:`);
    unset.push(...filled.unset);
    return filled.value;
  });
  requireSet(unset, variables.source);
  return document;
}

type Change = (content: unknown, file: string) => unknown;

async function readRaw(path: string, change: Change): Promise<Tree> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${path} cannot be read (${error.code ?? error.message})`, {
      cause: error,
    });
  });
  if (found.isDirectory()) return readFolder(path, change);
  const document = change(await readOne(path), path);
  if (!isTree(document))
    throw new StartError(
      `${path} is no state document: it must be an object with configs and modules`,
    );
  return document;
}

export interface Export {
  readonly exported: unknown;
  /** Keep the variables of the files that are there. */
  readonly keep?:
    | { readonly variables: Variables; readonly note: (place: string) => void }
    | undefined;
}

/** Answers how many files were written. Files that are not written stay: remove them by hand where a module is gone. */
export async function writeStateFiles(path: string, { exported, keep }: Export): Promise<number> {
  const writeOne = async (file: string, content: unknown): Promise<void> => {
    const before = keep ? await readOne(file).catch(() => undefined) : undefined;
    const noted = { values: keep?.variables.values ?? {}, note: keep?.note ?? (() => undefined) };
    await write(file, withVariables(content, before, noted, `${file}:`));
  };
  if (extensions.has(extname(path))) {
    await writeOne(path, exported);
    return 1;
  }
  const {
    configs,
    modules,
    checksum: _,
    ...about
  } = exported as { configs: { modules: Tree }; modules: Record<string, Tree>; checksum: string };
  requireNames([configs.modules, modules, ...Object.values(modules)].flatMap(Object.keys));
  const files: (readonly [string, unknown])[] = [
    [join(path, 'state.yaml'), about],
    ...Object.entries(configs.modules).map(
      ([module, config]) => [join(path, 'configs', `${module}.yaml`), config] as const,
    ),
    ...Object.entries(modules).flatMap(([module, types]) =>
      Object.entries(types).map(
        ([type, documents]) => [join(path, 'modules', module, `${type}.yaml`), documents] as const,
      ),
    ),
  ];
  for (const [file, content] of files) await writeOne(file, content);
  return files.length;
}

/** What the platform says names files of this machine. */
function requireNames(names: readonly string[]): void {
  const wrong = names.find((name) => !/^[\w-]{1,100}$/.test(name));
  if (wrong !== undefined) throw new StartError(`"${wrong}" is no name for a file`);
}

async function write(file: string, content: unknown): Promise<void> {
  const text =
    extname(file) === '.json' ? `${JSON.stringify(content, undefined, 2)}\n` : yamlText(content);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

async function readFolder(folder: string, change: Change): Promise<Tree> {
  let about: Tree = {};
  const configs = new Map<string, unknown>();
  const modules = new Map<string, Map<string, unknown>>();
  for await (const file of glob('**/*.{json,yaml,yml}', { cwd: folder })) {
    if (file.startsWith(`environments${sep}`)) continue;
    const content = change(await readOne(join(folder, file)), join(folder, file));
    const [room = '', name, type, ...rest] = file.slice(0, -extname(file).length).split(sep);
    if (room === 'state' && name === undefined && isTree(content)) about = content;
    else if (room === 'configs' && name !== undefined && type === undefined)
      configs.set(name, content);
    else if (room === 'modules' && name !== undefined && type !== undefined && rest.length === 0)
      typesOf(modules, name).set(type, content);
    else
      throw new StartError(
        `${join(folder, file)} has no place here: state.yaml, configs/<module>.yaml, modules/<module>/<type>.yaml`,
      );
  }
  if (configs.size + modules.size === 0)
    throw new StartError(`${folder} holds no state: penstock state export ${folder} writes it`);
  const types = [...modules].map(([module, of]) => [module, Object.fromEntries(of)] as const);
  return {
    ...about,
    configs: { modules: Object.fromEntries(configs) },
    modules: Object.fromEntries(types),
  };
}

function typesOf(modules: Map<string, Map<string, unknown>>, module: string): Map<string, unknown> {
  const types = modules.get(module) ?? new Map<string, unknown>();
  modules.set(module, types);
  return types;
}

/** YAML, and with it JSON. An anchor that holds itself is no document: it has no end. */
async function readOne(file: string): Promise<unknown> {
  try {
    const content = parse(await readFile(file, 'utf8')) as unknown;
    JSON.stringify(content);
    return content;
  } catch (error) {
    throw new StartError(
      `${file} is not valid: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}
