/**
 * Long work in slices: each is a job that works for a while, writes down where it stopped, and asks for the next one in
 * the same transaction. A process that dies loses one slice, which is done again; so slices can be repeated.
 */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import { defineErrors } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import {
  insertTask,
  listTasks,
  noteTask,
  purgeTasks,
  type TaskKind,
  type TaskRow,
  taskById,
  unfinishedTask,
} from '../queries/tasks.ts';
import { authorOf } from './access.ts';
import { existing, type StorageParts } from './storage-parts.ts';

export const taskErrors = defineErrors({
  TASK_NOT_FOUND: [404, 'There is no such task, or it is no longer kept'],
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
  readonly jobs: readonly JobDefinition[];
}

const taskJob = 'storage.task';
/** Of a slice; and when one counts as lost. */
const SLICE_MS = 20_000;
const LOST_SECONDS = 300;
const RETRIES = 10;
const KEPT_DAYS = 30;

const isOver = ({ state }: TaskRow): boolean => state === 'done' || state === 'failed';

export function createTasks(
  { database, jobs }: Pick<StorageParts, 'database' | 'jobs'>,
  works: Readonly<Record<TaskKind, TaskWork>>,
): Tasks {
  const run = async (task: TaskRow, signal: AbortSignal): Promise<void> => {
    const slice = await works[task.kind](task, performance.now() + SLICE_MS, signal);
    await database.transaction(async (transaction) => {
      const state = slice.position ? 'running' : 'done';
      await noteTask(transaction, task._id, { ...slice, state });
      if (slice.position) await jobs.enqueue(taskJob, { id: task._id }, { transaction });
    });
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
    find: async (id) => existing(await taskById(database, id), taskErrors.TASK_NOT_FOUND),
    list: (page) => listTasks(database, page),
    jobs: [
      defineJob({
        name: taskJob,
        data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
        retries: RETRIES,
        expireInSeconds: LOST_SECONDS,
        async handler({ id }, { signal, log }) {
          const task = await taskById(database, id);
          if (!task || isOver(task)) return;
          try {
            await run(task, signal);
          } catch (error) {
            const { progress, position } = task;
            log.warn({ err: error, task: id, kind: task.kind }, 'A slice of a task failed');
            const message = error instanceof Error ? error.name : 'Error';
            await noteTask(database, id, { state: 'running', progress, position, error: message });
            throw error;
          }
        },
      }),
      defineJob({
        name: 'storage.purge-tasks',
        data: Type.Object({}),
        schedule: '52 3 * * *',
        handler: async () => void (await purgeTasks(database, KEPT_DAYS)),
      }),
    ],
  };
}
