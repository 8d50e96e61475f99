/** Runs as operators see them: test runs, records of runs, running again. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { functionErrors, userErrorOf } from '../errors.ts';
import {
  deleteExecutionsBefore,
  type ExecutionRow,
  listExecutions,
  retryableExecution,
} from '../queries/executions.ts';
import type { ExecutionWriter } from '../services/executions.ts';
import type { Functions } from '../services/functions.ts';
import type { RunRequest } from '../services/run-request.ts';
import type { FunctionRunner } from '../services/runner.ts';
import { adminFacts, FunctionParams, IdParam, Paging } from './shapes.ts';

export interface RunAdminParts {
  readonly functions: Functions;
  readonly database: Database;
  readonly runner: FunctionRunner;
  readonly executions: ExecutionWriter;
}

export const runOperations = (parts: RunAdminParts): readonly Operation[] => [
  invoke(parts),
  list(parts),
  listOfFunction(parts),
  retry(parts),
  prune(parts),
];

const Log = Type.Object({
  level: Type.String(),
  text: Type.String(),
  at: Type.Number({ description: 'Milliseconds since the run began' }),
});
const UserErrorShape = Type.Object({
  name: Type.String(),
  message: Type.String(),
  stack: Type.Optional(Type.String()),
  code: Type.Optional(Type.String()),
  status: Type.Optional(Type.Integer()),
  line: Type.Optional(Type.Integer({ description: 'In the source as it was written' })),
  column: Type.Optional(Type.Integer()),
});
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const TestRun = Type.Object({
  result: Type.Unknown(),
  logs: Type.Array(Log),
  duration: Type.Number({ description: 'Milliseconds' }),
  error: orNull(UserErrorShape),
  status: Type.Integer({ description: 'What a request would have been answered with' }),
  cpuMs: Type.Number(),
  memoryPeak: Type.Integer({ description: 'Bytes' }),
  executionId: Type.String(),
});

/** A run as operators see it: what user code did wrong is a result. */
async function tried({ runner, executions }: RunAdminParts, request: RunRequest) {
  try {
    const run = await runner.run(request);
    const { result = null, logs, cpuMs, memoryPeak, executionId, durationMs: duration } = run;
    const status = run.reply?.status ?? 200;
    return {
      result,
      logs: [...logs],
      duration,
      error: null,
      status,
      cpuMs,
      memoryPeak,
      executionId,
    };
  } catch (error) {
    const cause = userErrorOf(error);
    if (!cause) throw error;
    const { user, logs, executionId, duration, cpuMs, memoryPeak } = cause;
    const status = error instanceof PenstockError ? error.status : 500;
    const facts = { duration, cpuMs, memoryPeak, executionId };
    return { result: null, logs: [...logs], error: { ...user }, status, ...facts };
  } finally {
    await executions.flush();
  }
}

const invoke = (parts: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.invoke',
    method: 'POST',
    path: '/functions/:id/invoke',
    deadlineMs: 3_600_000,
    input: {
      params: FunctionParams,
      body: Type.Object({
        params: Type.Optional(
          Type.Unknown({ description: 'req.params, or for events and schedules the whole of req' }),
        ),
        context: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), { description: 'req.context' }),
        ),
        version: Type.Optional(
          Type.Integer({ minimum: 1, description: 'The version to run; the newest unless given' }),
        ),
        dryRun: Type.Optional(
          Type.Boolean({
            description:
              'Whatever it writes is taken back, within 10 seconds; what would stay (messages, files, requests to others) is refused to it',
          }),
        ),
      }),
    },
    output: TestRun,
    errors: [
      functionErrors.FUNCTION_NOT_FOUND,
      functionErrors.FUNCTION_VERSION_NOT_FOUND,
      functionErrors.FUNCTION_BUSY,
    ],
    summary: 'Run a function for a test',
    description: 'With the rights of the operator who asks. What the code does is done.',
    handler({ caller, requestId }, { params, body }) {
      const { _id: functionId, functionType } = parts.functions.get(params.id);
      const { params: given = {}, context = {}, version, dryRun = false } = body;
      const isPayload = functionType === 'event' || functionType === 'cron';
      const values = isPayload ? (given as Record<string, unknown>) : requestOf(given, context);
      const one = { functionId, caller, requestId, req: values, trigger: 'invoke' };
      const run = { ...one, evenIfDisabled: true, ...(version !== undefined && { version }) };
      return dryRun ? takenBack(parts.database, () => tried(parts, dry(run))) : tried(parts, run);
    },
  });

/** Milliseconds: a connection is held meanwhile. */
const DRY_RUN_MS = 10_000;

const dry = (run: RunRequest): RunRequest => ({ ...run, dryRun: true, deadlineMs: DRY_RUN_MS });

class TakenBack extends Error {}

/** What the work answers, after everything that it wrote was undone. */
async function takenBack<T>(database: Database, work: () => Promise<T>): Promise<T> {
  const found: { value?: T } = {};
  const undone = database.transaction(
    async () => {
      found.value = await work();
      throw new TakenBack();
    },
    { attempts: 1 },
  );
  await undone.catch((error: unknown) => {
    if (!(error instanceof TakenBack)) throw error;
  });
  return found.value as T;
}

const requestOf = (params: unknown, context: object): Record<string, unknown> => ({
  params,
  bodyParams: params,
  queryParams: {},
  urlParams: {},
  headers: {},
  cookies: {},
  context,
});

const Execution = Type.Object({
  _id: Type.String(),
  serverlessFunction: Type.String({ description: 'Id of the function' }),
  functionName: Type.String(),
  version: Type.Integer(),
  trigger: Type.String(),
  success: Type.Boolean(),
  outcome: Type.String(),
  statusCode: Type.Integer(),
  duration: Type.Number({ description: 'Milliseconds' }),
  cpuMs: Type.Number(),
  memoryPeak: Type.Integer(),
  attempt: Type.Integer(),
  requestId: Type.String(),
  userId: orNull(Type.String({ description: 'Id of the user' })),
  error: orNull(UserErrorShape),
  logs: Type.Array(Type.String()),
  lines: Type.Array(Log),
  retryable: Type.Boolean({ description: 'Its input was kept: it can be run again' }),
  createdAt: Type.String({ format: 'date-time' }),
});

function onWire({
  id,
  functionId,
  durationMs,
  memoryPeak,
  logs,
  error,
  createdAt,
  ...row
}: ExecutionRow) {
  return {
    ...row,
    _id: id,
    serverlessFunction: functionId,
    duration: durationMs,
    memoryPeak: Number(memoryPeak),
    error: error as null,
    logs: logs.map(({ text }) => text),
    lines: logs.map((line) => ({ ...line })),
    createdAt: createdAt.toISOString(),
  };
}

const ExecutionQuery = {
  ...Paging,
  sort: Type.Enum(['createdAt', '-createdAt'], {
    default: '-createdAt',
    description: 'What to order by; - in front: descending',
  }),
  success: Type.Optional(
    Type.Boolean({ description: 'Those that went well, or those that failed' }),
  ),
  trigger: Type.Optional(Type.String({ maxLength: 64, description: 'What started them' })),
  search: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'A part of a line of the log or of the error',
    }),
  ),
};

interface Query {
  readonly skip: number;
  readonly limit: number;
  readonly sort: string;
  readonly success?: boolean;
  readonly trigger?: string;
  readonly search?: string;
}

async function page({ database, executions }: RunAdminParts, query: Query, functionId?: string) {
  await executions.flush();
  const newestFirst = query.sort === '-createdAt';
  const { rows, count } = await listExecutions(database, { ...query, functionId, newestFirst });
  return { rows: rows.map(onWire), count };
}

const list = (parts: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.list',
    method: 'GET',
    path: '/functions/list/executions',
    input: { query: Type.Object(ExecutionQuery) },
    output: Type.Object({ functionsExecutions: Type.Array(Execution), count: Type.Integer() }),
    summary: 'List runs of functions',
    async handler(_context, { query }) {
      const { rows, count } = await page(parts, query);
      return { functionsExecutions: rows, count };
    },
  });

const listOfFunction = (parts: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.listOfFunction',
    method: 'GET',
    path: '/functions/executions/:functionId',
    input: { params: Type.Object({ functionId: IdParam }), query: Type.Object(ExecutionQuery) },
    output: Type.Object({
      functionExecutions: Type.Array(Execution),
      functionsExecutions: Type.Array(Execution),
      count: Type.Integer(),
    }),
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'List runs of one function',
    async handler(_context, { params, query }) {
      if (!isId(params.functionId)) throw functionErrors.FUNCTION_NOT_FOUND();
      const { rows, count } = await page(parts, query, params.functionId);
      return { functionExecutions: rows, functionsExecutions: rows, count };
    },
  });

async function runAgain(parts: RunAdminParts, caller: Caller, id: string) {
  await parts.executions.flush();
  const found = isId(id) ? await retryableExecution(parts.database, id) : undefined;
  if (!found?.input) throw functionErrors.EXECUTION_NOT_FOUND();
  const { functionId, input, attempt } = found;
  const again = { functionId, caller, req: input.req, attempt: attempt + 1, keepInput: true };
  return tried(parts, { ...again, trigger: 'retry', evenIfDisabled: true });
}

const retry = (parts: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.retry',
    method: 'POST',
    path: '/functions/executions/:executionId/retry',
    deadlineMs: 3_600_000,
    input: { params: Type.Object({ executionId: IdParam }) },
    output: TestRun,
    errors: [
      functionErrors.EXECUTION_NOT_FOUND,
      functionErrors.FUNCTION_NOT_FOUND,
      functionErrors.FUNCTION_BUSY,
    ],
    summary: 'Run a failed run again',
    description: 'With the version that is in force now. Only where the input was kept.',
    handler: ({ caller }, { params }) => runAgain(parts, caller, params.executionId),
  });

/** Records of one statement. */
const BATCH = 1_000;

const prune = ({ database }: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.delete',
    method: 'DELETE',
    path: '/functions/executions',
    input: {
      query: Type.Object({
        before: Type.String({ format: 'date-time', description: 'Runs from before this time' }),
      }),
    },
    output: Type.Object({ deleted: Type.Integer() }),
    summary: 'Delete records of runs from before a time',
    async handler({ signal }, { query }) {
      let deleted = 0;
      for (let count = 1; count > 0 && !signal.aborted; deleted += count)
        count = await deleteExecutionsBefore(database, new Date(query.before), BATCH);
      return { deleted };
    },
  });
