/** Clean-up: what is too old, what was never confirmed, files that belong to nothing. */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import {
  abandonedUploads,
  claimUploads,
  deleteExpired,
  deleteOldChallenges,
} from './queries/changes.ts';
import { formContainer } from './services/attachments.ts';
import type { FormParts } from './services/form-parts.ts';
import { removeFilesOf } from './services/submissions.ts';

/** Rows of one statement. */
const BATCH = 500;

type Parts = Pick<FormParts, 'database' | 'config' | 'storage'>;

export const cleanUpJob = (parts: Parts): JobDefinition =>
  defineJob({
    name: 'forms.clean-up',
    data: Type.Object({}),
    schedule: '*/15 * * * *',
    async handler(_data, { signal, log }) {
      const deleted = await inBatches(signal, () => removeExpired(parts));
      await inBatches(signal, () => deleteOldChallenges(parts.database, BATCH));
      if (parts.storage.current()) await inBatches(signal, () => removeAbandoned(parts));
      if (deleted > 0)
        log.info({ submissions: deleted }, 'Deleted submissions whose time was over');
    },
  });

async function inBatches(signal: AbortSignal, work: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let count = 1; count > 0 && !signal.aborted; total += count) count = await work();
  return total;
}

const removeExpired = (parts: Parts): Promise<number> =>
  parts.database.transaction(async (transaction) => {
    const { retention, doubleOptIn } = parts.config();
    const gone = await deleteExpired(transaction, {
      days: retention.days,
      hours: doubleOptIn.expiryHours,
      most: BATCH,
    });
    await removeFilesOf(parts, transaction, gone);
    return gone.length;
  });

const removeAbandoned = ({ database, storage }: Parts): Promise<number> =>
  database.transaction(async (transaction) => {
    const names = await abandonedUploads(transaction, BATCH);
    await storage.current()?.files.removeNamed(transaction, formContainer, names);
    await claimUploads(transaction, names);
    return names.length;
  });
