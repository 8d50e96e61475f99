/** One attempt to deliver a message: what is asked of providers, and what is noted of their answer. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../../../host/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { CommunicationsConfig } from '../config.ts';
import {
  type ClaimedMessage,
  type Ending,
  finishMessages,
  noteEvent,
} from '../delivery-queries.ts';
import { insertSuppression } from '../feedback-queries.ts';
import { askHooks, type MessageContent, openContent, sealAnyContent } from './content.ts';
import type { MailTransport } from './email/transports.ts';
import type { MessageMeasures } from './metrics.ts';
import { type Delivery, DeliveryError, providerName, words } from './providers/outcome.ts';
import type { PushTransport } from './push/delivery.ts';
import type { SmsTransport } from './sms/providers.ts';

export interface Transports {
  readonly email: MailTransport;
  readonly sms: SmsTransport;
  readonly push: PushTransport;
}

export interface AttemptParts extends Pick<Kernel, 'database' | 'events' | 'secrets' | 'hooks'> {
  readonly transports: Transports;
  readonly config: () => CommunicationsConfig;
  readonly measures: MessageMeasures;
  /** Told when the last attempt of a step of a chain has ended. */
  readonly onStep: (chainId: string) => Promise<void>;
  readonly log: Logger;
}

/** What may be tried again. */
export interface Failure {
  readonly error: unknown;
  /** No further attempt is made. */
  readonly last: boolean;
  /** Before the next attempt. */
  readonly pauseSeconds: number;
}

export interface Attempt {
  readonly ended: Delivery | Failure;
  /** Resolves when that is committed: the next message goes out meanwhile. Never rejects before it is awaited. */
  noted(): Promise<void>;
}

export interface Attempts {
  /** Makes one attempt of a message that was taken, and notes how it ended. `suppressed`: why its recipient gets none. */
  make(message: ClaimedMessage, suppressed: string | undefined): Promise<Attempt>;
}

export function createAttempts(parts: AttemptParts): Attempts {
  const { config, onStep } = parts;
  const measures = withAlarm(parts);
  const note = createNotes(parts);

  const noteDelivery = async (
    message: ClaimedMessage,
    delivery: Delivery,
    changed: MessageContent | undefined,
  ): Promise<void> => {
    const { id, channel, chainId } = message;
    const keep = channel === 'email' && config().email.storeEmails.enabled;
    const contentSealed = changed && (await sealAnyContent(parts.secrets, id, changed));
    await note(id, { ...endingOf(delivery), keep, contentSealed });
    await keepRefusal(parts, message, delivery);
    if (chainId !== null) await onStep(chainId);
  };

  const noteFailure = async (message: ClaimedMessage, ending: Ending): Promise<void> => {
    await note(message.id, ending);
    if (ending.status === 'failed' && message.chainId !== null) await onStep(message.chainId);
  };

  return {
    async make(message, suppressed) {
      const { channel, attempts } = message;
      const began = performance.now();
      const seconds = () => (performance.now() - began) / 1000;
      let changed: MessageContent | undefined;
      const onChange = (content: MessageContent) => {
        changed = content;
      };
      try {
        const delivery = await deliver({ ...parts, measures }, message, { suppressed, onChange });
        const { outcome } = delivery;
        const provider = outcome === 'captured' ? 'none' : delivery.provider;
        measures.attempted({ channel, provider, outcome, last: true }, seconds());
        return attemptOf(delivery, noteDelivery(message, delivery, changed));
      } catch (error) {
        const provider = error instanceof DeliveryError ? error.provider : 'none';
        const { retryAttempts, retryDelay } = config().orchestration;
        const refusesKey = isKeyRefused(error);
        const last = refusesKey || attempts > retryAttempts;
        const pauseSeconds = pauseBefore(error, attempts, retryDelay);
        const ending = failureOf(error, last);
        const failed = { channel, provider, outcome: 'failed', last, refusesKey } as const;
        measures.attempted({ ...failed, error: ending.error }, seconds());
        return attemptOf({ error, last, pauseSeconds }, noteFailure(message, ending));
      }
    },
  };
}

const isKeyRefused = (error: unknown): boolean =>
  error instanceof DeliveryError && error.kind === 'auth';

/** Messages fail from then on: whoever runs the platform hears of it once, and not from each of them. */
const withAlarm = ({ measures, log }: Pick<AttemptParts, 'measures' | 'log'>): MessageMeasures => ({
  ...measures,
  attempted(facts, seconds) {
    const { channel, provider, refusesKey = false } = facts;
    if (refusesKey && !measures.stateOf(channel, provider).refusesKey)
      log.error({ channel, provider }, 'A provider of messages refuses our credentials');
    measures.attempted(facts, seconds);
  },
});

const longestPauseSeconds = 3600;

/** Seconds: what the provider asked for, else twice as long each time; with jitter, so that not all come back at once. */
export function pauseBefore(error: unknown, attempts: number, retryDelay: number): number {
  if (error instanceof DeliveryError && error.retryAfter !== undefined) return error.retryAfter;
  const seconds = (retryDelay / 1000) * 2 ** (attempts - 1) * (1 + Math.random() / 4);
  // In tenths, so that messages that failed together share jobs.
  return Math.min(Math.max(Math.round(seconds * 10) / 10, 0.1), longestPauseSeconds);
}

function attemptOf(ended: Attempt['ended'], noting: Promise<void>): Attempt {
  const noted = noting.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  return {
    ended,
    async noted() {
      const failed = await noted;
      if (failed) throw failed.error;
    },
  };
}

/** Endings that one statement notes. */
const maxNotes = 500;
/** After a statement, so that the next one notes many: each is a commit, and wakes who waits for events. Milliseconds. */
const gatherMs = 15;
/** Pauses before a note is written again: the provider has it, so that giving up would double the message. Milliseconds. */
const notePauses = [100, 500, 2000, 10_000, 30_000];

/**
 * Notes endings: the first at once, and all that come while it is being written, and shortly after, in one statement.
 * Resolves when the ending is committed.
 */
function createNotes({
  database,
  events,
}: Pick<Kernel, 'database' | 'events'>): (id: string, ending: Ending) => Promise<void> {
  // Whoever makes an attempt may stand in a transaction of theirs.
  const outside = AsyncLocalStorage.snapshot();
  const waiting: {
    readonly ending: Ending & { readonly id: string };
    readonly done: PromiseWithResolvers<void>;
  }[] = [];
  let writing = false;

  const write = async (): Promise<void> => {
    writing = true;
    while (waiting.length > 0) {
      const group = waiting.splice(0, maxNotes);
      try {
        await persistently(() =>
          finishMessages(
            database,
            group.map(({ ending }) => ending),
          ),
        );
        events.wake();
        for (const { done } of group) done.resolve();
      } catch (error) {
        for (const { done } of group) done.reject(error);
      }
      await sleep(gatherMs);
    }
    writing = false;
  };
  return (id, ending) => {
    const done = Promise.withResolvers<void>();
    waiting.push({ ending: { id, ...ending }, done });
    if (!writing) void outside(write);
    return done.promise;
  };
}

async function persistently(work: () => Promise<unknown>): Promise<void> {
  for (const pause of [...notePauses, undefined]) {
    try {
      await work();
      return;
    } catch (error) {
      if (pause === undefined) throw error;
      await sleep(pause);
    }
  }
}

/** An address that its provider says does not exist, or took itself off, gets nothing more. */
async function keepRefusal(
  { database, config }: AttemptParts,
  { channel, recipient }: ClaimedMessage,
  delivery: Delivery,
): Promise<void> {
  if (delivery.outcome !== 'refused' || delivery.gone === undefined) return;
  if (!config().suppression.enabled) return;
  const { gone: reason, reason: detail } = delivery;
  await insertSuppression(database, { channel, address: recipient, scope: '', reason, detail });
}

interface Delivering {
  /** Why the recipient gets none. */
  readonly suppressed: string | undefined;
  /** Told what goes out in place of what was stored. */
  readonly onChange: (content: MessageContent) => void;
}

async function deliver(
  parts: AttemptParts,
  message: ClaimedMessage,
  { suppressed, onChange }: Delivering,
): Promise<Delivery> {
  const { database, secrets, transports, config, measures } = parts;
  const { id, channel, recipient, contentSealed, completed } = message;
  if (!isAllowed(config().messages.allowOnly, recipient)) return { outcome: 'captured' };
  if (suppressed !== undefined)
    return {
      outcome: 'refused',
      provider: 'suppression',
      about: 'recipient',
      reason: `the recipient gets no messages: ${suppressed}`,
    };
  const stored = await openContent(secrets, id, contentSealed);
  const content = await askHooks(parts.hooks, message, stored);
  if ('outcome' in content) return content;
  if (content !== stored) onChange(content);
  const began = performance.now();
  const passed = async (error: DeliveryError): Promise<void> => {
    const { provider, message: detail } = error;
    const seconds = (performance.now() - began) / 1000;
    const failed = { channel, provider, outcome: 'failed', last: false, error: detail } as const;
    measures.attempted({ ...failed, refusesKey: isKeyRefused(error) }, seconds);
    await noteEvent(database, id, { kind: 'tried', provider, detail });
  };
  if (channel === 'email') return transports.email.deliver(id, recipient, { content, passed });
  if (channel === 'sms')
    return transports.sms.deliver({ id, to: recipient, text: content.text }, passed);
  const { push: { platform, ...note } = { silent: false } } = content;
  return transports.push.deliver({
    id,
    userId: recipient,
    note,
    platform: platform ?? null,
    completed: completed ?? [],
  });
}

/** The wall for stages before production: addresses, domains (`@example.com`), numbers and ids that are written down. */
function isAllowed(allowOnly: readonly string[], recipient: string): boolean {
  if (allowOnly.length === 0) return true;
  const address = recipient.toLowerCase();
  return allowOnly.some((entry) => {
    const allowed = entry.toLowerCase();
    return allowed.startsWith('@') ? address.endsWith(allowed) : address === allowed;
  });
}

function endingOf(delivery: Delivery): Ending {
  switch (delivery.outcome) {
    case 'accepted':
      return {
        status: 'sent',
        kind: 'accepted',
        provider: delivery.provider,
        providerId: delivery.id === undefined ? undefined : providerName(delivery.id),
        detail: delivery.detail === undefined ? undefined : words(delivery.detail),
      };
    case 'captured':
      return { status: 'captured', kind: 'captured' };
    case 'refused':
      return {
        status: 'failed',
        kind: 'refused',
        provider: delivery.provider,
        error: delivery.reason,
        detail: delivery.reason,
      };
  }
}

function failureOf(error: unknown, last: boolean): Ending {
  const isTold = error instanceof DeliveryError;
  const reason = isTold ? words(error.message) : 'the delivery failed';
  const remark = isTold ? (remarks[error.kind] ?? '') : '';
  return {
    status: last ? 'failed' : 'queued',
    kind: last ? 'failed' : 'tried',
    error: reason,
    provider: isTold ? error.provider : undefined,
    detail: `${reason}${remark}`,
  };
}

const remarks: Partial<Record<DeliveryError['kind'], string>> = {
  unknown: ' (it may have been taken: a further attempt may bring it twice)',
  auth: ' (our credentials: not tried again by itself)',
};
