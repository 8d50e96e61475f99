/**
 * Figures of messages for monitoring. Those by which an existing panel asks are there from the start, at 0; every
 * attempt is counted in one place, whoever caused the message.
 */
import type { Kernel } from '../../../host/kernel.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';
import type { Channel } from '../queries.ts';
import { countTemplates, countUnifiedTemplates } from '../template-queries.ts';

/** What the panel has as modules is one here. */
const modules = {
  email: { module_name: 'email' },
  sms: { module_name: 'sms' },
  push: { module_name: 'pushNotifications' },
} as const;
const labels = ['module_name'];
const RENEW_MS = 30_000;

interface AttemptFacts {
  readonly channel: Channel;
  readonly provider: string;
  readonly outcome: 'accepted' | 'captured' | 'refused' | 'failed';
  /** No further attempt follows. */
  readonly last: boolean;
  /** The provider refused our credentials. */
  readonly refusesKey?: boolean;
  /** What went wrong. */
  readonly error?: string | undefined;
}

/** How a provider did lately, as this node saw it. */
export interface ProviderState {
  readonly lastSuccessAt: string | null;
  readonly lastFailureAt: string | null;
  readonly lastError: string | null;
  /** Failures since the last success. What it refuses for good is no failure of its own. */
  readonly failures: number;
  /** Whether it refused our credentials the last time. */
  readonly refusesKey: boolean;
}

const unknown: ProviderState = {
  lastSuccessAt: null,
  lastFailureAt: null,
  lastError: null,
  failures: 0,
  refusesKey: false,
};

export interface MessageMeasures {
  /** An attempt has ended. */
  attempted(facts: AttemptFacts, seconds: number): void;
  stateOf(channel: Channel, provider: string): ProviderState;
}

type Measured = Pick<Kernel, 'metrics' | 'database'>;
/** How many messages wait to be sent. */
type Waiting = () => Promise<number>;

export function measureMessages(kernel: Measured, waiting: Waiting): MessageMeasures {
  measureState(kernel, waiting);
  const { metrics } = kernel;
  const ended = metrics.counter('messages_total', 'Messages by how their delivery ended', [
    'channel',
    'outcome',
  ]);
  const countSent = sentCounter(metrics);
  const byProvider = (name: string, help: string) =>
    metrics.counter(`communications_${name}_total`, help, ['channel', 'provider']);
  const counters = {
    sent: byProvider('sent', 'Attempts to deliver a message'),
    success: byProvider('success', 'Attempts that a provider took'),
    failure: byProvider('failure', 'Attempts that a provider refused, or that failed'),
    retry: byProvider('retry', 'Attempts that failed and are made again'),
  };
  const suppressed = metrics.counter(
    'communications_suppressed_total',
    'Messages that were not sent because their recipient gets none',
    ['channel'],
  );
  const latency = metrics.histogram(
    'communications_provider_latency_seconds',
    'Time that a provider took for one message',
    ['channel', 'provider'],
  );

  const states = new Map<string, ProviderState>();
  const remember = (key: string, facts: AttemptFacts): void =>
    void states.set(key, nextState(states.get(key) ?? unknown, facts));

  return {
    stateOf: (channel, provider) => states.get(`${channel} ${provider}`) ?? unknown,
    attempted(facts, seconds) {
      const { channel, provider, outcome, last } = facts;
      const accepted = outcome === 'accepted';
      if (last) ended.inc({ channel, outcome: accepted ? 'sent' : outcome });
      if (outcome === 'captured') return;
      if (provider === 'suppression') {
        suppressed.inc({ channel });
        return;
      }
      const about = { channel, provider };
      remember(`${channel} ${provider}`, facts);
      counters.sent.inc(about);
      latency.observe(about, seconds);
      counters[accepted ? 'success' : 'failure'].inc(about);
      if (!last) counters.retry.inc(about);
      if (accepted) countSent(channel);
    },
  };
}

function nextState(
  before: ProviderState,
  { outcome, error, refusesKey = false }: AttemptFacts,
): ProviderState {
  const now = new Date().toISOString();
  const failures = before.failures + 1;
  return outcome === 'failed'
    ? { ...before, lastFailureAt: now, lastError: error ?? null, failures, refusesKey }
    : { ...before, lastSuccessAt: now, failures: 0, refusesKey: false };
}

/** Counts a message that a provider took; captured ones were not sent. */
function sentCounter(metrics: Measured['metrics']): (channel: Channel) => void {
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

/** What is there: templates, and messages that wait. */
function measureState({ metrics, database }: Measured, waiting: Waiting): void {
  const mailTemplates = remembered(RENEW_MS, [{ labels: modules.email, value: 0 }], async () => [
    { labels: modules.email, value: await countTemplates(database) },
  ]);
  metrics.gauge(
    'email_templates_total',
    'Mail templates, as of the last half minute',
    mailTemplates,
    labels,
  );
  metrics.gauge(
    'communication_templates_total',
    'Templates for several channels, as of the last half minute',
    remembered(RENEW_MS, 0, () => countUnifiedTemplates(database)),
  );
  metrics.gauge(
    'communications_queue_depth',
    'Messages that wait to be sent, as of the last half minute',
    remembered(RENEW_MS, 0, waiting),
  );
}
