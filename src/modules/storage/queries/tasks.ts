/** The SQL of tasks: long work on files that goes on in slices, and tells how far it is. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { firstOf, statement } from './statement.ts';

export const taskKinds = ['reconcile', 'removeFolder', 'migrate'] as const;
export type TaskKind = (typeof taskKinds)[number];
export const taskStates = ['waiting', 'running', 'paused', 'done', 'failed', 'cancelled'] as const;
export type TaskState = (typeof taskStates)[number];

export interface TaskRow {
  readonly _id: string;
  readonly kind: TaskKind;
  readonly state: TaskState;
  readonly input: Readonly<Record<string, unknown>>;
  /** How far it is, in the terms of its kind. */
  readonly progress: Readonly<Record<string, unknown>>;
  /** Where the next slice begins. */
  readonly position: Readonly<Record<string, unknown>> | null;
  readonly error: string | null;
  readonly createdBy: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly finishedAt: Date | null;
}

const columns = `id as "_id", kind, state, input, progress, position, error, created_by as "createdBy",
  created_at as "createdAt", updated_at as "updatedAt", finished_at as "finishedAt"`;

export const insertTask = (
  database: Queryable,
  task: Pick<TaskRow, '_id' | 'kind' | 'input' | 'createdBy'>,
): Promise<TaskRow | undefined> =>
  firstOf(
    database.query<TaskRow>(
      statement(
        `insert into penstock.storage_tasks (id, kind, state, input, progress, created_by)
         values ($1::uuid, $2, 'waiting', $3::jsonb, '{}'::jsonb, $4) returning ${columns}`,
        [task._id, task.kind, JSON.stringify(task.input), task.createdBy],
      ),
    ),
  );

export const taskById = (database: Queryable, id: string): Promise<TaskRow | undefined> =>
  firstOf(
    database.query<TaskRow>(
      statement(`select ${columns} from penstock.storage_tasks where id = $1::uuid`, [id]),
    ),
  );

/** One of that kind and input that goes on. */
export const unfinishedTask = (
  database: Queryable,
  kind: TaskKind,
  input: TaskRow['input'],
): Promise<TaskRow | undefined> =>
  firstOf(
    database.query<TaskRow>(
      statement(
        `select ${columns} from penstock.storage_tasks
         where finished_at is null and kind = $1 and input = $2::jsonb order by created_at limit 1`,
        [kind, JSON.stringify(input)],
      ),
    ),
  );

/** The last one of its kind that was done. */
export const lastTask = (database: Queryable, kind: TaskKind): Promise<TaskRow | undefined> =>
  firstOf(
    database.query<TaskRow>(
      statement(
        `select ${columns} from penstock.storage_tasks where kind = $1 and state = 'done' order by created_at desc, id desc limit 1`,
        [kind],
      ),
    ),
  );

/** Newest first. */
export const listTasks = async (
  database: Queryable,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly rows: readonly TaskRow[]; readonly count: number }> => {
  const { rows } = await database.query<TaskRow>({
    text: `select ${columns} from penstock.storage_tasks order by created_at desc, id desc offset $1 limit $2`,
    values: [skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: 'select count(*)::integer as count from penstock.storage_tasks',
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
};

interface TaskStep {
  readonly state: 'running' | 'done' | 'failed';
  readonly progress: Readonly<Record<string, unknown>>;
  readonly position: Readonly<Record<string, unknown>> | null;
}

/** Writes down how far it is; who was told to pause or to end stays so. Answers the state. */
export const noteTask = async (
  database: Queryable,
  id: string,
  step: TaskStep,
): Promise<TaskState | undefined> =>
  (
    await firstOf(
      database.query<{ state: TaskState }>(
        statement(
          `update penstock.storage_tasks set progress = $3::jsonb, position = $4::jsonb, error = null, attempts = 0, updated_at = now(),
             state = case when state = 'cancelled' or (state = 'paused' and $2 = 'running') then state else $2 end,
             finished_at = case when state = 'cancelled' or $2 in ('done', 'failed') then now() end
           where id = $1::uuid returning state`,
          [
            id,
            step.state,
            JSON.stringify(step.progress),
            step.position && JSON.stringify(step.position),
          ],
        ),
      ),
    )
  )?.state;

/** A slice came to nothing. `over`: there will be no other, as after so many of them. */
export const noteFailure = (
  database: Queryable,
  id: string,
  { error, over, max }: { readonly error: string; readonly over: boolean; readonly max: number },
): Promise<unknown> =>
  database.query(
    statement(
      `update penstock.storage_tasks set error = $2, attempts = attempts + 1, updated_at = now(),
         state = case when $3::boolean or attempts + 1 >= $4::integer then 'failed' else state end,
         finished_at = case when $3::boolean or attempts + 1 >= $4::integer then now() end
       where id = $1::uuid and finished_at is null`,
      [id, error, over, max],
    ),
  );

/** Only one slice of a task runs at a time, on whatever node; of one that is paused or over, none. */
export const leaseTask = async (
  database: Queryable,
  id: string,
  { token, seconds }: { readonly token: string; readonly seconds: number },
): Promise<boolean> =>
  (
    await database.query(
      statement(
        `update penstock.storage_tasks set lease = $2::uuid, lease_until = now() + $3::integer * interval '1 second'
         where id = $1::uuid and state in ('waiting', 'running') and (lease is null or lease_until <= now())
         returning id`,
        [id, token, seconds],
      ),
    )
  ).rows.length > 0;

/** Says of a task that whoever has it is still at work on it. */
export const renewTask = (
  database: Queryable,
  id: string,
  { token, seconds }: { readonly token: string; readonly seconds: number },
): Promise<unknown> =>
  database.query(
    statement(
      `update penstock.storage_tasks set lease_until = now() + $3::integer * interval '1 second'
       where id = $1::uuid and lease = $2::uuid`,
      [id, token, seconds],
    ),
  );

export const releaseTask = (database: Queryable, id: string, token: string): Promise<unknown> =>
  database.query(
    statement(
      'update penstock.storage_tasks set lease = null where id = $1::uuid and lease = $2::uuid',
      [id, token],
    ),
  );

/** Nothing when it is in none of these states. */
export const turnTask = (
  database: Queryable,
  id: string,
  { from, to }: { readonly from: readonly TaskState[]; readonly to: TaskState },
): Promise<TaskRow | undefined> =>
  firstOf(
    database.query<TaskRow>(
      statement(
        `update penstock.storage_tasks set state = $3, updated_at = now(), attempts = 0, finished_at = case when $3 = 'cancelled' then now() end
         where id = $1::uuid and state = any($2::text[]) returning ${columns}`,
        [id, from, to],
      ),
    ),
  );

/** Lets go of what ended long ago; answers how many. */
export const purgeTasks = async (database: Queryable, days: number): Promise<number> =>
  (
    await database.query(
      statement(
        `delete from penstock.storage_tasks where finished_at < now() - $1::integer * interval '1 day'`,
        [days],
      ),
    )
  ).count;
