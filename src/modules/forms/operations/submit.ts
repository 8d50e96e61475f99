/** Submitting a form: as JSON, and as HTML forms send it. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { BodyStream, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { messagePage, prefersPage } from '../../../kernel/operations/pages.ts';
import { routerErrors } from '../../router/index.ts';
import type { FormsConfig } from '../config.ts';
import { formErrors } from '../errors.ts';
import { FORM_BYTES, formTypes } from '../services/form-bodies.ts';
import type { Submitting } from '../services/submitting.ts';
import { FormParams } from './shapes.ts';

const DEFAULT_MESSAGE = 'Form submitted successfully';
/** Milliseconds: files may take as long as any request may. */
const TRANSFER_MS = 3_600_000;
/** Bytes of a JSON body: files in it are parsed as a whole. */
const MAX_JSON = 16 * 1_048_576;

const problems = [
  formErrors.SUBMISSION_INVALID,
  formErrors.FORM_CAPTCHA_REQUIRED,
  formErrors.FORM_CAPTCHA_FAILED,
  formErrors.FORM_CHALLENGE_REQUIRED,
  formErrors.FORM_CHALLENGE_FAILED,
  formErrors.FORM_NOT_FOUND,
  formErrors.FORM_CLOSED,
  errors.UNAUTHORIZED,
  errors.RATE_LIMIT,
  errors.IDEMPOTENCY_KEY_REUSED,
  errors.UNAVAILABLE,
  operationErrors.IDEMPOTENCY_KEY_INVALID,
  routerErrors.CAPTCHA_UNAVAILABLE,
];

const Headers = Type.Object({
  accept: Type.Optional(Type.String({ maxLength: 1_000 })),
  captchatoken: Type.Optional(
    Type.String({ maxLength: 8_192, description: 'Where the body has no captchaToken' }),
  ),
  'idempotency-key': Type.Optional(
    Type.String({ description: 'A submission that is sent twice with the same key counts once' }),
  ),
});
const Values = Type.Record(Type.String(), Type.Unknown(), {
  description:
    'Values by the names of the fields; captchaToken where a captcha is required, _challenge and _solution for a challenge. Files: the id of one, or a data URL',
});

const output = Type.Object({
  message: Type.String(),
  submissionId: Type.String({ format: 'uuid' }),
  redirectUrl: Type.Optional(Type.String({ description: 'Where the form wants browsers to go' })),
});

interface Parts {
  readonly submitting: Submitting;
  readonly config: () => FormsConfig;
}

/** Their bounds follow the configuration: they are made anew when it changes. */
export function submitOperations({ submitting, config }: Parts): readonly Operation[] {
  const { files, fileSize } = config().limits;
  const facts = {
    surface: 'client',
    access: 'optionalUser',
    method: 'POST',
    limit: standardLimit,
    deadlineMs: TRANSFER_MS,
    graphql: false,
    bodyLimit: Math.min(MAX_JSON, FORM_BYTES + Math.ceil(fileSize * 1.4)),
    otherStatuses: { 302: 'HTML forms: to the `redirectUrl` of the form' },
    errors: problems,
    input: {
      params: FormParams,
      headers: Headers,
      body: Values,
      stream: {
        contentTypes: formTypes,
        description: 'The form as browsers send it, with its files.',
        limit: 2 * FORM_BYTES + files * fileSize,
        schema: Values,
      },
    },
  } as const;
  return [
    defineOperation({
      ...facts,
      id: 'forms.submit',
      path: '/forms/submit/:formId',
      output,
      summary: 'Submit a form',
      description:
        'Unknown values are dropped; what is wrong is told field by field. Mails go out afterwards. Who sends spam gets the same answer. Browsers that send an HTML form get a page.',
      handler: (context, input) => submit(submitting, context, input),
    }),
    defineOperation({
      ...facts,
      id: 'forms.submitFormer',
      path: '/forms/:formId',
      legacy: true,
      output: Type.Object({ result: Type.Literal('Ok'), ...output.properties }),
      summary: 'Submit a form',
      description: 'For clients of the 0.16 line.',
      handler: async (context, input) => {
        const reply = await submit(submitting, context, input);
        return reply.value === undefined
          ? reply
          : Reply.value({ result: 'Ok', ...(reply.value as object) }, reply.headers);
      },
    }),
  ];
}

interface SubmitInput {
  readonly params: { readonly formId: string };
  readonly headers: Type.Static<typeof Headers>;
  readonly body: Readonly<Record<string, unknown>> | undefined;
  readonly stream: BodyStream | undefined;
}

const validKey = /^[\x21-\x7e]{1,255}$/;

async function submit(
  submitting: Submitting,
  { caller, address, userAgent, signal }: OperationContext,
  { params, headers, body, stream }: SubmitInput,
): Promise<Reply> {
  const idempotencyKey = headers['idempotency-key'];
  if (idempotencyKey !== undefined && !validKey.test(idempotencyKey))
    throw operationErrors.IDEMPOTENCY_KEY_INVALID();
  const { submissionId, form, replayed } = await submitting.submit(params.formId, {
    caller,
    address,
    userAgent,
    signal,
    values: body,
    stream,
    captchaToken: headers.captchatoken,
    idempotencyKey,
  });
  const { redirectUrl, message, name } = form.definition;
  const told = message ?? DEFAULT_MESSAGE;
  if (stream && prefersPage(headers.accept))
    return redirectUrl === null ? messagePage(name, told) : Reply.redirect(redirectUrl);
  return Reply.value(
    { message: told, submissionId, ...(redirectUrl === null ? {} : { redirectUrl }) },
    replayed ? { 'idempotency-replayed': 'true' } : {},
  );
}
