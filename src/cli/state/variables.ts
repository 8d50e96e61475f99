/**
 * Values that differ between platforms: `${NAME}` in a state file stands for a variable of the chosen environment,
 * or of the process. `$${NAME}` is the text itself.
 */
import { readFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { parse } from 'yaml';
import { sameValue } from '../../kernel/canonical.ts';
import { StartError } from '../../kernel/start-error.ts';

export interface Variables {
  /** Of `environments/<name>.yaml`; any value. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Where a missing one can be set. */
  readonly source: string;
  /** Values of secrets, by reference, with their own variables filled in. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** Where a variable was not set. */
export interface Unset {
  readonly path: string;
  readonly name: string;
}

const pattern = /\$(\$?)\{([A-Z][A-Z0-9_]*)\}/g;
const whole = /^\$\{([A-Z][A-Z0-9_]*)\}$/;

const isTree = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The folder of the environments of a state file or folder. */
const environmentsOf = (target: string): string =>
  join(extname(target) === '' ? target : dirname(target), 'environments');

/** Reads `environments/<name>.yaml` beside the state. Without a name only the environment of the process counts. */
export async function readVariables(
  target: string,
  name: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<Variables> {
  const fromProcess: Record<string, unknown> = { ...environment };
  if (name === undefined)
    return {
      values: fromProcess,
      source: 'the environment, or choose one with --env',
      secrets: {},
    };
  if (!/^[\w.-]+$/.test(name))
    throw new StartError(`--env ${name}: a name has letters, digits, dots, dashes and underscores`);
  const file = join(environmentsOf(target), `${name}.yaml`);
  const { variables = {}, secrets = {}, ...others } = await readEnvironment(file);
  const [stray] = Object.keys(others);
  if (stray !== undefined)
    throw new StartError(`${file} has variables and secrets, and no ${stray}`);
  if (!isTree(variables) || !isTree(secrets))
    throw new StartError(`${file}: variables and secrets are objects`);
  const odd = Object.keys(variables).find((one) => !/^[A-Z][A-Z0-9_]*$/.test(one));
  if (odd !== undefined)
    throw new StartError(`${file}: variables.${odd}: names are written like HOST_URL`);
  const outside = substituted(variables, fromProcess, `${file}: variables`);
  const values = { ...fromProcess, ...(outside.value as Record<string, unknown>) };
  const inside = substituted(secrets, values, `${file}: secrets`);
  requireSet([...outside.unset, ...inside.unset], 'the environment');
  const wrong = Object.entries(inside.value as object).find(
    ([, value]) => typeof value !== 'string',
  );
  if (wrong) throw new StartError(`${file}: secrets.${wrong[0]} must be a text`);
  return {
    values,
    source: `${file} or the environment`,
    secrets: inside.value as Record<string, string>,
  };
}

async function readEnvironment(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const content: unknown = parse(await readFile(file, 'utf8')) ?? {};
    if (isTree(content)) return content;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`${file} cannot be read: ${reason}`, { cause: error });
  }
  throw new StartError(`${file} must be an object with variables and secrets`);
}

/** A copy of a value with every variable filled in, and what was not set. `path`: where it stands. */
export function substituted(
  value: unknown,
  values: Readonly<Record<string, unknown>>,
  path: string,
): { readonly value: unknown; readonly unset: readonly Unset[] } {
  const unset: Unset[] = [];
  const find = (name: string, at: string): unknown => {
    const found = Object.hasOwn(values, name) ? values[name] : undefined;
    if (found === undefined) unset.push({ path: at, name });
    return found;
  };
  const fill = (item: unknown, at: string): unknown => {
    if (Array.isArray(item)) return item.map((one, i) => fill(one, `${at}.${i}`));
    if (isTree(item))
      return Object.fromEntries(
        Object.entries(item).map(([key, one]) => [key, fill(one, `${at}.${key}`)]),
      );
    if (typeof item !== 'string') return item;
    // Alone it may be a number, a switch or a list; within a text it is text.
    const alone = whole.exec(item)?.[1];
    if (alone !== undefined) return find(alone, at);
    return item.replace(pattern, (text, mark: string, name: string) =>
      mark === '$' ? text.slice(1) : String(find(name, at) ?? ''),
    );
  };
  return { value: fill(value, path), unset };
}

/** Throws `StartError` that names each place. */
export function requireSet(unset: readonly Unset[], source: string): void {
  if (unset.length === 0) return;
  const places = unset.map(({ path, name }) => `  ${path}: ${name} is not set`);
  throw new StartError([`Variables are missing: set them in ${source}`, ...places].join('\n'));
}

/** A copy in which no text would be taken for a variable. */
export function escaped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(escaped);
  if (isTree(value))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, escaped(item)]));
  return typeof value === 'string' ? value.replace(pattern, (text) => `$${text}`) : value;
}

/** Things in lists are known by these, so that one that comes or goes does not move the others. */
const names = ['name', 'alias', 'schemaName'] as const;
const nameOf = (item: unknown): unknown =>
  isTree(item) ? names.map((key) => item[key]).find((name) => name !== undefined) : undefined;

const twinOf = (item: unknown, index: number, before: readonly unknown[]): unknown => {
  const name = nameOf(item);
  return name === undefined ? before[index] : before.find((one) => nameOf(one) === name);
};

/**
 * What an export writes, with the variables of what was written before in their places. `note` learns where the
 * platform has another value than the variable.
 */
export function withVariables(
  exported: unknown,
  before: unknown,
  { values, note }: Keeping,
  path: string,
): unknown {
  if (isVariable(before)) {
    if (!sameValue(substituted(before, values, path).value, exported)) note(path);
    return before;
  }
  if (Array.isArray(exported)) {
    const stored = Array.isArray(before) ? before : [];
    return exported.map((item, i) =>
      withVariables(item, twinOf(item, i, stored), { values, note }, `${path}.${i}`),
    );
  }
  if (isTree(exported)) {
    const stored = isTree(before) ? before : {};
    return Object.fromEntries(
      Object.entries(exported).map(([key, item]) => [
        key,
        withVariables(item, stored[key], { values, note }, `${path}.${key}`),
      ]),
    );
  }
  return escaped(exported);
}

const isVariable = (value: unknown): value is string =>
  typeof value === 'string' && [...value.matchAll(pattern)].some(([, mark]) => mark === '');

interface Keeping {
  readonly values: Readonly<Record<string, unknown>>;
  readonly note: (path: string) => void;
}
