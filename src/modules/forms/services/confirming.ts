/** Double opt-in: a submission counts once its sender has said so by the link in a mail. */
import { anonymous } from '../../../kernel/caller.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { formErrors } from '../errors.ts';
import { submissionEvent } from '../events.ts';
import { confirmSubmission } from '../queries/changes.ts';
import { type SubmissionRow, submissionByConfirmation } from '../queries/submissions.ts';
import type { FormParts } from './form-parts.ts';
import { processJobName } from './processing.ts';

export interface Confirming {
  /** Throws CONFIRMATION_NOT_FOUND. */
  look(token: string): Promise<SubmissionRow>;
  /** Confirms it, and has it forwarded and answered. Saying so again changes nothing more. */
  confirm(token: string): Promise<SubmissionRow>;
}

export function createConfirming({
  database,
  jobs,
  events,
}: Pick<FormParts, 'database' | 'jobs' | 'events'>): Confirming {
  const look = async (token: string): Promise<SubmissionRow> => {
    const submission = await submissionByConfirmation(database, sha256(token));
    if (!submission) throw formErrors.CONFIRMATION_NOT_FOUND();
    return submission;
  };
  return {
    look,
    confirm: (token) =>
      database.transaction(async (transaction) => {
        const submission = await look(token);
        const { id } = submission;
        if (!(await confirmSubmission(transaction, id))) return submission;
        await events.emit(transaction, anonymous, submissionEvent('confirm', submission));
        await jobs.enqueue(processJobName, { id }, { transaction });
        return submission;
      }),
  };
}
