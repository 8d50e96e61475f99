/** Events of forms, each in the transaction of the change. They carry ids and plain facts, no contents. */
import type { NewEvent } from '../../kernel/events/events.ts';

export const formEvent = (
  what: 'create' | 'update' | 'delete',
  { id, name }: { readonly id: string; readonly name: string },
): NewEvent => ({ topic: `forms:${what}:Forms`, ids: [id], payload: { _id: id, name } });

interface SubmissionFacts {
  readonly id: string;
  readonly formId: string;
  readonly formName: string;
  readonly possibleSpam: boolean;
}

export const submissionEvent = (
  what: 'submit' | 'confirm',
  { id, formId, formName, possibleSpam }: SubmissionFacts,
): NewEvent => ({
  topic: `forms:${what}:FormReplies`,
  ids: [id],
  payload: { form: formId, formName, submissionId: id, possibleSpam },
});
