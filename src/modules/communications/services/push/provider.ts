/** What every way to a device takes and answers. */

import type { WebKeys } from '../../push-queries.ts';
import type { PushNote } from '../content.ts';
import { DeliveryError } from '../providers/outcome.ts';

export interface Device {
  readonly id: string;
  /** The provider's token; the endpoint of a browser's subscription. */
  readonly token: string;
  readonly platform: string;
  readonly environment: string | null;
  readonly webKeys: WebKeys | null;
  /** What a provider calls the device (SNS: the ARN of its endpoint). */
  readonly endpointRef: string | null;
  readonly updatedAt: Date;
}

/**
 * What became of one device. `dead`: the provider knows it no more, it is forgotten. `later`: worth another attempt.
 */
export type DeviceResult = {
  readonly device: string;
  readonly provider: string;
  readonly detail: string;
} & (
  | { readonly outcome: 'accepted' | 'dead' | 'refused'; readonly endpointRef?: string | undefined }
  | {
      readonly outcome: 'later';
      readonly retryAfter?: number | undefined;
      /** Whether the provider took it is not known: a further attempt may bring it twice. */
      readonly unknown?: boolean;
      /** Our credentials were refused: worth an attempt when they are mended, and not before. */
      readonly refusesKey?: boolean;
    }
);

/** A device of which nobody heard. Throws what is no matter of this device: our credentials, a mistake of ours. */
export function unheard(provider: string, device: Device, error: unknown): DeviceResult {
  if (!(error instanceof DeliveryError) || error.kind === 'auth') throw error;
  const { message: detail, retryAfter, kind } = error;
  const unknown = kind === 'unknown';
  return { device: device.id, provider, outcome: 'later', detail, retryAfter, unknown };
}

export interface PushProvider {
  readonly name: string;
  /** One result per device. `messageId` is the same at every attempt. Throws `DeliveryError` when no device can be reached. */
  send(
    note: PushNote,
    devices: readonly Device[],
    messageId: string,
  ): Promise<readonly DeviceResult[]>;
  close?(): void;
}

/** Runs `work` for each, a few at a time. */
export async function inTurns<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  for (let from = 0; from < items.length; from += atOnce)
    results.push(...(await Promise.all(items.slice(from, from + atOnce).map(work))));
  return results;
}
