/** Recurring work on records; each run happens on one node. */
import Type from 'typebox';
import type { Kernel } from '../../host/kernel.ts';
import { system } from '../../kernel/caller.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';

type Parts = Pick<Kernel, 'records' | 'schemas'>;

/** Destroys what was in the trash for as long as its schema keeps it. */
export const purgeTrash = ({ records, schemas }: Parts): JobDefinition =>
  defineJob({
    name: 'database.purge-trash',
    data: Type.Object({}),
    schedule: '23 * * * *',
    async handler(_data, { signal, log }) {
      for (const { name } of schemas
        .all()
        .filter(({ softDelete }) => softDelete?.retainDays !== undefined)) {
        const purged = await records.trash.purgeExpired(
          system('database.purge-trash'),
          name,
          signal,
        );
        if (purged > 0)
          log.info(
            { schema: name, records: purged },
            'Destroyed records whose time in the trash was over',
          );
      }
    },
  });

/** Lets go of versions that are older than their schema keeps them. */
export const pruneHistory = ({ records, schemas }: Parts): JobDefinition =>
  defineJob({
    name: 'database.prune-history',
    data: Type.Object({}),
    schedule: '38 * * * *',
    async handler(_data, { signal, log }) {
      for (const { name } of schemas
        .all()
        .filter(({ history }) => history?.retainDays !== undefined)) {
        const pruned = await records.history.prune(system('database.prune-history'), name, signal);
        if (pruned > 0)
          log.info({ schema: name, versions: pruned }, 'Let go of old versions of records');
      }
    },
  });
