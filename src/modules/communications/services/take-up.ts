/**
 * What the queue has given up goes on. A broadcast, a chain or a digest is a row that a job moves on; where that job
 * failed for good (its channel was off, its template was gone, for longer than the queue tries), the row stays, and
 * what is added to a digest would be lost with it. So whatever is overdue gets a job anew, until it ends or is stopped.
 */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { unendedBroadcasts } from '../broadcast-queries.ts';
import { overdueChains } from '../chain-queries.ts';

/** Longer than the queue tries by itself. */
const overdueHours = 12;

export const takeUpJob = (
  { database, jobs }: Pick<Kernel, 'database' | 'jobs'>,
  moved: Readonly<Record<'broadcasts' | 'chains' | 'digests', { readonly job: JobDefinition }>>,
): JobDefinition =>
  defineJob({
    name: 'communications.take-up',
    data: Type.Object({}),
    schedule: '13 */6 * * *',
    async handler() {
      const { chains, digests } = await overdueChains(database, overdueHours);
      const overdue = [
        [moved.broadcasts.job, await unendedBroadcasts(database, overdueHours)],
        [moved.chains.job, chains],
        [moved.digests.job, digests],
      ] as const;
      for (const [{ name }, ids] of overdue)
        for (const id of ids) await jobs.enqueue(name, { id }, { singletonKey: id });
    },
  });
