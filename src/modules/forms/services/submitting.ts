/** Submitting a form: everything that is decided while the submitter waits. Mails are not: a job sees to them. */
import { addressKey, type Caller } from '../../../kernel/caller.ts';
import { canonicalText } from '../../../kernel/canonical.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { cutText, storable } from '../../../kernel/text.ts';
import { captchaNames, challengeNames } from '../definition/field.ts';
import { isMailbox } from '../definition/values.ts';
import { formErrors } from '../errors.ts';
import { claimUploads } from '../queries/changes.ts';
import { admitSubmission, type FormRow } from '../queries/forms.ts';
import {
  countRepeats,
  type EarlierSubmission,
  insertSubmission,
  type NewSubmission,
  submissionByKey,
} from '../queries/submissions.ts';
import { type Attachments, openAttachments } from './attachments.ts';
import { readFormBody, type Values } from './form-bodies.ts';
import type { FormParts, Outcome } from './form-parts.ts';
import { processJobName } from './processing.ts';
import { type Challenges, contentOf, isSpam, type Solved, signalsOf } from './spam.ts';
import { readSubmission } from './validation.ts';

/** What comes with a submission. */
export interface Sent {
  readonly caller: Caller;
  readonly address: string;
  readonly userAgent: string | undefined;
  readonly signal: AbortSignal;
  /** One of the two. */
  readonly values: Readonly<Record<string, unknown>> | undefined;
  readonly stream: BodyStream | undefined;
  /** In a header; fields of the body are looked at too. */
  readonly captchaToken: string | undefined;
  readonly idempotencyKey: string | undefined;
}

export interface Submitted {
  readonly submissionId: string;
  readonly form: FormRow;
  /** It was sent before under the same key. */
  readonly replayed: boolean;
}

export interface Submitting {
  /** A form that visitors may see. Throws FORM_NOT_FOUND, also for one that is switched off. */
  visible(formId: string): Promise<FormRow>;
  submit(formId: string, sent: Sent): Promise<Submitted>;
}

export function createSubmitting(parts: FormParts, challenges: Challenges): Submitting {
  const { known, count } = parts;
  const visible = async (formId: string): Promise<FormRow> => {
    const form = await known.find(formId);
    if (!form?.definition.enabled) throw formErrors.FORM_NOT_FOUND();
    return form;
  };
  const receive = createReceiving(parts, challenges);
  return {
    visible,
    async submit(formId, sent) {
      const form = await visible(formId);
      try {
        const { isSpam: spam, ...submitted } = await receive(form, sent);
        if (!submitted.replayed) count(form.definition.name, spam ? 'spam' : 'accepted');
        return { ...submitted, form };
      } catch (error) {
        count(form.definition.name, outcomeOf(error));
        throw error;
      }
    },
  };
}

function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof PenstockError) || error.status >= 500) return 'failed';
  return error.status === 429 ? 'limited' : 'refused';
}

type Received = Omit<Submitted, 'form'> & { readonly isSpam: boolean };

function createReceiving(parts: FormParts, challenges: Challenges) {
  const requireBudget = createBudget(parts);
  const store = createStoring(parts, challenges);
  const requireCaptcha = createCaptchaCheck(parts);

  return async (form: FormRow, sent: Sent): Promise<Received> => {
    await requireBudget(form, sent);
    requireOpen(form);
    if (form.definition.authRequired && sent.caller.kind !== 'user')
      throw errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });
    const attachments = openAttachments(parts, { ...sent, definition: form.definition });
    let stored = false;
    try {
      const values = sent.stream
        ? await readFormBody(sent.stream, attachments.take)
        : { ...sent.values };
      const key = keyOf(parts, { form, sent, values, attachments });
      const earlier =
        key.idempotencyHash !== null &&
        (await submissionByKey(parts.database, key.idempotencyHash));
      if (earlier) return replay(earlier, key.requestHash);
      await requireCaptcha(sent, values);
      const solved = solvedOf(parts, challenges, form, values);
      const { limits, spam } = parts.config();
      const data = await readSubmission(form.definition, values, attachments, limits);
      const signals = signalsOf(spam, { definition: form.definition, values, data, solved });
      const row = rowOf(parts, { form, sent, data, attachments });
      const received = await store({ form, attachments, solved }, { ...row, ...key, signals });
      stored = !received.replayed;
      return received;
    } finally {
      if (!stored) await attachments.discard();
    }
  };
}

/** Every attempt counts, so that trying is bounded too. */
function createBudget({ config, durableLimits }: FormParts) {
  return async ({ id }: FormRow, { address }: Sent): Promise<void> => {
    const requests = config().limits.submissionsPerFormPerIpPerHour;
    const bucket = { name: 'forms.submit', requests, seconds: 3_600 };
    const key = sha256(`${id} ${addressKey(address)}`);
    const { allowed, resetMs } = await durableLimits.consume(bucket, key);
    if (!allowed) throw errors.RATE_LIMIT({ retryAfter: Math.ceil(resetMs / 1_000) });
  };
}

function requireOpen({ definition: { closesAt } }: FormRow): void {
  if (closesAt !== null && Date.parse(closesAt) <= Date.now()) throw formErrors.FORM_CLOSED();
}

function createCaptchaCheck({ config, captcha }: FormParts) {
  return async ({ captchaToken, address }: Sent, values: Values): Promise<void> => {
    if (!config().captcha) return;
    const token = [...captchaNames.map((name) => values[name]), captchaToken].find(
      (one) => typeof one === 'string' && one !== '',
    );
    const verdict = await captcha.check(token as string | undefined, address);
    if (verdict === 'missing') throw formErrors.FORM_CAPTCHA_REQUIRED();
    if (verdict === 'failed') throw formErrors.FORM_CAPTCHA_FAILED();
  };
}

/** A challenge that was solved; also where the form wants none, for what it tells of the time. */
function solvedOf(
  { config }: FormParts,
  challenges: Challenges,
  { id, definition }: FormRow,
  values: Values,
): Solved | undefined {
  const { [challengeNames.challenge]: challenge, [challengeNames.solution]: solution } = values;
  if (typeof challenge === 'string' && challenge !== '')
    return challenges.check(id, challenge, String(solution ?? ''));
  if (definition.proofOfWork || config().spam.proofOfWork)
    throw formErrors.FORM_CHALLENGE_REQUIRED();
  return undefined;
}

/* What is stored. */

type Keyed = Pick<NewSubmission, 'idempotencyHash' | 'requestHash'>;
const noKey: Keyed = { idempotencyHash: null, requestHash: null };

interface Incoming {
  readonly form: FormRow;
  readonly sent: Sent;
  readonly attachments: Attachments;
}

/** An Idempotency-Key belongs to whoever sends it and to the form. What proves a visitor may differ in a second attempt. */
function keyOf(
  { secrets }: FormParts,
  { form, sent, values, attachments }: Incoming & { readonly values: Values },
): Keyed {
  const { idempotencyKey, caller, address } = sent;
  if (idempotencyKey === undefined) return noKey;
  const who = caller.kind === 'user' ? caller.userId : addressKey(address);
  const proofs = new Set<string>([...captchaNames, ...Object.values(challengeNames)]);
  const content = Object.fromEntries(Object.entries(values).filter(([name]) => !proofs.has(name)));
  const files = attachments.arrived.map(({ field, name, checksum }) => [field, name, checksum]);
  return {
    idempotencyHash: secrets.digest([form.id, who, idempotencyKey].join('\n'), 'forms:key'),
    requestHash: secrets.digest(canonicalText([content, files]), 'forms:request'),
  };
}

function replay({ id, requestHash }: EarlierSubmission, given: string | null): Received {
  if (requestHash !== given) throw errors.IDEMPOTENCY_KEY_REUSED();
  return { submissionId: id, replayed: true, isSpam: false };
}

type Row = Omit<NewSubmission, 'signals' | 'idempotencyHash' | 'requestHash'>;

function rowOf(
  { secrets }: FormParts,
  { form, sent, data, attachments }: Incoming & { readonly data: Row['data'] },
): Row {
  const { emailField, doubleOptIn, name } = form.definition;
  const email = emailField === null ? undefined : data[emailField];
  const { caller, address, userAgent } = sent;
  return {
    id: newId(),
    formId: form.id,
    formName: name,
    formVersion: form.version,
    data,
    files: attachments.arrived.map(({ checksum: _checksum, ...file }) => file),
    status: doubleOptIn ? 'unconfirmed' : 'received',
    userId: caller.kind === 'user' ? caller.userId : null,
    email: typeof email === 'string' && isMailbox(email.trim()) ? email.trim().toLowerCase() : null,
    ipHash: secrets.digest(addressKey(address), 'forms:address'),
    userAgent: userAgent === undefined ? null : cutText(storable(userAgent), 300),
    contentHash: secrets.digest(contentOf(contentHashed(data, attachments)), 'forms:content'),
  };
}

/** Files have another id each time; their content is what repeats. */
const contentHashed = (data: Row['data'], { arrived }: Attachments): Row['data'] => {
  const isFile = new Set(arrived.map(({ field }) => field));
  const fields = Object.entries(data).filter(([name]) => !isFile.has(name));
  return { ...Object.fromEntries(fields), ' files': arrived.map(({ checksum }) => checksum) };
};

interface Storing {
  readonly form: FormRow;
  readonly attachments: Attachments;
  readonly solved: Solved | undefined;
}

type Stored = Row & Keyed & Pick<NewSubmission, 'signals'>;

function createStoring(parts: FormParts, challenges: Challenges) {
  const { database, jobs, config } = parts;
  const signalsWithRepeats = async (transaction: Transaction, row: Stored) => {
    const { repeats } = config().spam;
    const isRepeated =
      repeats > 0 && (await countRepeats(transaction, row, repeats)) >= repeats - 1;
    return isRepeated ? [...row.signals, 'repeated'] : row.signals;
  };
  const settle = async (
    transaction: Transaction,
    { form, attachments, solved }: Storing,
    spam: boolean,
  ) => {
    if (solved) await challenges.use(transaction, solved);
    const { maxSubmissions } = form.definition;
    if (!(await admitSubmission(transaction, form.id, { maxSubmissions, isSpam: spam })))
      throw await refusalOf(parts, form);
    if (!(await claimUploads(transaction, attachments.names))) throw errors.TIMEOUT();
  };
  return (storing: Storing, row: Stored): Promise<Received> =>
    database.transaction(async (transaction) => {
      const signals = await signalsWithRepeats(transaction, row);
      const spam = isSpam(signals);
      if (!(await insertSubmission(transaction, { ...row, signals }, spam)))
        return replayOf(transaction, row);
      await settle(transaction, storing, spam);
      await jobs.enqueue(processJobName, { id: row.id }, { transaction });
      return { submissionId: row.id, replayed: false, isSpam: spam };
    });
}

/** Another request with the same key was faster. */
async function replayOf(transaction: Transaction, row: Keyed): Promise<Received> {
  const earlier = await submissionByKey(transaction, row.idempotencyHash ?? '');
  if (!earlier) throw errors.CONFLICT();
  return replay(earlier, row.requestHash);
}

/** Why a form that was there a moment ago takes nothing: it is full, or was deleted or switched off. */
const refusalOf = async ({ known }: FormParts, { id }: FormRow): Promise<PenstockError> =>
  (await known.find(id))?.definition.enabled
    ? formErrors.FORM_CLOSED()
    : formErrors.FORM_NOT_FOUND();
