/**
 * `penstock functions pull|push|logs`: functions as files of a folder, for editors and version control. Each is a file
 * with its code and one with its definition. Speaks to the platform over its admin surface.
 */
import { watch } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { StartError } from '../kernel/start-error.ts';
import { type AdminApi, addressOf, addressUsage, adminApi, credentialOf } from './admin-api.ts';
import {
  type LocalFunction,
  noteVersions,
  pulledIn,
  readFolder,
  type StoredSource,
  sameFunction,
  writeFolder,
} from './functions/folder.ts';
import { processTerminal, type Terminal } from './state/report.ts';
import { visibleLines } from './visible.ts';

export const functionsUsage = `Usage: penstock functions pull <folder> [--force]
       penstock functions push <folder> [--watch] [--prune] [--force]
       penstock functions logs [<name>]
Options: ${addressUsage}
         --token-file <file with an API token>  PENSTOCK_TOKEN, else MASTER_KEY
         --watch   stores each change of a file at once, and prints what the functions log
         --prune   deletes functions that have no file
         --force   also where somebody has changed or deleted a function since it was pulled; with pull: also
                   over files with changes that were not pushed
Exit codes: 0 done, 1 something was not stored
See docs/guides/functions.md`;

const flags = {
  url: { type: 'string' },
  'token-file': { type: 'string' },
  watch: { type: 'boolean' },
  prune: { type: 'boolean' },
  force: { type: 'boolean' },
} as const;

interface Run {
  readonly api: AdminApi;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

interface Bundle {
  readonly functions: readonly StoredSource[];
  readonly types: string;
}

/** Answers the exit code. `signal` ends what goes on by itself. */
export async function functions(
  args: readonly string[],
  terminal: Terminal = processTerminal,
  signal: AbortSignal = new AbortController().signal,
): Promise<number> {
  const { values, positionals } = parsed(args);
  const [command = '', target, ...rest] = positionals;
  const { environment } = terminal;
  if (rest.length > 0 || (target === undefined && command !== 'logs'))
    throw new StartError(functionsUsage);
  const api = adminApi({
    url: addressOf(values.url, environment),
    credential: await credentialOf(values['token-file'], environment),
  });
  const run = { api, terminal, signal };
  if (command === 'logs') return follow(run, target);
  const { prune = false, force = false } = values;
  if (command === 'pull') return pull(run, target ?? '', force);
  if (command !== 'push') throw new StartError(functionsUsage);
  const code = await push(run, target ?? '', { prune, force });
  if (!values.watch) return code;
  await Promise.all([follow(run, undefined), pushChanges(run, target ?? '')]);
  return 0;
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true });
  } catch (error) {
    throw new StartError(
      `${error instanceof Error ? error.message : String(error)}\n${functionsUsage}`,
      {
        cause: error,
      },
    );
  }
}

const bundleOf = async (api: AdminApi): Promise<Bundle> =>
  (await api.get('/functions/bundle', {})) as Bundle;

async function pull({ api, terminal }: Run, folder: string, force: boolean): Promise<number> {
  const bundle = await bundleOf(api);
  const left = await writeFolder(folder, bundle, force);
  for (const file of left)
    terminal.print(
      `${file}: left as it is, with changes that were not pushed: push, or say --force`,
    );
  terminal.print(`Pulled ${counted(bundle.functions.length - left.length)} into ${folder}`);
  return left.length === 0 ? 0 : 1;
}

const counted = (count: number): string => `${count} ${count === 1 ? 'function' : 'functions'}`;

interface PushOptions {
  readonly prune: boolean;
  readonly force: boolean;
}

async function push({ api, terminal }: Run, folder: string, options: PushOptions): Promise<number> {
  const { functions: stored } = await bundleOf(api);
  const local = await readFolder(folder);
  const there = new Map(stored.map((one) => [one.name, one]));
  let failed = 0;
  let changed = 0;
  for (const one of local) {
    const before = there.get(one.definition.name);
    if (before && sameFunction(before, one)) continue;
    const problem = await storeOne(api, { one, before, force: options.force });
    if (problem === undefined) changed += 1;
    else failed += 1;
    terminal.print(`${one.file}: ${problem ?? 'stored'}`);
  }
  if (options.prune) {
    for (const one of local) there.delete(one.definition.name);
    const { deleted, kept } = await prune({ api, terminal }, folder, {
      ...{ gone: [...there.values()], force: options.force },
    });
    changed += deleted;
    failed += kept;
  }
  await noteVersions(folder, changed > 0 ? (await bundleOf(api)).functions : stored, local);
  if (changed + failed === 0) terminal.print('Nothing has changed.');
  return failed === 0 ? 0 : 1;
}

/** Deletes functions that have no file. Answers how many, and how many it left because of what others have done. */
async function prune(
  { api, terminal }: Pick<Run, 'api' | 'terminal'>,
  folder: string,
  { gone, force }: { readonly gone: readonly StoredSource[]; readonly force: boolean },
): Promise<{ readonly deleted: number; readonly kept: number }> {
  const pulled = await pulledIn(folder);
  let kept = 0;
  for (const { _id, name, version } of gone) {
    const isOurs = force || pulled.get(name)?.version === version;
    const problem = isOurs
      ? await refusalOf(api.delete(`/functions/${_id}`, force ? undefined : version))
      : 'not deleted, somebody has made or changed it: pull, or say --force';
    if (problem !== undefined) kept += 1;
    terminal.print(`${name}: ${problem ?? 'deleted'}`);
  }
  return { deleted: gone.length - kept, kept };
}

/** What the platform said against it. */
async function refusalOf(answer: Promise<unknown>): Promise<string | undefined> {
  try {
    await answer;
    return undefined;
  } catch (error) {
    if (error instanceof StartError) return error.message;
    throw error;
  }
}

interface Storing {
  readonly one: LocalFunction;
  readonly before: StoredSource | undefined;
  readonly force: boolean;
}

/** Answers why it was not stored. */
async function storeOne(
  api: AdminApi,
  { one: { definition, functionCode, pulledVersion }, before, force }: Storing,
): Promise<string | undefined> {
  if (!before && !force && pulledVersion !== undefined)
    return 'somebody has deleted it: remove the file, or say --force';
  if (before && !force && pulledVersion !== before.version)
    return `somebody has changed it (version ${before.version}): pull, or say --force`;
  const { functionType, ...rest } = definition;
  const change = { inputs: {}, returns: null, timeout: 180_000, ...rest, functionCode };
  if (!before) return refusalOf(api.post('/functions/upload', { ...change, functionType }));
  if (before.functionType !== functionType)
    return `a ${before.functionType} cannot become a ${functionType}: delete it before`;
  // Somebody else may have been faster since their version was read.
  const seen = force ? undefined : before.version;
  return refusalOf(api.patch(`/functions/${before._id}`, change, seen));
}

/** Milliseconds: editors write a file in several steps. */
const QUIET_MS = 100;
/** Between two attempts to follow the logs again. */
const RETRY_MS = 1_000;

async function pushChanges(run: Run, folder: string): Promise<void> {
  const { signal, terminal } = run;
  let timer: NodeJS.Timeout | undefined;
  let pushing: Promise<unknown> = Promise.resolve();
  const later = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      pushing = pushing
        .then(() => push(run, folder, { prune: false, force: false }))
        .catch((error: Error) => terminal.print(error.message));
    }, QUIET_MS);
  };
  try {
    for await (const { filename } of watch(folder, { signal }))
      if (filename?.endsWith('.d.ts') === false && /\.(?:js|ts|json)$/.test(filename)) later();
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  clearTimeout(timer);
  await pushing;
}

interface Told {
  readonly kind: string;
  readonly functionName: string;
  readonly [fact: string]: unknown;
}

async function follow(run: Run, name: string | undefined): Promise<number> {
  const { api, terminal, signal } = run;
  const query = new URLSearchParams({ seconds: '3540', ...(name && { function: name }) });
  const open = (): Promise<Response> => api.open(`/functions/logs/stream?${query}`, signal);
  let response: Response | undefined = await open();
  while (!signal.aborted) {
    try {
      response ??= await open();
      await printLines(response, terminal);
    } catch (error) {
      if (signal.aborted) break;
      // The platform was restarted, or its network is away: it comes back.
      terminal.print(error instanceof Error ? error.message : String(error));
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
    response = undefined;
  }
  return 0;
}

async function printLines(response: Response, terminal: Terminal): Promise<void> {
  for await (const line of linesOf(response)) {
    const text = told(JSON.parse(line) as Told);
    if (text !== undefined) terminal.print(text);
  }
}

async function* linesOf({ body }: Response): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

function told({ kind, functionName, ...facts }: Told): string | undefined {
  if (kind === 'log') return `${functionName} ${facts.level}: ${visibleLines(String(facts.text))}`;
  if (kind !== 'end' || facts.error === null) return undefined;
  const { message, line, column } = facts.error as {
    message: string;
    line?: number;
    column?: number;
  };
  const place = line === undefined ? '' : ` (line ${line}, column ${column})`;
  return `${functionName} ${facts.outcome}: ${visibleLines(message)}${place}`;
}
