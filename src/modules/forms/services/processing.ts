/**
 * What happens after a submission is stored, by a job: looking for spam, mails, events. A crash at any moment neither
 * loses nor doubles any of it: each step is written down in the transaction that makes it.
 */
import Type from 'typebox';
import { anonymous, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { createOutboundFetch } from '../../../kernel/outbound.ts';
import { randomToken, sha256 } from '../../../kernel/security/tokens.ts';
import { formErrors } from '../errors.ts';
import { submissionEvent } from '../events.ts';
import {
  confirmSubmission,
  noteDelivery,
  noteNotAsked,
  noteRequest,
  noteScreening,
} from '../queries/changes.ts';
import { formById } from '../queries/forms.ts';
import {
  lockSubmission,
  type SubmissionRow,
  submissionByConfirmation,
  submissionById,
} from '../queries/submissions.ts';
import type { FormParts } from './form-parts.ts';
import type { FormMails } from './mails.ts';
import { isSpam, type Signal } from './spam.ts';

/* Looking an address up in a public list of spammers. Off unless an operator wants it; no answer is no objection. */

const address = 'https://api.stopforumspam.org/api';

/** What the list says: nothing, that it has the address, or that it could not be asked. */
type Lookup = (email: string) => Promise<Signal | undefined>;

function createLookup({ config, log }: Pick<FormParts, 'config' | 'log'>): Lookup {
  return async (email) => {
    const { lookup, lookupUrl, lookupTimeoutMs } = config().spam;
    if (lookup === 'none') return undefined;
    // Another address than that of the list is the super admin's word, who may mean their own network.
    const fetch = createOutboundFetch({
      allowInternal: () => lookupUrl !== '',
      timeoutMs: lookupTimeoutMs,
      maxBytes: 65_536,
    });
    try {
      const url = new URL(lookupUrl || address);
      url.searchParams.set('json', 'true');
      url.searchParams.set('email', email);
      const response = await fetch(url.href);
      if (response.status !== 200) throw new Error(`the list answered ${response.status}`);
      return isListed(await response.json()) ? 'lookup' : undefined;
    } catch (error) {
      log.warn({ err: error }, 'The list of spammers could not be asked');
      return 'lookupFailed';
    }
  };
}

/** `{email: {appears: 1, blacklisted: 1, ...}}` */
function isListed(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) throw new Error('the list answered no object');
  const email: unknown = Reflect.get(answer, 'email');
  if (typeof email !== 'object' || email === null) throw new Error('the list answered no address');
  return ['blacklisted', 'appears'].some((name) => Number(Reflect.get(email, name)) === 1);
}

export const processJobName = 'forms.process';
/** Attempts over about a day, with growing pauses. */
const RETRIES = 30;

const asModule = system('forms');

type Parts = Pick<FormParts, 'database' | 'events' | 'config' | 'log'>;

export function createProcessing(parts: Parts, mails: FormMails): JobDefinition {
  const lookup = createLookup(parts);
  const screen = createScreening(parts);
  const deliver = createDelivering(parts, mails);
  return defineJob({
    name: processJobName,
    data: Type.Object({ id: Type.String() }),
    retries: RETRIES,
    async handler({ id }) {
      const seen = await submissionById(parts.database, id);
      if (!seen) return;
      if (seen.screenedAt === null) {
        const said =
          seen.possibleSpam || seen.email === null ? undefined : await lookup(seen.email);
        await screen(id, said ? [...seen.signals, said] : seen.signals);
      }
      await deliver(id);
    },
  });
}

/** Settles whether it is spam, and tells the event. */
function createScreening({ database, events }: Parts) {
  return (id: string, signals: readonly string[]): Promise<void> =>
    database.transaction(async (transaction) => {
      const row = await lockSubmission(transaction, id);
      if (!row || row.screenedAt !== null) return;
      const possibleSpam = row.possibleSpam || isSpam(signals);
      await noteScreening(transaction, id, { possibleSpam, signals });
      await events.emit(transaction, asModule, submissionEvent('submit', { ...row, possibleSpam }));
    });
}

/** Forwards and answers what is no spam and, where that is asked for, confirmed. Once. */
function createDelivering({ database }: Parts, mails: FormMails) {
  return (id: string): Promise<void> =>
    database.transaction(async (transaction) => {
      const row = await lockSubmission(transaction, id);
      if (!row || row.deliveredAt !== null) return;
      if (row.status === 'unconfirmed') return askToConfirm(transaction, row, mails);
      if (row.possibleSpam) return void (await noteDelivery(transaction, id, 'spam'));
      const form = await formById(transaction, row.formId);
      if (!form) return void (await noteDelivery(transaction, id, 'none'));
      const forwarded = await mails.forward(transaction, form.definition, row);
      await mails.reply(transaction, form.definition, row);
      await noteDelivery(transaction, id, forwarded);
    });
}

/** Once, and nobody whose submission counts as spam: the address may be that of somebody else. */
async function askToConfirm(
  transaction: Transaction,
  row: SubmissionRow,
  mails: FormMails,
): Promise<void> {
  if (row.possibleSpam || row.confirmHash !== null) return;
  const token = randomToken();
  const asked = await mails.askToConfirm(transaction, row, token);
  if (asked === 'queued') await noteRequest(transaction, row.id, sha256(token));
  if (asked === 'off') await noteNotAsked(transaction, row.id);
}

/* Double opt-in: a submission counts once its sender has said so by the link in a mail. */

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
  config,
}: Pick<FormParts, 'database' | 'jobs' | 'events' | 'config'>): Confirming {
  const look = async (token: string): Promise<SubmissionRow> => {
    const submission = await submissionByConfirmation(database, sha256(token));
    if (!submission || isTooLate(submission)) throw formErrors.CONFIRMATION_NOT_FOUND();
    return submission;
  };
  // The clean-up deletes it shortly.
  const isTooLate = ({ status, createdAt }: SubmissionRow): boolean =>
    status === 'unconfirmed' &&
    createdAt.getTime() + config().doubleOptIn.expiryHours * 3_600_000 < Date.now();
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
