/**
 * Long work in slices: each is a job that works for a while, writes down where it stopped, and asks for the next one in
 * the same transaction. A process that dies loses one slice, which is done again; so slices can be repeated.
 */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import { defineErrors, PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { lostAfterMs, whileHeld } from '../../../kernel/jobs/while-held.ts';
import {
  insertTask,
  leaseTask,
  listTasks,
  noteFailure,
  noteTask,
  purgeTasks,
  releaseTask,
  renewTask,
  type TaskKind,
  type TaskRow,
  taskById,
  turnTask,
  unfinishedTask,
} from '../queries/tasks.ts';
import { authorOf } from './access.ts';
import { codeOfError, existing, type StorageParts } from './storage-parts.ts';

export const taskErrors = defineErrors({
  TASK_NOT_FOUND: [404, 'There is no such task, or it is no longer kept'],
  TASK_STATE_INVALID: [409, 'The current state of the task does not allow this'],
});

type Facts = Readonly<Record<string, unknown>>;

/** What one slice came to. */
export interface Slice {
  readonly progress: Facts;
  /** Nothing: the work is done. */
  readonly position: Facts | null;
}

export type TaskWork = (
  task: TaskRow,
  /** Milliseconds on the clock of `performance.now()` at which the slice ends. */
  until: number,
  signal: AbortSignal,
) => Promise<Slice>;

export interface StartedTask {
  readonly task: TaskRow;
  /** False: it went on already. */
  readonly isNew: boolean;
}

export interface Tasks {
  /** The same work that goes on already is answered instead of being begun twice. */
  start(caller: Caller, kind: TaskKind, input: Facts): Promise<StartedTask>;
  /** Throws TASK_NOT_FOUND. */
  find(id: string): Promise<TaskRow>;
  list(page: {
    readonly skip: number;
    readonly limit: number;
  }): Promise<{ readonly rows: readonly TaskRow[]; readonly count: number }>;
  /** The slice that runs is finished first. Throws TASK_NOT_FOUND, TASK_STATE_INVALID. */
  pause(id: string): Promise<TaskRow>;
  resume(id: string): Promise<TaskRow>;
  /** What is done stays done. */
  cancel(id: string): Promise<TaskRow>;
  readonly jobs: readonly JobDefinition[];
}

const taskJob = 'storage.task';
/** Of a slice, and what its last step may take beyond that. */
const SLICE_MS = 3_000;
const LONGEST_SECONDS = 300;
const RETRIES = 10;
const KEPT_DAYS = 30;

const unfinished = ['waiting', 'running', 'paused'] as const;

type Parts = Pick<StorageParts, 'database' | 'jobs'>;

export function createTasks(parts: Parts, works: Readonly<Record<TaskKind, TaskWork>>): Tasks {
  const { database, jobs } = parts;
  const find = async (id: string): Promise<TaskRow> =>
    existing(await taskById(database, id), taskErrors.TASK_NOT_FOUND);
  const turn = async (id: string, step: Parameters<typeof turnTask>[2]): Promise<TaskRow> => {
    const turned = await turnTask(database, id, step);
    if (turned) return turned;
    const { state } = await find(id);
    throw taskErrors.TASK_STATE_INVALID({ message: `The task is ${state}` });
  };
  return {
    start: (caller, kind, input) =>
      database.transaction(async (transaction) => {
        const there = await unfinishedTask(transaction, kind, input);
        if (there) return { task: there, isNew: false };
        const row = { _id: newId(), kind, input, createdBy: authorOf(caller) };
        const task = existing(await insertTask(transaction, row), taskErrors.TASK_NOT_FOUND);
        await jobs.enqueue(taskJob, { id: task._id }, { transaction });
        return { task, isNew: true };
      }),
    find,
    list: (page) => listTasks(database, page),
    pause: (id) => turn(id, { from: ['waiting', 'running'], to: 'paused' }),
    cancel: (id) => turn(id, { from: unfinished, to: 'cancelled' }),
    resume: (id) =>
      database.transaction(async (transaction) => {
        const task = await turn(id, { from: ['paused'], to: 'waiting' });
        await jobs.enqueue(taskJob, { id }, { transaction });
        return task;
      }),
    jobs: [
      sliceJob(parts, works),
      defineJob({
        name: 'storage.purge-tasks',
        data: Type.Object({}),
        schedule: '52 3 * * *',
        handler: async () => void (await purgeTasks(database, KEPT_DAYS)),
      }),
    ],
  };
}

const sliceJob = (
  { database, jobs }: Parts,
  works: Readonly<Record<TaskKind, TaskWork>>,
): JobDefinition => {
  const run = async (task: TaskRow, token: string, signal: AbortSignal): Promise<void> => {
    const slice = await works[task.kind](task, performance.now() + SLICE_MS, signal);
    await database.transaction(async (transaction) => {
      const state = slice.position ? 'running' : 'done';
      const now = await noteTask(transaction, task._id, { ...slice, state });
      // With the same commit: the next slice may begin at once, and ends where the lease is still held.
      await releaseTask(transaction, task._id, token);
      if (now === 'running') await jobs.enqueue(taskJob, { id: task._id }, { transaction });
    });
  };
  return defineJob({
    name: taskJob,
    data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
    retries: RETRIES,
    expireInSeconds: LONGEST_SECONDS,
    async handler({ id }, { signal, log }) {
      const lease = { token: newId(), seconds: lostAfterMs / 1_000 };
      // It is paused or over, or somebody else is at it and asks for the next slice.
      if (!(await leaseTask(database, id, lease))) return;
      try {
        const task = await taskById(database, id);
        const renew = () => renewTask(database, id, lease);
        if (task) await whileHeld({ renew, log }, () => run(task, lease.token, signal));
      } catch (error) {
        log.warn({ err: error, task: id }, 'A slice of a task failed');
        // What is refused is refused the next time too.
        const over = error instanceof PenstockError && error.status < 500;
        await noteFailure(database, id, { error: codeOfError(error), over, max: RETRIES });
        if (!over) throw error;
      } finally {
        await releaseTask(database, id, lease.token);
      }
    },
  });
};
