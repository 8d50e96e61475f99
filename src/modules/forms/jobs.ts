/**
 * Clean-up: what is too old, what was never confirmed, what belongs to nobody any more, files that belong to nothing; and
 * mails that could not be written.
 */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import {
  abandonedUploads,
  claimUploads,
  deleteExpired,
  deleteOldChallenges,
  deleteOrphaned,
  resumeUnsent,
} from './queries/changes.ts';
import { formContainer } from './services/attachments.ts';
import type { FormParts } from './services/form-parts.ts';
import { processJobName } from './services/processing.ts';
import { removeFilesOf } from './services/submissions.ts';

/** Rows of one statement. */
const BATCH = 500;

type Parts = Pick<FormParts, 'database' | 'config' | 'storage'>;
/** `hasUsers`: whether accounts are known here. */
type CleanUpParts = Parts & { readonly hasUsers: () => boolean };
type ResumeParts = Pick<FormParts, 'database' | 'jobs' | 'messages'>;

export const cleanUpJob = (parts: CleanUpParts): JobDefinition =>
  defineJob({
    name: 'forms.clean-up',
    data: Type.Object({}),
    schedule: '*/15 * * * *',
    async handler(_data, { signal, log }) {
      const deleted = await inBatches(signal, () => removeExpired(parts));
      if (parts.hasUsers()) await inBatches(signal, () => removeOrphaned(parts));
      await inBatches(signal, () => deleteOldChallenges(parts.database, BATCH));
      if (parts.storage.current()) await inBatches(signal, () => removeAbandoned(parts));
      if (deleted > 0)
        log.info({ submissions: deleted }, 'Deleted submissions whose time was over');
    },
  });

const resumeJobName = 'forms.resume-mails';

/** Mails that were not written while mail was off. */
export const resumeJob = ({ database, jobs, messages }: ResumeParts): JobDefinition =>
  defineJob({
    name: resumeJobName,
    data: Type.Object({}),
    schedule: '*/15 * * * *',
    async handler(_data, { signal }) {
      if (!messages.available('email')) return;
      await inBatches(signal, () =>
        database.transaction(async (transaction) => {
          const ids = await resumeUnsent(transaction, BATCH);
          const all = ids.map((id) => ({ data: { id } }));
          await jobs.enqueueMany(processJobName, all, { transaction });
          return ids.length;
        }),
      );
    },
  });

/** Has it run now. */
export const resumeMails = ({ jobs }: Pick<FormParts, 'jobs'>): Promise<unknown> =>
  jobs.enqueue(resumeJobName, {}, { singletonKey: 'resume' });

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
      max: BATCH,
    });
    await removeFilesOf(parts, transaction, gone);
    return gone.length;
  });

/** While this module is off, nobody hears that an account is deleted. */
const removeOrphaned = (parts: Parts): Promise<number> =>
  parts.database.transaction(async (transaction) => {
    const gone = await deleteOrphaned(transaction, BATCH);
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
