/** The mails of a submission, stored in the outbox with what happened to it. Nobody waits for them. */
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import type { PlainEmail, TemplatedEmail } from '../../communications/index.ts';
import type { FormDefinition } from '../definition/definition.ts';
import type { Forwarded, SubmissionRow } from '../queries/submissions.ts';
import { confirmTemplate, forwardTemplate, replyTemplate } from '../templates.ts';
import type { FileLinks } from './file-links.ts';
import type { FormParts } from './form-parts.ts';

const HOUR = 3_600;

export interface FormMails {
  /** To whoever the form names. */
  forward(
    transaction: Transaction,
    definition: FormDefinition,
    submission: SubmissionRow,
  ): Promise<Forwarded>;
  /** The reply of the form, where it has one. */
  reply(
    transaction: Transaction,
    definition: FormDefinition,
    submission: SubmissionRow,
  ): Promise<void>;
  /** Asks the submitter to confirm; false when the address has got too many mails, or there is none. */
  askToConfirm(
    transaction: Transaction,
    submission: SubmissionRow,
    token: string,
  ): Promise<boolean>;
}

type Parts = Pick<FormParts, 'messages' | 'durableLimits' | 'config' | 'publicUrl' | 'log'>;

export function createFormMails(parts: Parts, links: FileLinks): FormMails {
  const { durableLimits, config, publicUrl } = parts;
  const send = createSend(parts);

  /** What strangers cause to be sent to an address that they name. */
  const mayWrite = async (email: string): Promise<boolean> => {
    const requests = config().limits.mailsPerAddressPerHour;
    const bucket = { name: 'forms.mails', requests, seconds: HOUR };
    return (await durableLimits.consume(bucket, sha256(email))).allowed;
  };
  const mayForward = async (formId: string): Promise<boolean> => {
    const requests = config().limits.forwardsPerFormPerHour;
    if (requests === 0) return false;
    const bucket = { name: 'forms.forwards', requests, seconds: HOUR };
    return (await durableLimits.consume(bucket, formId)).allowed;
  };
  const ofUser = ({ userId }: SubmissionRow) => (userId === null ? {} : { userId });

  return {
    async forward(transaction, definition, submission) {
      const { forwardTo, template } = definition;
      if (forwardTo.length === 0) return 'none';
      if (!parts.messages.available('email')) return 'off';
      if (!(await mayForward(submission.formId))) return 'limited';
      const variables = variablesOf(definition, submission, links, config().mail.fileLinkDays);
      const replyTo = submission.email ?? undefined;
      const stored: boolean[] = [];
      for (const to of forwardTo)
        stored.push(
          await send(transaction, {
            to,
            template: template ?? forwardTemplate.name,
            variables,
            replyTo,
            essential: true,
            ...ofUser(submission),
          }),
        );
      return stored.every(Boolean) ? 'queued' : 'failed';
    },
    async reply(transaction, definition, submission) {
      const { autoReply, name } = definition;
      const { email, data } = submission;
      if (!autoReply || email === null || !(await mayWrite(email))) return;
      const variables = { ...data, form: name };
      const mail =
        autoReply === true
          ? { template: replyTemplate.name, variables }
          : { ...autoReply, variables };
      await send(transaction, { to: email, ...mail, ...ofUser(submission) });
    },
    async askToConfirm(transaction, submission, token) {
      const { email, formName } = submission;
      if (email === null || !(await mayWrite(email))) return false;
      const link = `${publicUrl()}/hook/forms/confirm/${token}`;
      const variables = { form: formName, link, hours: config().doubleOptIn.expiryHours };
      const mail = { to: email, template: confirmTemplate.name, variables };
      return send(transaction, { ...mail, ...ofUser(submission) });
    },
  };
}

/** A mail that cannot be written at all is told in the log: what was submitted must not hang on it. */
function createSend({ messages, log }: Parts) {
  return async (transaction: Transaction, mail: TemplatedEmail | PlainEmail): Promise<boolean> => {
    try {
      return (await messages.sendEmail(transaction, mail)) !== undefined;
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) throw error;
      log.error({ code: error.code }, 'A mail of a form could not be written');
      return false;
    }
  };
}

const textOf = (value: unknown): string => {
  if (value === undefined || value === null) return '';
  return Array.isArray(value) ? value.join(', ') : String(value);
};

function variablesOf(
  { name: form, fields: declared }: FormDefinition,
  { id, data, files }: SubmissionRow,
  links: FileLinks,
  linkDays: number,
): Readonly<Record<string, unknown>> {
  const named = (field: string): string =>
    files
      .filter((file) => file.field === field)
      .map(({ name }) => name)
      .join(', ');
  const fields = declared.map(({ name, label = name, type }) => ({
    name,
    label,
    value: type === 'file' ? named(name) : textOf(data[name]),
  }));
  return {
    form,
    fields,
    data: fields.map(({ name, value }) => `${name}: ${value}`).join('\n'),
    files: files.map(({ name, size, file }) => ({ name, size, url: links.url(id, file) })),
    linkDays,
    submissionId: id,
  };
}
