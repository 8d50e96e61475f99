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

/** What is said of a mistake of ours. */
export const ours = 'the delivery failed';

/** What is said of a device of which nobody heard. Never throws: the results of the others would be lost, and they get it twice. */
function unheard(provider: string, device: Device, error: unknown): DeviceResult {
  const result = { device: device.id, provider, outcome: 'later' } as const;
  if (!(error instanceof DeliveryError)) return { ...result, detail: ours };
  const { message: detail, retryAfter, kind } = error;
  if (kind === 'auth') return { ...result, detail, refusesKey: true };
  return { ...result, detail, retryAfter, unknown: kind === 'unknown' };
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

interface Turns {
  readonly provider: string;
  readonly atOnce: number;
  /** Throws what `unheard` puts into words. */
  send(device: Device): Promise<DeviceResult>;
}

/** Asks about each device, a few at a time. One result per device. */
export async function inTurns(
  devices: readonly Device[],
  { provider, atOnce, send }: Turns,
): Promise<readonly DeviceResult[]> {
  const results: DeviceResult[] = [];
  const one = (device: Device): Promise<DeviceResult> =>
    send(device).catch((error: unknown) => unheard(provider, device, error));
  for (let from = 0; from < devices.length; from += atOnce)
    results.push(...(await Promise.all(devices.slice(from, from + atOnce).map(one))));
  return results;
}
