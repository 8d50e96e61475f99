/** The mails of a submission, stored in the outbox with what happened to it, and the links in them. Nobody waits for them. */
import { createHmac } from 'node:crypto';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { sameSecret, sha256 } from '../../../kernel/security/tokens.ts';
import type { BuiltInTemplate, PlainEmail, TemplatedEmail } from '../../communications/index.ts';
import type { FormDefinition } from '../definition/definition.ts';
import { formErrors, needs } from '../errors.ts';
import { type Forwarded, type SubmissionRow, submissionById } from '../queries/submissions.ts';
import type { FormParts } from './form-parts.ts';

/* What the mails say. Every value in them is escaped by the template language. */

const styles = 'font-family:sans-serif;line-height:1.5';
const cell = 'padding:4px 12px 4px 0;text-align:left;vertical-align:top';

/** To the addresses of `forwardTo`. Has `data` (lines) for templates of the 0.16 line too. */
const forwardTemplate: BuiltInTemplate = {
  name: 'FormSubmission',
  subject: 'New submission: {{form}}',
  body: `<div style="${styles}">
<p>Somebody has filled in the form <strong>{{form}}</strong>.</p>
<table style="border-collapse:collapse">
{{#each fields}}<tr><th style="${cell}">{{label}}</th><td style="${cell};white-space:pre-wrap">{{value}}</td></tr>
{{/each}}</table>
{{#if files}}<p>Files; the links work for {{linkDays}} days:</p>
<ul>{{#each files}}<li><a href="{{url}}">{{name}}</a> ({{size}} bytes)</li>
{{/each}}</ul>{{/if}}
<p>Submission {{submissionId}}</p>
</div>`,
};

/** To the submitter, where a form sets \`autoReply: true\`. */
const replyTemplate: BuiltInTemplate = {
  name: 'FormAutoReply',
  subject: 'We have got your message',
  body: `<div style="${styles}"><p>Thank you. What you sent with "{{form}}" has reached us.</p></div>`,
};

/** To the submitter of a form with double opt-in. */
const confirmTemplate: BuiltInTemplate = {
  name: 'FormConfirmation',
  subject: 'Please confirm: {{form}}',
  body: `<div style="${styles}">
<p>This address was given in the form "{{form}}".</p>
<p><a href="{{link}}">Yes, that was me</a></p>
<p>If it was not you, do nothing: what was sent is deleted in {{hours}} hours.</p>
</div>`,
};

export const formTemplates = [forwardTemplate, replyTemplate, confirmTemplate];

/* Signed links to files of submissions: they work for some days, and end with the submission. */

export interface FileLink {
  readonly submissionId: string;
  readonly fileId: string;
  /** Seconds since the epoch. */
  readonly expires: number;
}

export interface FileLinks {
  url(submissionId: string, fileId: string): string;
  /** Where the content is now. Throws FORM_LINK_INVALID, and 404 for what is deleted. */
  resolve(link: FileLink, signature: string): Promise<string>;
}

export function createFileLinks({
  secrets,
  config,
  publicUrl,
  storage,
  database,
}: Pick<FormParts, 'secrets' | 'config' | 'publicUrl' | 'storage' | 'database'>): FileLinks {
  const key = secrets.digest('file links', 'forms');
  const sign = ({ submissionId, fileId, expires }: FileLink): string =>
    createHmac('sha256', key).update([submissionId, fileId, expires].join('\n')).digest('hex');
  return {
    url(submissionId, fileId) {
      const expires = Math.floor(Date.now() / 1_000) + config().mail.fileLinkDays * 86_400;
      const sig = sign({ submissionId, fileId, expires });
      const query = new URLSearchParams({ expires: String(expires), sig });
      return `${publicUrl()}/forms/submissions/${submissionId}/files/${fileId}?${query}`;
    },
    async resolve(link, signature) {
      if (!sameSecret(sign(link), signature) || link.expires * 1_000 <= Date.now())
        throw formErrors.FORM_LINK_INVALID();
      const submission = await submissionById(database, link.submissionId);
      if (!submission?.files.some(({ file }) => file === link.fileId))
        throw formErrors.SUBMISSION_NOT_FOUND();
      const service = storage.current();
      if (!service) throw needs('Storage');
      return service.files.readUrl(link.fileId);
    },
  };
}

/* Storing the mails. */

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
  /** Asks the submitter to confirm; `failed` when the address has got too many mails, or there is none. */
  askToConfirm(
    transaction: Transaction,
    submission: SubmissionRow,
    token: string,
  ): Promise<Extract<Forwarded, 'queued' | 'off' | 'failed'>>;
}

type Parts = Pick<FormParts, 'messages' | 'durableLimits' | 'config' | 'publicUrl' | 'log'>;

/** Also where nothing is forwarded: the reply comes once mail is on again. */
const mailsAnybody = ({ forwardTo, autoReply }: FormDefinition, { email }: SubmissionRow) =>
  forwardTo.length > 0 || (Boolean(autoReply) && email !== null);

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
  const isOn = () => parts.messages.available('email');

  return {
    async forward(transaction, definition, submission) {
      const { forwardTo, template } = definition;
      if (mailsAnybody(definition, submission) && !isOn()) return 'off';
      if (forwardTo.length === 0) return 'none';
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
      if (!autoReply || email === null || !isOn() || !(await mayWrite(email))) return;
      const variables = { ...data, form: name };
      const mail =
        autoReply === true
          ? { template: replyTemplate.name, variables }
          : { ...autoReply, variables };
      await send(transaction, { to: email, ...mail, ...ofUser(submission) });
    },
    async askToConfirm(transaction, submission, token) {
      const { email, formName } = submission;
      if (!isOn()) return 'off';
      if (email === null || !(await mayWrite(email))) return 'failed';
      const link = `${publicUrl()}/hook/forms/confirm/${token}`;
      const variables = { form: formName, link, hours: config().doubleOptIn.expiryHours };
      const mail = { to: email, template: confirmTemplate.name, variables };
      const stored = await send(transaction, { ...mail, ...ofUser(submission) });
      return stored ? 'queued' : 'failed';
    },
  };
}

const ofUser = ({ userId }: SubmissionRow) => (userId === null ? {} : { userId });

/** A mail that cannot be written at all is told in the log: what was submitted must not hang on it. */
function createSend({ messages, log }: Parts) {
  return async (transaction: Transaction, mail: TemplatedEmail | PlainEmail): Promise<boolean> => {
    try {
      return (await messages.sendEmail(transaction, { module: 'forms', ...mail })) !== undefined;
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
