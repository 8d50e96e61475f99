/** The words of `penstock state`, and what the environment says. */

import { parseArgs } from 'node:util';
import { StartError } from '../../kernel/start-error.ts';
import { addressOf, addressUsage, contentOf, credentialOf } from '../admin-api.ts';

export interface Options {
  readonly command: 'plan' | 'apply' | 'export';
  /** A file, or a folder. */
  readonly target: string;
  readonly url: string;
  /** Headers that say who is calling. */
  readonly credential: Readonly<Record<string, string>>;
  /** Values of references, by reference. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Name of the environment whose values fill the variables in. */
  readonly env: string | undefined;
  /** An export keeps the variables of the files that are there. */
  readonly keepVariables: boolean;
  readonly prune: boolean;
  readonly yes: boolean;
  readonly dryRun: boolean;
  readonly json: boolean;
  readonly continueOnError: boolean;
  readonly colour: boolean | undefined;
  readonly onConflict: string | undefined;
  /** Comma lists. */
  readonly modules: string | undefined;
  readonly types: string | undefined;
}

export const stateUsage = `Usage: penstock state export <file or folder> [--modules a,b] [--types a,b] [--keep-variables]
       penstock state plan   <file or folder> [--prune] [--json]
       penstock state apply  <file or folder> [--prune] [--json] [--yes] [--dry-run] [--continue-on-error]
Options: ${addressUsage}
         --token-file <file with an API token>  PENSTOCK_TOKEN, else MASTER_KEY
         --env <name>                           values of variables: environments/<name>.yaml
         --no-color
Of plan and apply: --secrets-file <JSON file: values by reference>   --on-conflict overwrite|skip|fail
Exit codes: 0 done or nothing to do, 1 failed, 2 plan: there are differences
See docs/guides/state-as-code.md`;

const flags = {
  url: { type: 'string' },
  'token-file': { type: 'string' },
  'secrets-file': { type: 'string' },
  env: { type: 'string' },
  'keep-variables': { type: 'boolean' },
  'on-conflict': { type: 'string' },
  modules: { type: 'string' },
  types: { type: 'string' },
  prune: { type: 'boolean' },
  yes: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  'continue-on-error': { type: 'boolean' },
  json: { type: 'boolean' },
  color: { type: 'boolean' },
  'no-color': { type: 'boolean' },
} as const;

const commands: ReadonlySet<string> = new Set(['plan', 'apply', 'export']);

/** Options of some commands only; elsewhere they would change nothing. */
const commandsOf: ReadonlyMap<string, readonly Options['command'][]> = new Map([
  ['keep-variables', ['export']],
  ['modules', ['export']],
  ['types', ['export']],
  ['secrets-file', ['plan', 'apply']],
  ['on-conflict', ['plan', 'apply']],
  ['prune', ['plan', 'apply']],
  ['json', ['plan', 'apply']],
  ['yes', ['apply']],
  ['dry-run', ['apply']],
  ['continue-on-error', ['apply']],
]);
const conflicts: ReadonlySet<string> = new Set(['overwrite', 'skip', 'fail']);

/** Throws `StartError` with the usage for what it does not understand. */
export async function readOptions(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<Options> {
  const { values, positionals } = parsed(args);
  const [command = '', target, ...rest] = positionals;
  if (!commands.has(command) || target === undefined || rest.length > 0)
    throw new StartError(stateUsage);
  refuseMisplaced(command as Options['command'], values);
  return {
    command: command as Options['command'],
    target,
    url: addressOf(values.url, environment),
    credential: await credentialOf(values['token-file'], environment),
    secrets: values['secrets-file'] === undefined ? {} : await secretsIn(values['secrets-file']),
    env: values.env,
    keepVariables: values['keep-variables'] === true,
    prune: values.prune === true,
    yes: values.yes === true,
    dryRun: values['dry-run'] === true,
    json: values.json === true,
    continueOnError: values['continue-on-error'] === true,
    colour: values['no-color'] ? false : values.color,
    onConflict: values['on-conflict'],
    modules: values.modules,
    types: values.types,
  };
}

/** An `apply --modules database` would apply all the same, and more than was meant. */
function refuseMisplaced(
  command: Options['command'],
  values: Readonly<Record<string, string | boolean | undefined>>,
): void {
  for (const name of Object.keys(values)) {
    const where = commandsOf.get(name);
    if (where && !where.includes(command))
      throw new StartError(
        `--${name} is an option of ${where.join(' and ')}, not of ${command}\n${stateUsage}`,
      );
  }
  const { 'on-conflict': onConflict } = values;
  if (onConflict !== undefined && !conflicts.has(String(onConflict)))
    throw new StartError(`--on-conflict is ${[...conflicts].join(', ')}\n${stateUsage}`);
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true });
  } catch (error) {
    throw new StartError(
      `${error instanceof Error ? error.message : String(error)}\n${stateUsage}`,
      {
        cause: error,
      },
    );
  }
}

async function secretsIn(file: string): Promise<Readonly<Record<string, string>>> {
  const refusal = new StartError(
    `${file} must be a JSON object of texts, such as {"communications.email.password": "..."}`,
  );
  try {
    const value: unknown = JSON.parse(await contentOf(file));
    if (
      typeof value !== 'object' ||
      value === null ||
      Object.values(value).some((one) => typeof one !== 'string')
    )
      throw refusal;
    return value as Readonly<Record<string, string>>;
  } catch (error) {
    throw error instanceof SyntaxError ? refusal : error;
  }
}
