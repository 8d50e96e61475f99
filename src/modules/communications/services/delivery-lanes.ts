/**
 * Two queues lead to the providers: of what is sent to somebody, and of what is sent to many. A code or a link is
 * waited for, a broadcast is not: so neither stands in the line of the other, also when it is tried again.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import type { NewJob } from '../../../kernel/jobs/jobs.ts';

export const deliveryJob = 'communications.deliver';
/** One job for so many messages at most. */
export const togetherJob = 'communications.deliver-together';
const togetherAtMost = 32;
/** What is written at once to so few (both addresses of an account, the members of a team) is no broadcast. */
const fewAtMost = 8;

export type Lane = 'alone' | 'together';

interface Due {
  readonly id: string;
  readonly startAfterSeconds?: number | undefined;
}
type Enqueuing = Pick<Kernel['jobs'], 'enqueueMany'>;

/** Leaves messages that were stored at once to be sent. */
export const enqueueDeliveries = (
  jobs: Enqueuing,
  messages: readonly Due[],
  transaction?: Queryable,
): Promise<void> =>
  enqueue(jobs, messages.length > fewAtMost ? 'together' : 'alone', messages, transaction);

/** Leaves what could not go out to be sent later: by the seconds until then, where it waited before. */
export const enqueueAgain = (
  jobs: Enqueuing,
  lane: Lane,
  later: ReadonlyMap<number, readonly string[]>,
): Promise<void> =>
  enqueue(
    jobs,
    lane,
    [...later].flatMap(([startAfterSeconds, some]) =>
      some.map((id) => ({ id, startAfterSeconds })),
    ),
  );

async function enqueue(
  jobs: Enqueuing,
  lane: Lane,
  messages: readonly Due[],
  transaction?: Queryable,
): Promise<void> {
  if (messages.length === 0) return;
  const options = transaction && { transaction };
  if (lane === 'together') await jobs.enqueueMany(togetherJob, groups(messages), options);
  else
    await jobs.enqueueMany(
      deliveryJob,
      messages.map(({ id, startAfterSeconds }) => ({ data: { id }, startAfterSeconds })),
      options,
    );
}

/** Those that are due at the same time, by as few jobs as there can be. */
function groups(messages: readonly Due[]): readonly NewJob[] {
  const jobs: NewJob[] = [];
  const byTime = Map.groupBy(messages, ({ startAfterSeconds }) => startAfterSeconds);
  for (const [startAfterSeconds, some] of byTime)
    for (let from = 0; from < some.length; from += togetherAtMost) {
      const ids = some.slice(from, from + togetherAtMost).map(({ id }) => id);
      jobs.push({ data: { ids }, startAfterSeconds });
    }
  return jobs;
}
