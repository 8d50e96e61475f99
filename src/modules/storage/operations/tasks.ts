/** Long work on files: the comparison with the store, and how far tasks are. */
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { type TaskRow, taskKinds, taskStates } from '../queries/tasks.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { taskErrors } from '../services/tasks.ts';
import { FileParams, pageOf } from './shapes.ts';

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const taskOperations = (services: StorageServices): readonly Operation[] => [
  reconcile(services),
  migrate(services),
  listTasks(services),
  getTask(services),
  turn(services, 'pause', 'Pause long work on files'),
  turn(services, 'resume', 'Go on with paused work on files'),
  turn(services, 'cancel', 'End long work on files'),
];

export const Task = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  kind: Type.Enum([...taskKinds]),
  state: Type.Enum([...taskStates]),
  progress: Type.Record(Type.String(), Type.Unknown(), { description: 'How far it is' }),
  error: Type.Union([Type.String(), Type.Null()]),
  createdBy: Type.String(),
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' }),
  finishedAt: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
});

export const taskDocument = ({ input: _input, position: _position, ...task }: TaskRow) => ({
  ...task,
  createdAt: task.createdAt.toISOString(),
  updatedAt: task.updatedAt.toISOString(),
  finishedAt: task.finishedAt?.toISOString() ?? null,
});

/** Milliseconds that a request waits for a task that is done soon. */
const WAIT_MS = 3_000;
const LOOK_MS = 50;

const reconcile = ({ tasks }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.reconcile',
    method: 'POST',
    path: '/storage/reconcile',
    input: {
      body: Type.Object({
        dryRun: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Says what it would do, and changes nothing',
          }),
        ),
      }),
    },
    output: Task,
    summary: 'Compare files with the store, and repair what crashes left',
    description:
      'Finds uploads whose time is over, objects that no file refers to, contents that are missing, wrong counters and owners that were deleted. Answers the report when it is done within three seconds, else how far it is: ask for the task then.',
    async handler({ caller, signal }, { body: { dryRun = false } }) {
      const started = await tasks.start(caller, 'reconcile', { dryRun });
      let { task } = started;
      const until = performance.now() + (started.isNew ? WAIT_MS : 0);
      while (task.finishedAt === null && performance.now() < until) {
        await sleep(LOOK_MS, undefined, { signal });
        task = await tasks.find(task._id);
      }
      return taskDocument(task);
    },
  });

const migrate = ({ tasks }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.migrate',
    method: 'POST',
    path: '/storage/migration',
    input: {},
    output: Task,
    summary: 'Bring files to the store that is configured',
    description:
      'After a change of the provider: files stay readable where they are, and are brought over one after the other. The task tells how far it is, and can be paused.',
    handler: async ({ caller }) => taskDocument((await tasks.start(caller, 'migrate', {})).task),
  });

const listTasks = ({ tasks, config }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.tasks.list',
    method: 'GET',
    path: '/storage/tasks',
    input: { query: Type.Object(pageOf({ config })) },
    output: Type.Object({ tasks: Type.Array(Task), count: Type.Integer() }),
    summary: 'List long work on files',
    async handler(_context, { query }) {
      const { rows, count } = await tasks.list(query);
      return { tasks: rows.map(taskDocument), count };
    },
  });

const getTask = ({ tasks }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.tasks.get',
    method: 'GET',
    path: '/storage/tasks/:id',
    input: { params: FileParams },
    output: Task,
    errors: [taskErrors.TASK_NOT_FOUND],
    summary: 'See how far long work on files is',
    handler: async (_context, { params }) => taskDocument(await tasks.find(params.id)),
  });

const turn = (
  { tasks }: StorageServices,
  what: 'pause' | 'resume' | 'cancel',
  summary: string,
): Operation =>
  defineOperation({
    ...facts,
    id: `storage.tasks.${what}`,
    method: 'POST',
    path: `/storage/tasks/:id/${what}`,
    input: { params: FileParams },
    output: Task,
    errors: [taskErrors.TASK_NOT_FOUND, taskErrors.TASK_STATE_INVALID],
    summary,
    handler: async (_context, { params }) => taskDocument(await tasks[what](params.id)),
  });
