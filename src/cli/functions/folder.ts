/** Functions in a folder: `greet.js` or `greet.ts` with the code, `greet.json` with the rest, and types for editors. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
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

export async function writeFolder(
  folder: string,
  stored: readonly StoredSource[],
  types: string,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const one of stored) {
    // What the platform says names files of this machine.
    if (isAbsolute(one.file) || !/^[\w-]{1,100}\.[jt]s$/.test(one.file))
      throw new StartError(`The function "${one.name}" has no name for a file`);
    await writeFile(join(folder, one.file), one.functionCode);
    await writeFile(join(folder, one.file.replace(/\.[jt]s$/, '.json')), asJson(definitionOf(one)));
  }
  await writeFile(join(folder, TYPES_FILE), types);
  await writeVersions(folder, stored);
}

const writeVersions = (folder: string, stored: readonly StoredSource[]): Promise<void> =>
  writeFile(
    join(folder, VERSIONS_FILE),
    asJson(Object.fromEntries(stored.map(({ name, version }) => [name, version]))),
  );

/** Notes which versions the files are now: of those that are the same as what is stored. */
export async function noteVersions(
  folder: string,
  stored: readonly StoredSource[],
  local: readonly LocalFunction[],
): Promise<void> {
  const files = new Map(local.map((one) => [one.definition.name, one]));
  const known = stored.flatMap((one) => {
    const file = files.get(one.name);
    if (!file) return [];
    if (sameFunction(one, file)) return [one];
    return file.pulledVersion === undefined ? [] : [{ ...one, version: file.pulledVersion }];
  });
  await writeVersions(folder, known);
}

export async function readFolder(folder: string): Promise<readonly LocalFunction[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${folder} cannot be read (${error.code})`, { cause: error });
  });
  const versions = names.includes(VERSIONS_FILE) ? await versionsIn(folder) : {};
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
      pulledVersion: versions[name],
    });
  }
  return found;
}

async function versionsIn(folder: string): Promise<Record<string, number>> {
  const file = join(folder, VERSIONS_FILE);
  try {
    return Object(JSON.parse(await readFile(file, 'utf8')));
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
