/** Brings one message to the devices of its user, each in the way that reaches it. */
import type { Kernel } from '../../../../host/kernel.ts';
import type { CommunicationsConfig } from '../../config.ts';
import { noteCompleted } from '../../delivery-queries.ts';
import { deleteDeadDevices, devicesOf, noteEndpoints } from '../../push-queries.ts';
import type { PushNote } from '../content.ts';
import {
  createCaller,
  type Delivery,
  DeliveryError,
  limitsOf,
  words,
} from '../providers/outcome.ts';
import { createApns } from './apns.ts';
import { createFcm } from './fcm.ts';
import { createOneSignal } from './onesignal.ts';
import { type Device, type DeviceResult, ours, type PushProvider } from './provider.ts';
import { createSnsPush } from './sns.ts';
import { createWebPush } from './web-push.ts';

export interface OutgoingPush {
  readonly id: string;
  readonly userId: string;
  readonly note: PushNote;
  readonly platform: string | null;
  /** Devices that an earlier attempt has done with, as it noted them. */
  readonly completed: readonly string[];
}

/** In front of devices that took nothing: an operator who sends the message again asks them anew (`requeueMessage`). */
const refusedMark = '!';

export interface PushTransport {
  /** Throws `DeliveryError` while a device is left that may be reached later. */
  deliver(push: OutgoingPush): Promise<Delivery>;
  close(): void;
}

/** True while no device can be reached: messages are kept for operators. */
export const isPushSandbox = ({ pushNotifications }: CommunicationsConfig): boolean =>
  pushNotifications.providerName === 'basic' &&
  pushNotifications.webpush.publicKey === '' &&
  pushNotifications.apns.keyId === '';

/** Named as who took a message to a user without a device. */
export const inboxAlone = 'inbox';

const apple: ReadonlySet<string> = new Set(['IOS', 'IPADOS', 'MACOS']);

export function createPushTransport(
  config: () => CommunicationsConfig,
  { database }: Pick<Kernel, 'database'>,
): PushTransport {
  const push = () => config().pushNotifications;
  const limits = limitsOf(config);
  const apns = createApns(() => push().apns, limits.timeoutMs);
  const webPush = createWebPush(
    () => push().webpush,
    createCaller('webpush', { ...limits, allowInternal: () => push().webpush.allowInternal }),
  );
  const providers: ReadonlyMap<string, PushProvider> = new Map([
    ['firebase', createFcm(() => push().firebase, createCaller('firebase', limits))],
    ['onesignal', createOneSignal(() => push().onesignal, createCaller('onesignal', limits))],
    ['sns', createSnsPush(() => push().sns, createCaller('awsSns', limits))],
    ['apns', apns],
  ]);
  /** Browsers with a subscription and Apple's devices are reached directly where keys are set. */
  const providerOf = (device: Device): PushProvider | undefined => {
    const { providerName, webpush, apns: keys } = push();
    if (device.webKeys && webpush.publicKey !== '') return webPush;
    if (apple.has(device.platform) && keys.keyId !== '') return apns;
    return providerName === 'apns' ? undefined : providers.get(providerName);
  };

  return {
    async deliver({ id, userId, note, platform, completed }) {
      const startedAt = new Date();
      const done = new Set(completed);
      const devices = await devicesOf(database, userId, platform);
      const waiting = devices.filter(
        (device) => !done.has(device.id) && !done.has(refusedMark + device.id),
      );
      if (isPushSandbox(config())) return { outcome: 'captured' };
      const results = await sendAll(byProvider(waiting, providerOf), note, id);
      await keepResults(database, results, startedAt);
      for (const { device, outcome } of results)
        if (outcome !== 'later') done.add(outcome === 'accepted' ? device : refusedMark + device);
      return summaryOf(results, {
        devices: devices.length,
        note: () => noteCompleted(database, id, [...done]).then(() => undefined),
        already: completed.length,
        tookBefore: completed.some((device) => !device.startsWith(refusedMark)),
      });
    },
    close: () => apns.close?.(),
  };
}

function byProvider(
  devices: readonly Device[],
  providerOf: (device: Device) => PushProvider | undefined,
): ReadonlyMap<PushProvider | undefined, readonly Device[]> {
  return Map.groupBy(devices, providerOf);
}

async function sendAll(
  groups: ReadonlyMap<PushProvider | undefined, readonly Device[]>,
  note: PushNote,
  id: string,
): Promise<readonly DeviceResult[]> {
  const results: DeviceResult[] = [];
  for (const [provider, devices] of groups) {
    if (provider) results.push(...(await sendGroup(provider, devices, { note, id })));
    else
      results.push(
        ...devices.map((device) => ({
          device: device.id,
          provider: 'none',
          outcome: 'refused' as const,
          detail: `no provider reaches ${device.platform}`,
        })),
      );
  }
  return results;
}

/** A provider that is away or refuses our key leaves the others' devices alone. */
async function sendGroup(
  provider: PushProvider,
  devices: readonly Device[],
  { note, id }: { readonly note: PushNote; readonly id: string },
): Promise<readonly DeviceResult[]> {
  try {
    return await provider.send(note, devices, id);
  } catch (error) {
    // A mistake of ours with one provider: what others have taken must be noted all the same.
    const told = error instanceof DeliveryError ? error : undefined;
    return devices.map((device) => ({
      device: device.id,
      provider: provider.name,
      outcome: 'later',
      detail: told?.message ?? ours,
      retryAfter: told?.retryAfter,
      refusesKey: told?.kind === 'auth',
    }));
  }
}

async function keepResults(
  database: Kernel['database'],
  results: readonly DeviceResult[],
  startedAt: Date,
): Promise<void> {
  const dead = results.filter(({ outcome }) => outcome === 'dead').map(({ device }) => device);
  if (dead.length > 0) await deleteDeadDevices(database, dead, startedAt);
  const named = results.flatMap((result) =>
    result.outcome === 'accepted' && result.endpointRef
      ? [{ id: result.device, endpointRef: result.endpointRef }]
      : [],
  );
  if (named.length > 0) await noteEndpoints(database, named);
}

interface Progress {
  readonly devices: number;
  /** Devices that earlier attempts have done with. */
  readonly already: number;
  /** One of them took the message. */
  readonly tookBefore: boolean;
  note(): Promise<void>;
}

async function summaryOf(
  results: readonly DeviceResult[],
  { devices, already, tookBefore, note }: Progress,
): Promise<Delivery> {
  const asked = [...new Set(results.map((result) => result.provider))].join(', ');
  const provider = asked || (devices + already === 0 ? inboxAlone : 'push');
  const said = results.map((result) => `${result.outcome}: ${result.detail}`).join('; ');
  const detail = words(said || nothingSaid({ devices, already, tookBefore }));
  const took = results.filter(({ outcome }) => outcome === 'accepted').length;
  const accepted = tookBefore || took > 0;
  const later = results.filter((result) => result.outcome === 'later');
  const isStopped = later.every(({ refusesKey }) => refusesKey);
  if (later.length > 0) await note();
  // Where our credentials are refused, it is sent if any other device took it.
  if (later.length > 0 && !(isStopped && accepted))
    throw laterError(later, { detail, provider, took });
  if (accepted || (results.length === 0 && already === 0))
    return { outcome: 'accepted', provider, detail, devices: took };
  return { outcome: 'refused', provider, about: 'recipient', reason: detail };
}

/** Why nobody was asked. */
function nothingSaid({ devices, already, tookBefore }: Omit<Progress, 'note'>): string {
  if (devices === 0 && already === 0) return 'the user has no device';
  return tookBefore ? '' : 'no device took it';
}

type Later = DeviceResult & { readonly outcome: 'later' };

function laterError(
  later: readonly Later[],
  { provider, detail, took }: Pick<DeliveryError, 'provider'> & { detail: string; took: number },
): DeliveryError {
  const waits = later.flatMap(({ retryAfter }) => (retryAfter === undefined ? [] : [retryAfter]));
  const retryAfter = waits.length === 0 ? undefined : Math.max(...waits);
  if (later.every(({ refusesKey }) => refusesKey))
    return new DeliveryError('auth', later[0]?.provider ?? provider, detail);
  const kind = later.some(({ unknown }) => unknown) ? 'unknown' : 'transient';
  return new PartlyDelivered(kind, { provider, detail, retryAfter, devices: took });
}

/** Some devices took it, and others are asked again. */
export class PartlyDelivered extends DeliveryError {
  readonly devices: number;

  constructor(
    kind: 'unknown' | 'transient',
    about: {
      readonly provider: string;
      readonly detail: string;
      readonly retryAfter: number | undefined;
      readonly devices: number;
    },
  ) {
    super(kind, about.provider, about.detail, about.retryAfter);
    this.devices = about.devices;
  }
}
