/**
 * What Mailgun says about mails whose reports do not come by themselves: its events are asked for, at ever longer
 * intervals. Reports that it sends make that unnecessary.
 */
import Type from 'typebox';
import type { Kernel } from '../../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../../kernel/jobs/jobs.ts';
import type { CommunicationsConfig } from '../../config.ts';
import { unreportedMails } from '../../feedback-queries.ts';
import { mailgunRequest } from '../email/http-providers.ts';
import { createCaller, limitsOf, listAt } from '../providers/outcome.ts';
import { mailgunReport } from './mail-hooks.ts';
import type { Report } from './report.ts';

/** Mails that one run asks for. */
const max = 200;

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly config: () => CommunicationsConfig;
  /** Takes them as if they had been sent to us. */
  readonly apply: (reports: readonly Report[]) => Promise<void>;
}

export function askMailgunJob({ database, config, apply }: Dependencies): JobDefinition {
  const call = createCaller('mailgun', limitsOf(config));
  const eventsOf = async (providerId: string): Promise<readonly unknown[]> => {
    const { sendingDomain, transportSettings } = config().email;
    const query = new URLSearchParams({ 'message-id': providerId, ascending: 'yes', limit: '50' });
    const { url, headers } = mailgunRequest(
      { settings: transportSettings.mailgun, sendingDomain },
      `events?${query}`,
    );
    const answer = await call(url, { method: 'GET', headers });
    // What it does not know, or not yet, is asked for again later.
    return answer.ok ? listAt(answer.json(), 'items') : [];
  };
  return defineJob({
    name: 'communications.ask-mailgun',
    data: Type.Object({}),
    schedule: '*/10 * * * *',
    retries: 0,
    async handler(_data, { signal }) {
      const { transport, failover, webhooks, transportSettings } = config().email;
      const isUsed = transport === 'mailgun' || failover.includes('mailgun');
      if (!isUsed || transportSettings.mailgun.apiKey === '') return;
      if (webhooks.mailgun.signingKey !== '') return;
      for (const { id, providerId } of await unreportedMails(database, 'mailgun', max)) {
        if (signal.aborted) return;
        const reports = (await eventsOf(providerId)).flatMap((event) => mailgunReport(event) ?? []);
        if (reports.length > 0)
          await apply(reports.map((report) => ({ ...report, messageId: id })));
      }
    },
  });
}
