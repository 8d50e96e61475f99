/**
 * `penstock state plan|apply|export <file or folder>`: the state of a running platform as files, for version
 * control. Speaks to the platform over its admin surface, like everybody else.
 */
import { StartError } from '../kernel/start-error.ts';
import { type AdminApi, adminApi, notThePlatform } from './admin-api.ts';
import { type Options, readOptions } from './state/arguments.ts';
import { readStateFiles, writeStateFiles } from './state/files.ts';
import {
  changesOf,
  type Paint,
  type Plan,
  paintFor,
  planLines,
  processTerminal,
  resultLines,
  summaryOf,
  type Terminal,
  things,
} from './state/report.ts';
import { readVariables } from './state/variables.ts';

/** `plan`: there are differences. Errors are 1, as for every command. */
const DIFFERENT = 2;

/** Answers the exit code. */
export async function state(
  args: readonly string[],
  terminal: Terminal = processTerminal,
): Promise<number> {
  const options = await readOptions(args, terminal.environment);
  const run: Run = {
    options,
    api: adminApi(options),
    terminal,
    paint: paintFor(terminal, options.colour),
  };
  switch (options.command) {
    case 'export':
      return exportState(run);
    case 'plan':
      return showPlan(run);
    case 'apply':
      return applyState(run);
  }
}

interface Run {
  readonly options: Options;
  readonly api: AdminApi;
  readonly terminal: Terminal;
  readonly paint: Paint;
}

async function exportState({
  api,
  options: { target, modules, types, env, keepVariables, url },
  terminal,
}: Run): Promise<number> {
  const exported = await api.get('/state/export', {
    ...(modules !== undefined && { modules }),
    ...(types !== undefined && { types }),
  });
  if (!has(exported, 'configs') || !has(exported, 'modules') || !has(exported.configs, 'modules'))
    throw notThePlatform(url, 'no state');
  const differing: string[] = [];
  const keep = keepVariables && {
    variables: await readVariables(target, env, terminal.environment),
    note: (place: string) => differing.push(place),
  };
  const files = await writeStateFiles(target, { exported, keep: keep || undefined });
  for (const place of differing)
    terminal.print(`Kept as a variable, although the platform has another value: ${place}`);
  terminal.print(
    `Exported to ${target} (${files} ${files === 1 ? 'file' : 'files'}). Secrets are references: see docs/guides/state-as-code.md.`,
  );
  return 0;
}

const has = <K extends string>(value: unknown, key: K): value is Readonly<Record<K, object>> =>
  typeof value === 'object' && typeof Reflect.get(value ?? {}, key) === 'object';

/** None of a platform that does not tell them. */
const obstaclesIn = ({ obstacles = [] }: Plan): number => obstacles.length;

interface Planned {
  readonly plan: Plan;
  /** What it is a plan of. */
  readonly body: object;
}

const queryOf = ({ prune, onConflict }: Options) => ({
  ...(prune && { prune: 'true' }),
  ...(onConflict && { onConflict }),
});

async function planned({ api, options, terminal }: Run): Promise<Planned> {
  const { target, env } = options;
  const variables = await readVariables(target, env, terminal.environment);
  const secrets = { ...variables.secrets, ...options.secrets };
  const body = {
    ...(await readStateFiles(target, variables)),
    ...(Object.keys(secrets).length > 0 && { secrets }),
  };
  const plan = await api.post('/state/plan', body, queryOf(options));
  if (!has(plan, 'plan') || !has(plan, 'warnings')) throw notThePlatform(options.url, 'no plan');
  return { plan: plan as unknown as Plan, body };
}

async function showPlan(run: Run): Promise<number> {
  const { plan } = await planned(run);
  run.terminal.print(
    run.options.json ? JSON.stringify(plan, undefined, 2) : planLines(plan, run.paint).join('\n'),
  );
  return changesOf(plan).length + obstaclesIn(plan) > 0 ? DIFFERENT : 0;
}

async function applyState(run: Run): Promise<number> {
  const { options, terminal, paint } = run;
  const { plan, body } = await planned(run);
  const isRefused = obstaclesIn(plan) > 0;
  const isLast = options.dryRun || isRefused || changesOf(plan).length === 0;
  if (!options.json) terminal.print(planLines(plan, paint).join('\n'));
  else if (isLast) terminal.print(JSON.stringify(plan, undefined, 2));
  if (isLast) return isRefused ? 1 : 0;
  if (!(await isAgreed(run, plan))) {
    terminal.print('Nothing was changed.');
    return 1;
  }
  return carryOut(run, { plan, body });
}

/** Asks only where something would be taken away: a thing, or a field of a schema. */
async function isAgreed({ options, terminal }: Run, plan: Plan): Promise<boolean> {
  const { takes } = summaryOf(plan);
  if (takes === 0 || options.yes) return true;
  if (!terminal.ask)
    throw new StartError(`${things(takes)} would be taken away: look at the plan, then say --yes`);
  const answer = await terminal.ask(`${things(takes)} will be taken away. Type yes to go on: `);
  return answer.trim().toLowerCase() === 'yes';
}

/** Does what was shown: if anything changed in between, the platform refuses. */
async function carryOut(
  { api, options, terminal, paint }: Run,
  { plan, body }: Planned,
): Promise<number> {
  const query = {
    ...queryOf(options),
    confirm: plan.checksum,
    ...(options.continueOnError && { continueOnError: 'true' }),
  };
  const result = await api.post('/state/import', body, query);
  const { lines, complete } = resultLines(result, plan, paint);
  terminal.print(options.json ? JSON.stringify(result, undefined, 2) : lines.join('\n'));
  return complete ? 0 : 1;
}
