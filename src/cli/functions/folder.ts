/** Functions in a folder: `greet.js` or `greet.ts` with the code, `greet.json` with the rest, and types for editors. */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { canonicalText } from '../../kernel/canonical.ts';
import { StartError } from '../../kernel/start-error.ts';

/** What `greet.json` says. The name is that of the file. */
interface Definition {
  readonly functionType: string;
  readonly inputs?: object;
  readonly returns?: unknown;
  readonly timeout?: number;
}

export interface StoredSource extends Definition {
  readonly _id: string;
  readonly name: string;
  readonly file: string;
  readonly functionCode: string;
  readonly version: number;
}

export interface LocalFunction {
  /** Of the code. */
  readonly file: string;
  readonly functionCode: string;
  readonly definition: Definition & { readonly name: string };
  /** The version that the file was made from; none where it was written here. */
  readonly pulledVersion: number | undefined;
}

const TYPES_FILE = 'penstock.d.ts';
/** Which versions the files were made from, so that changes of others are not written over. */
const VERSIONS_FILE = '.penstock-functions.json';
const DEFAULT_TIMEOUT = 180_000;

const asJson = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

const definitionOf = ({ functionType, inputs = {}, returns = null, timeout }: Definition) => ({
  functionType,
  ...(Object.keys(inputs).length > 0 && { inputs }),
  ...(returns !== null && { returns }),
  ...(timeout !== undefined && timeout !== DEFAULT_TIMEOUT && { timeout }),
});

export const sameFunction = (stored: StoredSource, local: LocalFunction): boolean =>
  stored.functionCode === local.functionCode &&
  isDeepStrictEqual(definitionOf(stored), definitionOf(local.definition));

/** Tells a function that somebody has changed from one that is as it was. */
const checksumOf = (one: Definition & { readonly functionCode: string }): string =>
  createHash('sha256')
    .update(canonicalText([one.functionCode, definitionOf(one)]))
    .digest('hex');

/** What a file was made from. */
interface Pulled {
  readonly version: number;
  /** None in folders of earlier versions. */
  readonly checksum?: string;
}

const pulledOf = (one: StoredSource): Pulled => ({
  version: one.version,
  checksum: checksumOf(one),
});

/**
 * Makes files of functions. Answers the files that it left, because they have changes that nobody has pushed; `force`
 * writes over those too.
 */
export async function writeFolder(
  folder: string,
  {
    functions: stored,
    types,
  }: { readonly functions: readonly StoredSource[]; readonly types: string },
  force: boolean,
): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true });
  const pulled = await pulledIn(folder);
  const left: string[] = [];
  for (const one of stored) {
    // What the platform says names files of this machine.
    if (isAbsolute(one.file) || !/^[\w-]{1,100}\.[jt]s$/.test(one.file))
      throw new StartError(`The function "${one.name}" has no name for a file`);
    const changed = force ? undefined : await changedFile(folder, one, pulled.get(one.name));
    if (changed === undefined) {
      await writeOne(folder, one);
      pulled.set(one.name, pulledOf(one));
    } else left.push(changed);
  }
  await writeFile(join(folder, TYPES_FILE), types);
  await writePulled(folder, pulled);
  return left;
}

async function writeOne(folder: string, one: StoredSource): Promise<void> {
  const file = join(folder, one.file);
  await writeFile(file, one.functionCode);
  await writeFile(jsonFileOf(file), asJson(definitionOf(one)));
  // Of a function that has another language now.
  await rm(otherLanguage(file), { force: true });
}

const jsonFileOf = (file: string): string => file.replace(/\.[jt]s$/, '.json');
const otherLanguage = (file: string): string =>
  file.endsWith('.ts') ? file.replace(/ts$/, 'js') : file.replace(/js$/, 'ts');

/** The file of a function that is neither what is stored nor what it was made from; nothing where there is none. */
async function changedFile(
  folder: string,
  one: StoredSource,
  before: Pulled | undefined,
): Promise<string | undefined> {
  for (const file of [one.file, otherLanguage(one.file)]) {
    const functionCode = await textOf(join(folder, file));
    if (functionCode === undefined) continue;
    const definition = await textOf(jsonFileOf(join(folder, file)));
    const known = [before?.checksum, checksumOf(one)];
    if (!known.includes(checksumIn(functionCode, definition))) return file;
  }
  return undefined;
}

function checksumIn(functionCode: string, definition: string | undefined): string | undefined {
  try {
    return checksumOf({ ...(JSON.parse(definition ?? '') as Definition), functionCode });
  } catch {
    return undefined;
  }
}

const textOf = (file: string): Promise<string | undefined> =>
  readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new StartError(`${file} cannot be read (${error.code})`, { cause: error });
  });

const writePulled = (folder: string, pulled: ReadonlyMap<string, Pulled>): Promise<void> =>
  writeFile(join(folder, VERSIONS_FILE), asJson(Object.fromEntries(pulled)));

/** Notes what the files are made from now: from what is stored, where they are the same. */
export async function noteVersions(
  folder: string,
  stored: readonly StoredSource[],
  local: readonly LocalFunction[],
): Promise<void> {
  const files = new Map(local.map((one) => [one.definition.name, one]));
  const pulled = await pulledIn(folder);
  for (const one of stored) {
    const file = files.get(one.name);
    if (file && sameFunction(one, file)) pulled.set(one.name, pulledOf(one));
  }
  const there = new Set(stored.map(({ name }) => name));
  for (const name of pulled.keys()) if (!there.has(name) && !files.has(name)) pulled.delete(name);
  await writePulled(folder, pulled);
}

export async function readFolder(folder: string): Promise<readonly LocalFunction[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${folder} cannot be read (${error.code})`, { cause: error });
  });
  const pulled = await pulledIn(folder);
  const codeFiles = names.filter((one) => /\.[jt]s$/.test(one) && !one.endsWith('.d.ts')).sort();
  const found: LocalFunction[] = [];
  for (const file of codeFiles) {
    const name = file.slice(0, -'.js'.length);
    if (found.some(({ definition }) => definition.name === name))
      throw new StartError(`${folder} has ${name}.js and ${name}.ts: one of them must go`);
    const functionCode = await readFile(join(folder, file), 'utf8');
    const definition = await definitionIn(folder, `${name}.json`);
    found.push({
      ...{ file, functionCode, definition: { ...definition, name } },
      pulledVersion: pulled.get(name)?.version,
    });
  }
  return found;
}

/** What the files of a folder were made from, by name. */
export async function pulledIn(folder: string): Promise<Map<string, Pulled>> {
  const file = join(folder, VERSIONS_FILE);
  const text = await textOf(file);
  if (text === undefined) return new Map();
  try {
    const known = Object.entries(JSON.parse(text) as Record<string, Pulled | number>);
    return new Map(
      known.map(([name, of]) => [name, typeof of === 'number' ? { version: of } : of]),
    );
  } catch (cause) {
    throw new StartError(`${file} is damaged: remove it, and pull again`, { cause });
  }
}

async function definitionIn(folder: string, file: string): Promise<Definition> {
  const example = '{"functionType": "request", "inputs": {"method": "GET"}}';
  const refusal = `${join(folder, file)} must be a JSON object such as ${example}`;
  try {
    const value: unknown = JSON.parse(await readFile(join(folder, file), 'utf8'));
    if (typeof value === 'object' && value !== null && 'functionType' in value)
      return value as Definition;
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    throw new StartError(
      isMissing
        ? `${join(folder, file)} is missing: it says what the function is, such as ${example}`
        : refusal,
      { cause },
    );
  }
  throw new StartError(refusal);
}
