/** Figures of messages and templates for monitoring, under the names by which an existing panel asks; 0 from the start. */
import type { Kernel } from '../../../kernel/kernel.ts';
import { remembered } from '../../../kernel/telemetry/remembered.ts';
import { countTemplates } from '../template-queries.ts';

/** What the panel has as two modules is one here. */
const email = { module_name: 'email' };
const sms = { module_name: 'sms' };
const labels = ['module_name'];
const RENEW_MS = 30_000;

/** Counts a message that a provider took; captured ones were not sent. */
export type CountSent = (channel: 'email' | 'sms') => void;

export function measureMessages({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): CountSent {
  const read = remembered(RENEW_MS, [{ labels: email, value: 0 }], async () => [{ labels: email, value: await countTemplates(database) }]);
  metrics.gauge('email_templates_total', 'Mail templates, as of the last half minute', read, labels);
  const emails = metrics.counter('emails_sent_total', 'Mails that a mail server took', labels);
  const texts = metrics.counter('sms_sent_total', 'Text messages that a provider took', labels);
  emails.inc(email, 0);
  texts.inc(sms, 0);
  return (channel) => (channel === 'email' ? emails.inc(email) : texts.inc(sms));
}
