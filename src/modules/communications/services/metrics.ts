/** Figures of messages for monitoring, under the names by which an existing panel asks; 0 from the start. */
import type { Kernel } from '../../../host/kernel.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';
import type { Channel } from '../queries.ts';
import { countTemplates } from '../template-queries.ts';

/** What the panel has as modules is one here. */
const modules = {
  email: { module_name: 'email' },
  sms: { module_name: 'sms' },
  push: { module_name: 'pushNotifications' },
} as const;
const labels = ['module_name'];
const RENEW_MS = 30_000;

/** Counts a message that a provider took; captured ones were not sent. */
type CountSent = (channel: Channel) => void;

export function measureMessages({
  metrics,
  database,
}: Pick<Kernel, 'metrics' | 'database'>): CountSent {
  const read = remembered(RENEW_MS, [{ labels: modules.email, value: 0 }], async () => [
    { labels: modules.email, value: await countTemplates(database) },
  ]);
  metrics.gauge(
    'email_templates_total',
    'Mail templates, as of the last half minute',
    read,
    labels,
  );
  const counters = {
    email: metrics.counter('emails_sent_total', 'Mails that a mail server took', labels),
    sms: metrics.counter('sms_sent_total', 'Text messages that a provider took', labels),
    push: metrics.counter(
      'push_notifications_sent_total',
      'Push messages that a provider took',
      labels,
    ),
  };
  for (const channel of ['email', 'sms', 'push'] as const)
    counters[channel].inc(modules[channel], 0);
  return (channel) => counters[channel].inc(modules[channel]);
}
