/** What visitors need besides submitting: the form itself, a challenge, the script, and links out of mails. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { confirmPage, messagePage } from '../../../kernel/operations/pages.ts';
import type { FormsConfig } from '../config.ts';
import { FieldDocument } from '../definition/field.ts';
import { formErrors } from '../errors.ts';
import type { FileLinks } from '../services/mails.ts';
import type { Confirming } from '../services/processing.ts';
import type { Challenges } from '../services/spam.ts';
import type { Submitting } from '../services/submitting.ts';
import { FormParams } from './shapes.ts';

interface Services {
  readonly submitting: Submitting;
  readonly challenges: Challenges;
  readonly confirming: Confirming;
  readonly links: FileLinks;
  readonly config: () => FormsConfig;
}

export const visitorOperations = (services: Services): readonly Operation[] => [
  script,
  form(services),
  challenge(services),
  file(services),
  showConfirmation(services),
  confirm(services),
];

const facts = { surface: 'client', access: 'public', limit: standardLimit } as const;

let scriptText: string | undefined;

/** Read when it is first asked for. */
function embedScript(): string {
  scriptText ??= readFileSync(fileURLToPath(new URL('../embed/embed.js', import.meta.url)), 'utf8');
  return scriptText;
}

/** What stands in a page: a place for the form, and the script that fills it. */
export const snippetFor = (clientUrl: string, formId: string): string =>
  `<div data-penstock-form="${formId}"></div>\n<script type="module" src="${clientUrl}/forms/embed.js"></script>`;

/** Pages of any site may load it. It changes with the platform, so nobody keeps it for long. */
const script: Operation = defineOperation({
  ...facts,
  id: 'forms.script',
  method: 'GET',
  path: '/forms/embed.js',
  anyApp: true,
  graphql: false,
  input: {},
  output: Type.String({ contentMediaType: 'text/javascript' }),
  summary: 'Get the script that shows forms in pages',
  handler: () =>
    Reply.text(embedScript(), 'text/javascript; charset=utf-8', 200, {
      'cache-control': 'public, max-age=300',
      'cross-origin-resource-policy': 'cross-origin',
      'access-control-allow-origin': '*',
    }),
});

const form = ({ submitting, config }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.get',
    method: 'GET',
    path: '/forms/:formId',
    input: { params: FormParams },
    output: Type.Object({
      _id: Type.String({ format: 'uuid' }),
      name: Type.String(),
      fields: Type.Array(FieldDocument),
      authRequired: Type.Boolean(),
      captcha: Type.Boolean({ description: 'Wants a captchaToken' }),
      proofOfWork: Type.Boolean({ description: 'Wants a solved challenge' }),
      honeypotField: Type.String({
        description: 'A field to be shown to programs alone; empty: none',
      }),
      maxFiles: Type.Integer(),
      maxFileSize: Type.Integer({ description: 'Bytes', wide: true }),
    }),
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Read what a form asks for',
    description: 'Nothing of where it goes.',
    handler: async (_context, { params }) => {
      const { id, definition } = await submitting.visible(params.formId);
      const { captcha, spam, limits, useAttachments } = config();
      return {
        _id: id,
        name: definition.name,
        fields: definition.fields,
        authRequired: definition.authRequired,
        captcha,
        proofOfWork: definition.proofOfWork || spam.proofOfWork,
        honeypotField: definition.fields.some(({ name }) => name === spam.honeypotField)
          ? ''
          : spam.honeypotField,
        maxFiles: useAttachments ? limits.files : 0,
        maxFileSize: limits.fileSize,
      };
    },
  });

const challenge = ({ submitting, challenges }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.challenge',
    method: 'GET',
    path: '/forms/:formId/challenge',
    input: { params: FormParams },
    output: Type.Object({
      challenge: Type.String({ description: 'Send it back as _challenge' }),
      puzzle: Type.String(),
      difficulty: Type.Integer({
        description:
          'Find a whole number n for which SHA-256 of `<puzzle>:<n>` begins with so many zero bits, and send it as _solution',
      }),
      expiresAt: Type.String({ format: 'date-time' }),
    }),
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Get a challenge whose solution shows that a submission is worth some work',
    description: 'Good for one submission of this form, for an hour.',
    handler: async (_context, { params }) =>
      challenges.open((await submitting.visible(params.formId)).id),
  });

const file = ({ links }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.file',
    method: 'GET',
    path: '/forms/submissions/:submissionId/files/:fileId',
    anyApp: true,
    graphql: false,
    input: {
      params: Type.Object({
        submissionId: Type.String({ format: 'uuid' }),
        fileId: Type.String({ format: 'uuid' }),
      }),
      query: Type.Object({
        expires: Type.Integer({ minimum: 0, maximum: 100_000_000_000 }),
        sig: Type.String({ maxLength: 128 }),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    otherStatuses: { 302: 'to the content' },
    errors: [formErrors.FORM_LINK_INVALID, formErrors.SUBMISSION_NOT_FOUND],
    summary: 'Follow a link to a file of a submission',
    description: 'Links stand in forwarded submissions. They end with the submission.',
    handler: async (_context, { params, query: { expires, sig } }) =>
      Reply.redirect(await links.resolve({ ...params, expires }, sig)),
  });

const hook = '/hook/forms/confirm/:token';
const Token = Type.Object({ token: Type.String({ minLength: 20, maxLength: 100 }) });
const hookFacts = {
  ...facts,
  path: hook,
  limit: { requests: 50, seconds: 3_600 },
  mcp: false,
  graphql: false,
  input: { params: Token },
  output: Type.String({ contentMediaType: 'text/html' }),
  errors: [formErrors.CONFIRMATION_NOT_FOUND],
} as const;

const showConfirmation = ({ confirming }: Services): Operation =>
  defineOperation({
    ...hookFacts,
    id: 'forms.hook.showConfirmation',
    method: 'GET',
    summary: 'Show the page behind a link that confirms a submission',
    description:
      'Confirms nothing: mail scanners follow links too. Its button sends a POST to the same address.',
    handler: async (_context, { params }) => {
      const { formName, status } = await confirming.look(params.token);
      return status === 'confirmed'
        ? messagePage(formName, 'This is confirmed already.')
        : confirmPage({
            title: formName,
            text: 'Was it you who filled in this form?',
            button: 'Yes, that was me',
          });
    },
  });

const confirm = ({ confirming }: Services): Operation =>
  defineOperation({
    ...hookFacts,
    id: 'forms.hook.confirm',
    method: 'POST',
    idempotency: false,
    summary: 'Confirm a submission',
    handler: async (_context, { params }) => {
      const { formName } = await confirming.confirm(params.token);
      return messagePage(formName, 'Thank you, this is confirmed.');
    },
  });
