/** Recurring work on tuples; each run happens on one node. */
import Type from 'typebox';
import type { Kernel } from '../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { deleteExpired, deleteOldChanges } from './tuple-removals.ts';

/** Tuples that one statement deletes, so that no lock lasts long. */
const batch = 5000;

/** Deletes tuples that have expired, with their events. They count for nothing from their expiry on, whether this ran or not. */
export const purgeExpired = (
  { database, events }: Kernel,
  isActive: () => boolean,
): JobDefinition =>
  defineJob({
    name: 'authorization.purge-expired',
    data: Type.Object({}),
    schedule: '7 * * * *',
    async handler(_data, { signal, log }) {
      let total = 0;
      for (let gone = batch; isActive() && gone >= batch && !signal.aborted; total += gone) {
        gone = await deleteExpired(database, batch, 'system:authorization.purge-expired');
      }
      if (total === 0) return;
      events.wake();
      log.info({ relations: total }, 'Deleted expired relations');
    },
  });

/** Deletes notes about changes that are older than an hour or two. */
export const purgeChanges = ({ database }: Kernel): JobDefinition =>
  defineJob({
    name: 'authorization.purge-changes',
    data: Type.Object({}),
    schedule: '17 * * * *',
    handler: () => deleteOldChanges(database),
  });
