/** Schedules, runs that wait or were given up, and workflows, as operators see them. */
import Type from 'typebox';
import { requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { ItemRow } from '../../../kernel/queue/durable-queue.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { functionErrors } from '../errors.ts';
import { adminFacts, FunctionParams, IdParam, Paging } from '../operations/shapes.ts';
import type { RunData, TriggerParts } from './parts.ts';
import { nextRuns } from './schedules.ts';

const { EXECUTION_NOT_FOUND, FUNCTION_INVALID, FUNCTION_NOT_FOUND } = functionErrors;
const SHOWN_RUNS = 5;
const states = ['waiting', 'held', 'done', 'dead'] as const;
const Time = Type.String({ format: 'date-time' });
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const Run = Type.Object({
  _id: Type.String({ format: 'uuid', description: '`ctx.idempotencyKey` of every try' }),
  function: Type.String(),
  trigger: Type.String(),
  state: Type.Enum([...states], { description: '`dead`: given up; it can be retried' }),
  attempts: Type.Integer(),
  nextTryAt: orNull(Time),
  data: Type.Record(Type.String(), Type.Unknown()),
  tries: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  createdAt: Time,
  finishedAt: orNull(Time),
});

const runOnWire = (row: ItemRow) => ({
  _id: row.id,
  function: row.target,
  trigger: String(row.data.kind),
  state: row.state,
  attempts: row.attempts,
  nextTryAt: row.state === 'waiting' && !row.running ? row.dueAt.toISOString() : null,
  data: { ...row.data },
  tries: row.tries.map(({ note, ...attempt }) => ({ ...attempt, ...note })),
  createdAt: row.createdAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
});

export const triggerOperations = (parts: TriggerParts): readonly Operation[] => [
  schedule(parts),
  listRuns(parts),
  getRun(parts),
  retryRun(parts),
  startWorkflow(parts),
];

/** A run holds what its event was about: a narrow token reads it where it might hear of that itself. */
export function requireContent(
  { schemas }: TriggerParts,
  caller: Caller,
  rows: readonly Pick<ItemRow, 'data'>[],
): void {
  for (const { module, schema } of rows.flatMap(({ data }) => originOf(data))) {
    const known = schemaObject(schema === undefined ? undefined : schemas.get(schema));
    requireAuthority(caller, ...(known.length > 0 ? known : [{ kind: 'module', module } as const]));
  }
}

interface HeardEvent {
  readonly topic?: unknown;
  readonly sequence?: unknown;
  readonly schema?: unknown;
}

/** Of what an event has caused; a workflow has it as its input. */
function originOf(data: ItemRow['data']): { readonly module: string; readonly schema?: string }[] {
  const { topic, sequence, schema } = (
    data.kind === 'workflow' ? (data.input ?? {}) : data
  ) as HeardEvent;
  if (typeof topic !== 'string' || typeof sequence !== 'number') return [];
  const [module = ''] = topic.split(':');
  return [{ module, ...(typeof schema === 'string' && { schema }) }];
}

function found({ store }: TriggerParts, id: string): StoredFunction {
  const definition = store.byId(id);
  if (!definition) throw FUNCTION_NOT_FOUND();
  return definition;
}

const schedule = (parts: TriggerParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.schedule.get',
    method: 'GET',
    path: '/functions/:id/schedule',
    input: { params: FunctionParams },
    output: Type.Object({
      cronPattern: Type.String(),
      timezone: Type.String(),
      next: Type.Array(Time, { description: 'The next five times, in UTC' }),
    }),
    errors: [FUNCTION_NOT_FOUND, FUNCTION_INVALID],
    summary: 'See when a function runs next',
    handler: async (_context, { params }) => {
      const definition = found(parts, params.id);
      if (definition.functionType !== 'cron')
        throw FUNCTION_INVALID({ message: 'Only functions of the kind cron have a schedule' });
      const { cronPattern, event, timezone = 'UTC' } = definition.inputs;
      const next = nextRuns(definition, new Date(), SHOWN_RUNS).map((at) => at.toISOString());
      return { cronPattern: cronPattern ?? event ?? '', timezone, next };
    },
  });

const listRuns = (parts: TriggerParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.queue.list',
    method: 'GET',
    path: '/functions/:id/queue',
    input: {
      params: FunctionParams,
      query: Type.Object({
        ...Paging,
        state: Type.Optional(
          Type.Enum([...states], {
            description: 'Those that wait, are held, have ended, or were given up',
          }),
        ),
      }),
    },
    output: Type.Object({ runs: Type.Array(Run), count: Type.Integer() }),
    errors: [FUNCTION_NOT_FOUND],
    summary: 'List runs that events, schedules and workflows have caused, newest first',
    description: 'Those that were given up are `dead`. Each try names the record of its run.',
    handler: async ({ caller }, { params, query }) => {
      const { _id } = found(parts, params.id);
      const { items, count } = await parts.queue.list({ target: _id, state: query.state }, query);
      requireContent(parts, caller, items);
      return { runs: items.map(runOnWire), count };
    },
  });

const RunParams = Type.Object({ runId: IdParam });

const getRun = (parts: TriggerParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.queue.get',
    method: 'GET',
    path: '/functions/queue/:runId',
    input: { params: RunParams },
    output: Run,
    errors: [EXECUTION_NOT_FOUND],
    summary: 'Read a run of a function that waits or has ended, with its tries',
    handler: async ({ caller }, { params }) => {
      const row = await parts.queue.get(params.runId);
      if (!row) throw EXECUTION_NOT_FOUND();
      requireContent(parts, caller, [row]);
      return runOnWire(row);
    },
  });

const retryRun = (parts: TriggerParts): Operation => {
  const { queue, database, wake } = parts;
  return defineOperation({
    ...adminFacts,
    id: 'functions.queue.retry',
    method: 'POST',
    path: '/functions/queue/:runId/retry',
    input: { params: RunParams },
    output: Run,
    errors: [EXECUTION_NOT_FOUND],
    summary: 'Run once more what was given up',
    description:
      'Under the same `ctx.idempotencyKey`. A workflow goes on from its last finished step.',
    handler: async ({ caller }, { params }) => {
      const row = await queue.get(params.runId);
      if (!row) throw EXECUTION_NOT_FOUND();
      requireContent(parts, caller, [row]);
      await queue.repeat(database, row.id);
      wake();
      return runOnWire((await queue.get(row.id)) ?? row);
    },
  });
};

const startWorkflow = (parts: TriggerParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.workflows.start',
    method: 'POST',
    path: '/functions/:id/start',
    input: {
      params: FunctionParams,
      body: Type.Object({
        input: Type.Optional(Type.Unknown({ description: 'What the workflow starts with' })),
        key: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 200,
            description: 'A workflow with the same key is started once',
          }),
        ),
      }),
    },
    output: Type.Object({
      started: Type.Boolean({ description: 'False: its key was taken' }),
      run: orNull(Run),
    }),
    errors: [FUNCTION_NOT_FOUND, FUNCTION_INVALID],
    summary: 'Start a workflow',
    handler: async (_context, { params, body }) => {
      const { _id, functionType } = found(parts, params.id);
      if (functionType !== 'workflow')
        throw FUNCTION_INVALID({ message: 'Only functions of the kind workflow are started' });
      const dedupe = `start:${body.key ?? newId()}`;
      const data: RunData = { kind: 'workflow', input: body.input ?? null };
      const added = await parts.queue.add(parts.database, [{ target: _id, dedupe, data }]);
      parts.wake();
      const run = await parts.queue.find(_id, dedupe);
      return { started: added > 0, run: run ? runOnWire(run) : null };
    },
  });
