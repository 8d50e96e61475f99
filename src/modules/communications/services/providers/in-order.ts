/**
 * How fast providers are asked, and who is asked when one of them cannot: the providers of a channel in order. The pace
 * is kept in the database, so that all nodes together stay below it.
 */
import type { Kernel } from '../../../../host/kernel.ts';
import type { CommunicationsConfig } from '../../config.ts';
import { takeSlots } from '../../delivery-queries.ts';
import type { Channel } from '../../queries.ts';
import type { Lane } from '../delivery-lanes.ts';
import { type Delivery, DeliveryError } from './outcome.ts';

/**
 * How far ahead places are taken: what does not fit waits in the queue instead of in memory. What goes to many takes
 * none of those behind its own: they are free for what somebody waits for. Milliseconds.
 */
const horizonMs: Readonly<Record<Lane, number>> = { alone: 10_000, together: 5_000 };

export interface Pace {
  /**
   * How long each of `count` messages waits for its turn, in milliseconds; those behind the list come again after
   * `laterSeconds`.
   */
  reserve(
    provider: string,
    count: number,
    lane: Lane,
  ): Promise<{ readonly waits: readonly number[]; readonly laterSeconds: number }>;
}

export const createPace = ({
  database,
  config,
}: Pick<Kernel, 'database'> & { readonly config: () => CommunicationsConfig }): Pace => ({
  async reserve(provider, count, lane) {
    const perSecond = perSecondOf(config(), provider);
    if (perSecond === 0) return { waits: Array.from({ length: count }, () => 0), laterSeconds: 0 };
    const { granted, firstMs, freeMs } = await takeSlots(database, provider, {
      count,
      perSecond,
      horizonMs: horizonMs[lane],
    });
    return {
      waits: Array.from({ length: granted }, (_, place) => firstMs + (place * 1000) / perSecond),
      laterSeconds: Math.max(1, Math.ceil(freeMs / 1000)),
    };
  },
});

const perSecondOf = ({ providers }: CommunicationsConfig, provider: string): number => {
  const paces: Readonly<Record<string, number>> = providers.perSecond;
  return Object.hasOwn(paces, provider) ? (paces[provider] ?? 0) : 0;
};

/** The providers of a channel, the first one first. Push has none behind it: a device is known to one provider alone. */
export function providersOf(config: CommunicationsConfig, channel: Channel): readonly string[] {
  const { email, sms, pushNotifications } = config;
  if (channel === 'push') return [pushNotifications.providerName];
  const [first, others] =
    channel === 'email' ? [email.transport, email.failover] : [sms.providerName, sms.failover];
  return [first, ...others.filter((name) => name !== first)];
}

interface Asking {
  readonly names: readonly string[];
  readonly pace: Pace;
  send(name: string): Promise<Delivery>;
  /** Told when one could not and the next is asked. */
  passed(error: DeliveryError): Promise<void>;
}

/**
 * Asks one provider after the other until one answers for good. Where it is unknown whether one took the message, the
 * others are not asked: that would double it. Throws what the last one said: `auth` only where all refuse our
 * credentials, since one that is away may be back later.
 */
export async function askInOrder({ names, pace, send, passed }: Asking): Promise<Delivery> {
  const errors: DeliveryError[] = [];
  for (const [place, name] of names.entries()) {
    try {
      if (place > 0) await turnOf(pace, name);
      return await send(name);
    } catch (error) {
      if (!(error instanceof DeliveryError) || error.kind === 'unknown') throw error;
      errors.push(error);
      if (place === names.length - 1) throw lastOf(error, errors);
      await passed(error);
    }
  }
  throw new Error('No provider was named');
}

function lastOf(error: DeliveryError, all: readonly DeliveryError[]): DeliveryError {
  if (error.kind !== 'auth' || all.every(({ kind }) => kind === 'auth')) return error;
  return new DeliveryError('transient', error.provider, error.message);
}

/** Throws `throttled` while there is no place for one more. */
async function turnOf(pace: Pace, name: string): Promise<void> {
  const { waits, laterSeconds } = await pace.reserve(name, 1, 'alone');
  const [wait] = waits;
  if (wait === undefined)
    throw new DeliveryError('throttled', name, 'its limit is used up', laterSeconds);
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}
