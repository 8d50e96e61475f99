/** Functions: code of operators beside the data, in processes of its own. */

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { router } from '../router/index.ts';
import { type FunctionsConfig, functionsConfig } from './config.ts';
import type { StoredFunction } from './definition/definition.ts';
import { createPool, type Pool } from './engine/pool.ts';
import { cleanUpJob } from './jobs.ts';
import { migrations } from './migrations.ts';
import { runOperations } from './operations/executions.ts';
import { functionOperations } from './operations/functions.ts';
import { sourceOperations } from './operations/sources.ts';
import { tailOperation } from './operations/tail.ts';
import { functionTools } from './operations/tools.ts';
import { versionOperations } from './operations/versions.ts';
import { functionPrompts } from './prompts.ts';
import { createBundler } from './services/bundler.ts';
import { databaseCalls } from './services/calls/database.ts';
import { operationCalls } from './services/calls/operations.ts';
import { outsideCalls } from './services/calls/outside.ts';
import { createExecutionWriter } from './services/executions.ts';
import { createFunctions, type Functions } from './services/functions.ts';
import { createHostCalls, type HostCalls } from './services/host-calls.ts';
import { type FunctionMetrics, measureFunctions } from './services/measure.ts';
import { createFunctionRoutes } from './services/published-routes.ts';
import { providedMiddlewares, type RouteParts } from './services/routes.ts';
import { createRunner, type FunctionRunner } from './services/runner.ts';
import { createFunctionSockets, type FunctionSocketParts } from './services/sockets.ts';
import { createFunctionStore, goneVersions } from './services/store.ts';
import { createRunTail } from './services/tail.ts';
import { actionUses, functionState } from './state.ts';
import { hookProblem } from './triggers/hooks.ts';
import { nextRunsOf } from './triggers/schedules.ts';
import { followingStore, startProblems, startTriggers } from './triggers/triggers.ts';

export interface FunctionsService {
  readonly runner: FunctionRunner;
  readonly functions: Functions;
}

type Requirements = { readonly router: typeof router };
type Context = ModuleContext<FunctionsConfig, Requirements>;

export const functions = defineModule<
  typeof functionsConfig.schema,
  FunctionsService,
  Requirements
>({
  name: 'functions',
  description: 'Code of operators: routes, webhooks, events, schedules',
  requires: { router },
  config: functionsConfig,
  migrations,
  start,
});

async function start(context: Context): Promise<RunningModule<FunctionsService>> {
  const { kernel, config, log } = context;
  const { database } = kernel;
  const current = () => config.current();
  const store = followingStore(await createFunctionStore({ ...kernel, log }), (transaction) =>
    triggers.follow(transaction),
  );
  const pool = poolOf(context);
  store.onChange((before) => {
    for (const key of goneVersions(before, store.all())) pool.drop(key);
  });
  const all = createFunctions({
    ...kernel,
    store,
    pool,
    bundler: createBundler({
      folder: join(kernel.settings.dataDir, 'functions'),
      maxBytes: () => current().limits.maxPackageBytes,
    }),
    config: current,
    check: startProblems(kernel.modules),
  });
  const executions = createExecutionWriter(database, log);
  const tail = createRunTail(kernel.bus);
  const runner = createRunner({
    store,
    tail,
    database,
    pool,
    executions,
    config: current,
    metrics: lastingMetrics(kernel),
    calls: callsOf(context, all),
  });
  const triggers = await startTriggers({ ...kernel, store, runner, log, config: current });
  const maxRooms = () => context.services.router.config.current().realtime.roomsPerSocket;
  const routes = serveRoutes(kernel, all, { runner, later: triggers.later, log, maxRooms });
  return {
    service: { runner, functions: all },
    operations: [
      ...functionOperations({ functions: all, database, problemOf: routes.whyNot, nextRunsOf }),
      ...runOperations({ functions: all, database, runner, executions, repeat: triggers.repeat }),
      ...versionOperations(all),
      ...sourceOperations({ functions: all, database, schemas: kernel.schemas }),
      tailOperation(all, tail),
      ...triggers.operations,
    ],
    ...{ prompts: functionPrompts, state: [functionState(kernel, all)] },
    jobs: [cleanUpJob({ database, config: current }), ...triggers.jobs],
    async stop() {
      routes.stop();
      tail.close();
      await triggers.stop();
      store.close();
      pool.close();
      await executions.close();
    },
  };
}

/** What `ctx` can ask for. */
const callsOf = ({ kernel, config, services, log }: Context, { secrets }: Functions): HostCalls =>
  createHostCalls(
    kernel.database,
    new Map([
      ...databaseCalls(kernel),
      ...outsideCalls({
        config: () => config.current(),
        secrets,
        realtime: services.router.realtime,
      }),
      ...operationCalls({ ...kernel, log }),
    ]),
  );

interface Serving
  extends Pick<RouteParts, 'runner' | 'later'>,
    Pick<Context, 'log'>,
    Pick<FunctionSocketParts, 'maxRooms'> {}

/** Keeps routes, middlewares and socket namespaces as the stored functions say, until it is stopped. */
function serveRoutes(
  kernel: Kernel,
  { store, secrets }: Functions,
  { runner, later, log, maxRooms }: Serving,
) {
  const { database, operations, middlewares, schemas } = kernel;
  const sockets = createFunctionSockets({ ...kernel, runner, store, maxRooms });
  const { permissions } = kernel;
  const routes = createFunctionRoutes(
    { runner, later, database, secrets, permissions, schemas },
    operations,
    log,
  );
  let running = true;
  const publish = (): void => {
    const serving = running ? store.all() : [];
    routes.publish(serving);
    operations.replace('functions/tools', functionTools(runner, serving, routes.note));
    middlewares.provide(providedMiddlewares(runner, serving));
    sockets.publish(serving, routes.note);
    kernel.health.leaveOut(
      'routes of functions',
      serving.flatMap(({ _id, name }) => {
        const reason = routes.problemOf(_id);
        return reason === undefined ? [] : [{ name, reason }];
      }),
    );
  };
  publish();
  const stopListening = store.onChange(publish);
  permissions.uses.set('functions', () => actionUses(store.all()));
  return {
    /** Why a function does not serve. */
    whyNot: (one: StoredFunction): string | undefined =>
      routes.problemOf(one._id) ?? hookProblem(kernel, one),
    stop() {
      running = false;
      permissions.uses.delete('functions');
      stopListening();
      publish();
      sockets.close();
    },
  };
}

/** Asked once: the system reads files to answer. */
const usualProcesses = Math.max(1, Math.floor(availableParallelism() / 2));

function poolOf({ config, log, kernel }: Context): Pool {
  return createPool(kernel.startProgram, log, () => {
    const { processes, processMb } = config.current().limits;
    return { processes: processes || usualProcesses, processMegabytes: processMb };
  });
}

/** What belongs to the process, also while the module is switched off and on. */
const lasting = new WeakMap<Kernel, FunctionMetrics>();

function lastingMetrics(kernel: Kernel): FunctionMetrics {
  const known = lasting.get(kernel) ?? measureFunctions(kernel);
  lasting.set(kernel, known);
  return known;
}
