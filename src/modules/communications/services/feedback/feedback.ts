/** Takes what providers report: into the timeline and the state of the message, and into the list of who gets nothing any more. */
import Type from 'typebox';
import type { Kernel } from '../../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../../kernel/jobs/jobs.ts';
import { cutText, storable } from '../../../../kernel/text.ts';
import type { CommunicationsConfig } from '../../config.ts';
import { messageErrors } from '../../errors.ts';
import {
  type AppliedReport,
  allButCritical,
  applyReports,
  type ReportRow,
  takeNonce,
} from '../../feedback-queries.ts';
import type { Channel, MessageStatus } from '../../queries.ts';
import { createCaller, limitsOf, providerName } from '../providers/outcome.ts';
import { mailersendHook, mailgunHook, mandrillHook, sendgridHook } from './mail-hooks.ts';
import { askMailgunJob } from './mailgun-events.ts';
import type { HookRequest, ReadReports, Report, Reports } from './report.ts';
import { sesHook } from './ses-hook.ts';
import { messageBirdHook, twilioHook } from './sms-hooks.ts';

export interface Feedback {
  /** Throws WEBHOOK_NOT_FOUND, WEBHOOK_REFUSED. A report that was taken before changes nothing. */
  receive(provider: string, request: Omit<HookRequest, 'url'>): Promise<void>;
  /** Where a provider of text messages reports about a message; nothing while that is off. */
  smsReportAddress(provider: 'twilio' | 'messageBird', messageId: string): string | undefined;
  readonly jobs: readonly JobDefinition[];
}

interface Dependencies
  extends Pick<Kernel, 'database' | 'events' | 'metrics' | 'secrets' | 'jobs'> {
  readonly config: () => CommunicationsConfig;
  /** Public address of the client surface. */
  readonly clientUrl: () => string;
  /** Told after the commit. */
  readonly onReports: (applied: readonly AppliedReport[]) => Promise<void>;
}

interface Source {
  readonly provider: string;
  readonly channel: Channel;
}

/*
 * A report may come before the answer to the send has been noted, which tells what the provider calls the message. Those
 * that do not hand back our own id are looked at once more. Mails of others that share the account stay unknown.
 */
const lateJob = 'communications.late-reports';
const lateSeconds = 60;

/** Who gets nothing more was noted at once. */
const asLate = (row: ReportRow): ReportRow => ({
  ...row,
  eventId: providerName(`late:${row.eventId}`),
  suppress: null,
  waits: false,
});

interface Hook {
  readonly channel: Channel;
  readonly read: ReadReports;
}

export const hookProviders = [
  'mailgun',
  'sendgrid',
  'amazonSes',
  'mandrill',
  'mailersend',
  'twilio',
  'messageBird',
] as const;

export function createFeedback(dependencies: Dependencies): Feedback {
  const { database, secrets, config, clientUrl } = dependencies;
  const hooks = hooksOf(config, (id) => reportToken(secrets, id));
  const { apply, take } = createTaking(dependencies);
  const placeOf = (provider: string) => `${clientUrl()}/hook/communications/${provider}`;

  return {
    async receive(provider, request) {
      const hook = hooks.get(provider);
      if (!hook) throw messageErrors.WEBHOOK_NOT_FOUND();
      const { message } = request.query;
      const url = `${placeOf(provider)}${message === undefined ? '' : `?message=${message}`}`;
      await take({ provider, channel: hook.channel }, await hook.read({ ...request, url }));
    },
    smsReportAddress(provider, messageId) {
      if (!config().sms.statusCallbacks) return undefined;
      return provider === 'twilio'
        ? `${placeOf(provider)}?message=${messageId}`
        : `${placeOf(provider)}?token=${reportToken(secrets, messageId)}`;
    },
    jobs: [
      askMailgunJob({
        database,
        config,
        apply: (reports) => take({ provider: 'mailgun', channel: 'email' }, { reports }),
      }),
      defineJob({
        name: lateJob,
        data: Type.Object({
          provider: Type.String(),
          channel: Type.Enum(['email', 'sms', 'push']),
          rows: Type.Array(Type.Any()),
        }),
        handler: ({ provider, channel, rows }) =>
          apply({ provider, channel }, rows as readonly ReportRow[]),
      }),
    ],
  };
}

/** Takes reports into what they are about. */
function createTaking({ database, events, metrics, config, jobs, onReports }: Dependencies) {
  const counter = metrics.counter(
    'message_reports_total',
    'Reports of providers by what they say',
    ['provider', 'kind'],
  );
  const apply = async (
    { provider, channel }: Source,
    rows: readonly ReportRow[],
    nonce?: string,
  ): Promise<void> => {
    const applied = await database.transaction(async (transaction) => {
      if (nonce !== undefined && !(await takeNonce(transaction, provider, providerName(nonce))))
        return [];
      if (rows.length === 0) return [];
      transaction.afterCommit(() => events.wake());
      const all = await applyReports(transaction, { provider, channel }, rows);
      const unknown = new Set(all.flatMap((one) => (one.messageId === null ? one.eventId : [])));
      const later = rows.filter(({ waits, eventId }) => waits && unknown.has(eventId));
      if (later.length > 0)
        await jobs.enqueue(
          lateJob,
          { provider, channel, rows: later.map(asLate) },
          { transaction, startAfterSeconds: lateSeconds },
        );
      return all.filter(({ eventId }) => !later.some((one) => one.eventId === eventId));
    });
    for (const { kind } of applied) counter.inc({ provider, kind });
    await onReports(applied);
  };
  const take = (source: Source, { reports, nonce }: Reports): Promise<void> => {
    const rows = reports.map((report) => rowOf(report, config().suppression.enabled));
    return apply(source, rows, nonce);
  };
  return { apply, take };
}

const reportToken = (secrets: Kernel['secrets'], messageId: string): string =>
  secrets.digest(messageId, 'communications report').slice(0, 40);

function hooksOf(
  config: () => CommunicationsConfig,
  tokenOf: (messageId: string) => string,
): ReadonlyMap<string, Hook> {
  const webhooks = () => config().email.webhooks;
  const call = createCaller('amazonSes', limitsOf(config));
  const mail = (read: ReadReports): Hook => ({ channel: 'email', read });
  const sms = (read: ReadReports): Hook => ({ channel: 'sms', read });
  return new Map<(typeof hookProviders)[number], Hook>([
    ['mailgun', mail(mailgunHook(() => webhooks().mailgun.signingKey))],
    ['sendgrid', mail(sendgridHook(() => webhooks().sendgrid.publicKey))],
    ['amazonSes', mail(sesHook(() => webhooks().amazonSes, call))],
    ['mandrill', mail(mandrillHook(() => webhooks().mandrill.key))],
    ['mailersend', mail(mailersendHook(() => webhooks().mailersend.signingSecret))],
    ['twilio', sms(twilioHook(() => config().sms.twilio.authToken))],
    ['messageBird', sms(messageBirdHook(tokenOf))],
  ]);
}

/** What a message is after a report; the others only stand in the timeline. */
const statuses: ReadonlyMap<Report['kind'], MessageStatus> = new Map<Report['kind'], MessageStatus>(
  [
    ['sent', 'sent'],
    ['delivered', 'delivered'],
    ['opened', 'opened'],
    ['clicked', 'clicked'],
    ['bounced', 'bounced'],
    ['complained', 'complained'],
    ['failed', 'failed'],
  ],
);

function rowOf(report: Report, suppresses: boolean): ReportRow {
  const { eventId, kind, messageId, providerId, recipient, detail } = report;
  return {
    eventId: providerName(eventId),
    kind,
    status: statuses.get(kind) ?? null,
    messageId: messageId ?? null,
    providerId: providerId === undefined ? null : providerName(providerId),
    recipient: recipient === undefined ? null : storable(cutText(recipient, 254)),
    detail: detail ?? null,
    suppress: suppresses ? (suppressionFor(report) ?? null) : null,
    scope: kind === 'unsubscribed' ? allButCritical : '',
    waits: report.waits ?? false,
  };
}

function suppressionFor({ kind, permanent, reason }: Report): string | undefined {
  if (kind === 'complained') return 'complaint';
  if (kind === 'unsubscribed') return 'unsubscribe';
  return permanent ? (reason ?? 'bounce') : undefined;
}
