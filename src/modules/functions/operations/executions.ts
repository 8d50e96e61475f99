/** Records of runs as operators see them: listed, searched, run again, deleted. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import { isId } from '../../../kernel/ids.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { functionErrors } from '../errors.ts';
import { type ExecutionPlace, listExecutions } from '../queries/execution-list.ts';
import {
  deleteExecutionsBefore,
  type ExecutionRow,
  retryableExecution,
} from '../queries/executions.ts';
import {
  invokeOperation,
  Log,
  orNull,
  type RunAdminParts,
  TestRun,
  tried,
  UserErrorShape,
} from './runs.ts';
import { adminFacts, IdParam, Paging } from './shapes.ts';

interface ExecutionParts extends RunAdminParts {
  /** Puts a run of a function back into its queue; false where there is none of this id. */
  readonly repeat: (caller: Caller, functionId: string, runId: string) => Promise<boolean>;
}

export const runOperations = (parts: ExecutionParts): readonly Operation[] => [
  invokeOperation(parts),
  list(parts),
  listOfFunction(parts),
  retry(parts),
  prune(parts),
];

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
  retryable: Type.Boolean({ description: 'It failed, and can be run again' }),
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
      description:
        'A part of a line of the log, of the error, or of the name of the function. The first 2,000 runs that fit the rest are looked through: go on with `nextCursor`, also where nothing was found',
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      pattern: '^[0-9]{1,15}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
      description: 'The `nextCursor` of an earlier answer: what comes behind it',
    }),
  ),
};

const NextCursor = {
  count: Type.Integer({
    description:
      'How many fit, 10,000 at most; with `search` or `trigger` among those that were looked through',
  }),
  nextCursor: orNull(Type.String({ description: 'Where this answer ended; null: with the last' })),
};

const cursorOf = ({ createdAt, id }: ExecutionPlace): string => `${createdAt.getTime()}_${id}`;

function placeOf(cursor: string): ExecutionPlace {
  const [at = '', id = ''] = cursor.split('_');
  return { createdAt: new Date(Number(at)), id };
}

interface Query {
  readonly skip: number;
  readonly limit: number;
  readonly sort: string;
  readonly success?: boolean;
  readonly trigger?: string;
  readonly search?: string;
  readonly cursor?: string;
}

async function page({ database, executions }: ExecutionParts, query: Query, functionId?: string) {
  await executions.flush();
  const newestFirst = query.sort === '-createdAt';
  const after = query.cursor === undefined ? undefined : placeOf(query.cursor);
  const filter = { ...query, functionId, newestFirst, after };
  const { rows, count, next } = await listExecutions(database, filter);
  return { rows: rows.map(onWire), count, nextCursor: next ? cursorOf(next) : null };
}

const list = (parts: ExecutionParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.list',
    method: 'GET',
    path: '/functions/list/executions',
    input: { query: Type.Object(ExecutionQuery) },
    output: Type.Object({ functionsExecutions: Type.Array(Execution), ...NextCursor }),
    summary: 'List runs of functions',
    async handler(_context, { query }) {
      const { rows, ...end } = await page(parts, query);
      return { functionsExecutions: rows, ...end };
    },
  });

const listOfFunction = (parts: ExecutionParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.executions.listOfFunction',
    method: 'GET',
    path: '/functions/executions/:functionId',
    input: { params: Type.Object({ functionId: IdParam }), query: Type.Object(ExecutionQuery) },
    output: Type.Object({
      functionExecutions: Type.Array(Execution),
      functionsExecutions: Type.Array(Execution),
      ...NextCursor,
    }),
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'List runs of one function',
    async handler(_context, { params, query }) {
      if (!isId(params.functionId)) throw functionErrors.FUNCTION_NOT_FOUND();
      const { rows, ...end } = await page(parts, query, params.functionId);
      return { functionExecutions: rows, functionsExecutions: rows, ...end };
    },
  });

/** A test run begins anew; what waited in the queue goes back there, under the key of its earlier tries. */
async function runAgain(
  parts: ExecutionParts,
  { caller, signal }: Pick<OperationContext, 'caller' | 'signal'>,
  id: string,
) {
  await parts.executions.flush();
  const found = isId(id) ? await retryableExecution(parts.database, id) : undefined;
  if (!found) throw functionErrors.EXECUTION_NOT_FOUND();
  const { functionId, input, attempt, requestId } = found;
  if (input) {
    await parts.functions.requireReach(caller, functionId);
    const again = { functionId, caller, signal, req: input.req, attempt: attempt + 1 };
    return tried(parts, { ...again, keepInput: true, trigger: 'retry', evenIfDisabled: true });
  }
  if (!(await parts.repeat(caller, functionId, requestId)))
    throw functionErrors.EXECUTION_NOT_FOUND();
  const result = { accepted: true, runId: requestId };
  return { result, status: 202, ...notRunYet, executionId: id };
}

const notRunYet = { logs: [], duration: 0, error: null, cpuMs: 0, memoryPeak: 0 };

const retry = (parts: ExecutionParts): Operation =>
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
    description:
      'With the version that is in force now; where `retryable` says so. A test run is answered with its result. What an event, a schedule or a workflow has caused goes back to its queue: `status` is then 202, and `result.runId` names it.',
    handler: (context, { params }) => runAgain(parts, context, params.executionId),
  });

/** Records of one statement. */
const BATCH = 1_000;

const prune = ({ database }: ExecutionParts): Operation =>
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
