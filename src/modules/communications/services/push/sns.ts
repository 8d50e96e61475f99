/** Push messages through Amazon SNS: each device is an endpoint of a platform application. */
import type { CommunicationsConfig } from '../../config.ts';
import type { PushNote } from '../content.ts';
import { type CallProvider, words } from '../providers/outcome.ts';
import { callSns, elementOf, type SnsAnswer } from '../providers/sns.ts';
import { type Device, type DeviceResult, inTurns, type PushProvider } from './provider.ts';

type Settings = CommunicationsConfig['pushNotifications']['sns'];

const name = 'sns';
const atOnce = 10;
const apple: ReadonlySet<string> = new Set(['IOS', 'IPADOS', 'MACOS']);
/** In the words of SNS: "Endpoint <arn> already exists with the same Token, but different attributes." */
function existingEndpoint(message: string): string | undefined {
  const words = message.split(' ');
  const [arn, ...rest] = words.slice(words.indexOf('Endpoint') + 1);
  return arn?.startsWith('arn:') && rest.slice(0, 2).join(' ') === 'already exists'
    ? arn
    : undefined;
}

export function createSnsPush(settings: () => Settings, call: CallProvider): PushProvider {
  const ask = (parameters: Readonly<Record<string, string>>): Promise<SnsAnswer> =>
    callSns(call, settings(), parameters);

  const endpointOf = async (device: Device): Promise<SnsAnswer> => {
    if (device.endpointRef !== null) return { ok: true, text: device.endpointRef };
    const { gcmApplicationArn, apnsApplicationArn } = settings();
    const application = apple.has(device.platform) ? apnsApplicationArn : gcmApplicationArn;
    if (application === '')
      return { ok: false, code: 'NotConfigured', message: `no application for ${device.platform}` };
    const made = await ask({
      Action: 'CreatePlatformEndpoint',
      PlatformApplicationArn: application,
      Token: device.token,
      CustomUserData: device.id,
    });
    if (made.ok) return { ok: true, text: elementOf(made.text, 'EndpointArn') ?? '' };
    const arn = existingEndpoint(made.message);
    if (arn === undefined) return made;
    const set = await ask({
      Action: 'SetEndpointAttributes',
      EndpointArn: arn,
      'Attributes.entry.1.key': 'Token',
      'Attributes.entry.1.value': device.token,
      'Attributes.entry.2.key': 'Enabled',
      'Attributes.entry.2.value': 'true',
    });
    return set.ok ? { ok: true, text: arn } : set;
  };

  const sendOne = async (note: PushNote, device: Device): Promise<DeviceResult> => {
    const endpoint = await endpointOf(device);
    // Nothing of the device: the application is not there, or not ours.
    if (!endpoint.ok)
      return {
        device: device.id,
        provider: name,
        outcome: 'refused',
        detail: words(`${endpoint.code} ${endpoint.message}`),
      };
    const published = await ask({
      Action: 'Publish',
      TargetArn: endpoint.text,
      MessageStructure: 'json',
      Message: messageOf(note, device),
    });
    return resultOf(published, device, endpoint.text);
  };

  return {
    name,
    send: (note, devices) =>
      inTurns(devices, { provider: name, atOnce, send: (device) => sendOne(note, device) }),
  };
}

function resultOf(answer: SnsAnswer, device: Device, endpointRef?: string): DeviceResult {
  const result = { device: device.id, provider: name, endpointRef };
  if (answer.ok)
    return { ...result, outcome: 'accepted', detail: elementOf(answer.text, 'MessageId') ?? '' };
  const detail = words(`${answer.code} ${answer.message}`);
  const dead = answer.code === 'EndpointDisabled' || answer.code === 'NotFound';
  return { ...result, outcome: dead ? 'dead' : 'refused', detail };
}

/** Each platform's own message as text inside of the JSON. */
function messageOf(note: PushNote, { environment }: Device): string {
  const { title, body, data = {}, silent, badge, sound, collapseKey } = note;
  const alert = { ...(title ? { title } : {}), ...(body ? { body } : {}) };
  const aps = {
    ...(silent ? { 'content-available': 1 } : { alert, sound: sound ?? 'default' }),
    ...(badge === undefined ? {} : { badge }),
  };
  const gcm = {
    ...(silent ? {} : { notification: alert }),
    data,
    ...(silent ? { priority: 'high' } : {}),
    ...(collapseKey === undefined ? {} : { collapse_key: collapseKey }),
  };
  return JSON.stringify({
    default: body || title || '',
    GCM: JSON.stringify(gcm),
    [environment === 'sandbox' ? 'APNS_SANDBOX' : 'APNS']: JSON.stringify({ ...data, aps }),
  });
}
