/** OneSignal: one request for up to 2,000 devices. */
import type { CommunicationsConfig } from '../../config.ts';
import type { PushNote } from '../content.ts';
import {
  baseOf,
  type CallProvider,
  listAt,
  type ProviderAnswer,
  refuseCommon,
  textAt,
  withoutId,
  words,
} from '../providers/outcome.ts';
import type { Device, DeviceResult, PushProvider } from './provider.ts';

type Settings = CommunicationsConfig['pushNotifications']['onesignal'];

const name = 'onesignal';
const batch = 2000;

export function createOneSignal(settings: () => Settings, call: CallProvider): PushProvider {
  return {
    name,
    async send(note, devices, messageId) {
      const { appId, apiKey, endpoint } = settings();
      const results: DeviceResult[] = [];
      for (let from = 0; from < devices.length; from += batch) {
        const some = devices.slice(from, from + batch);
        const answer = await call(
          `${baseOf(endpoint, 'https://api.onesignal.com')}/notifications?c=push`,
          {
            headers: { authorization: `Key ${apiKey}`, 'content-type': 'application/json' },
            body: JSON.stringify({
              app_id: appId,
              target_channel: 'push',
              include_subscription_ids: some.map(({ token }) => token),
              // The same at every attempt: OneSignal sends it once.
              idempotency_key: messageId,
              ...contentOf(note),
            }),
          },
        );
        results.push(...resultsOf(answer, some));
      }
      return results;
    },
  };
}

function contentOf({
  title,
  body,
  data,
  silent,
  badge,
  image,
  collapseKey,
  ttl,
}: PushNote): object {
  return {
    ...(silent
      ? { content_available: true }
      : {
          ...(title ? { headings: { en: title } } : {}),
          contents: { en: body || title || '' },
          ...(image ? { big_picture: image, chrome_web_image: image } : {}),
        }),
    ...(data ? { data } : {}),
    ...(badge === undefined ? {} : { ios_badgeType: 'SetTo', ios_badgeCount: badge }),
    ...(collapseKey === undefined ? {} : { collapse_id: collapseKey }),
    ...(ttl === undefined ? {} : { ttl }),
  };
}

/** An empty id means that nothing was sent, although the status is 200. */
function resultsOf(answer: ProviderAnswer, devices: readonly Device[]): DeviceResult[] {
  const body = answer.json();
  const said = words(`${answer.status} ${JSON.stringify(body.errors ?? body)}`);
  if (!answer.ok) refuseCommon(name, answer, said);
  const invalid = new Set([
    ...listAt(body.errors, 'invalid_player_ids'),
    ...listAt(body.errors, 'invalid_subscription_ids'),
  ]);
  const id = textAt(body, 'id') ?? '';
  // The key of the request keeps a further attempt from doubling it.
  if (answer.ok && id === '' && !Object.hasOwn(body, 'id') && !Object.hasOwn(body, 'errors'))
    throw withoutId(name, answer);
  return devices.map((device) => {
    const result = { device: device.id, provider: name };
    if (invalid.has(device.token)) return { ...result, outcome: 'dead', detail: said };
    return answer.ok && id !== ''
      ? { ...result, outcome: 'accepted', detail: id }
      : { ...result, outcome: 'refused', detail: said };
  });
}
