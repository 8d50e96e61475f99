/** Test runs of functions by operators, and what their answer looks like. */
import Type from 'typebox';
import type { Database } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { functionErrors, userErrorOf } from '../errors.ts';
import type { ExecutionWriter } from '../services/executions.ts';
import type { Functions } from '../services/functions.ts';
import type { RunRequest } from '../services/run-request.ts';
import type { FunctionRunner } from '../services/runner.ts';
import { adminFacts, FunctionParams } from './shapes.ts';

export interface RunAdminParts {
  readonly functions: Functions;
  readonly database: Database;
  readonly runner: FunctionRunner;
  readonly executions: ExecutionWriter;
}

export const Log = Type.Object({
  level: Type.String(),
  text: Type.String(),
  at: Type.Number({ description: 'Milliseconds since the run began' }),
});
export const UserErrorShape = Type.Object({
  name: Type.String(),
  message: Type.String(),
  stack: Type.Optional(Type.String()),
  code: Type.Optional(Type.String()),
  status: Type.Optional(Type.Integer()),
  line: Type.Optional(Type.Integer({ description: 'In the source as it was written' })),
  column: Type.Optional(Type.Integer()),
  cause: Type.Optional(
    Type.Unknown({ description: 'The error that the code names as its cause, in the same form' }),
  ),
});
export const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const TestRun = Type.Object({
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
export async function tried(
  { runner, executions }: Pick<RunAdminParts, 'runner' | 'executions'>,
  request: RunRequest,
) {
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

/** What the function was given may be anything, secrets of others too: the audit log has the names alone. */
function namesOfInput(body: unknown): object {
  const { params, context, ...rest } = body as Readonly<Record<string, unknown>>;
  const names = (given: unknown) =>
    typeof given === 'object' && given !== null && !Array.isArray(given)
      ? Object.keys(given)
      : typeof given;
  return {
    ...rest,
    ...(params === undefined ? {} : { params: names(params) }),
    ...(context === undefined ? {} : { context: names(context) }),
  };
}

export const invokeOperation = (parts: RunAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.invoke',
    method: 'POST',
    path: '/functions/:id/invoke',
    deadlineMs: 3_600_000,
    auditChanges: ({ body }) => namesOfInput(body),
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
          Type.Integer({
            minimum: 1,
            maximum: 2_147_483_647,
            description: 'The version to run; the newest unless given',
          }),
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
    description:
      'With the rights of the operator who asks; of a function with the rights of the system that takes a credential for all modules. What the code does is done. When it fails, what was given is kept with the record, so that it can be run again.',
    async handler({ caller, requestId, signal }, { params, body }) {
      const { _id: functionId, functionType } = parts.functions.get(params.id);
      const { params: given = {}, context = {}, version, dryRun = false } = body;
      await parts.functions.requireReach(caller, functionId, version);
      const isPayload = functionType === 'event' || functionType === 'cron';
      const values = isPayload ? (given as Record<string, unknown>) : requestOf(given, context);
      const one = {
        functionId,
        caller,
        requestId,
        signal,
        req: values,
        trigger: 'invoke',
        keepInput: true,
      };
      const run = { ...one, evenIfDisabled: true, ...(version !== undefined && { version }) };
      return dryRun ? takenBack(parts.database, () => tried(parts, dry(run))) : tried(parts, run);
    },
  });

/** Milliseconds: a connection is held meanwhile. */
const DRY_RUN_MS = 10_000;

const dry = (run: RunRequest): RunRequest => ({
  ...run,
  ...{ dryRun: true, keepInput: false, deadlineMs: DRY_RUN_MS },
});

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
