/** Firebase Cloud Messaging, HTTP v1. */

import { randomUUID } from 'node:crypto';
import { pemOf } from '../../config/leaves.ts';
import type { CommunicationsConfig } from '../../config.ts';
import type { PushNote } from '../content.ts';
import {
  baseOf,
  type CallProvider,
  DeliveryError,
  listAt,
  type ProviderAnswer,
  refuseCommon,
  retryAfterOf,
  textAt,
  withoutId,
  words,
} from '../providers/outcome.ts';
import { type Device, type DeviceResult, inTurns, type PushProvider } from './provider.ts';

type Settings = CommunicationsConfig['pushNotifications']['firebase'];

const name = 'firebase';
const scope = 'https://www.googleapis.com/auth/firebase.messaging';
/** Seconds before its end at which an access token is renewed. */
const earlySeconds = 300;
const atOnce = 10;

interface AccessToken {
  readonly settings: Settings;
  readonly text: string;
  readonly until: number;
}

export function createFcm(settings: () => Settings, call: CallProvider): PushProvider {
  let known: AccessToken | undefined;

  const knownFor = (current: Settings): string | undefined =>
    known?.settings === current && known.until > Date.now() ? known.text : undefined;
  const newToken = async (current: Settings): Promise<string> => {
    known = await askForToken(current, call);
    return known.text;
  };

  return {
    name,
    async send(note, devices) {
      const current = settings();
      const before = knownFor(current);
      const bearer = before ?? (await newToken(current));
      const url = `${baseOf(current.endpoint, 'https://fcm.googleapis.com')}/v1/projects/${encodeURIComponent(current.projectId)}/messages:send`;
      const send = (device: Device) =>
        sendOne({ note, device, url, bearer, call }).catch((error: unknown) => {
          if (before === undefined || !(error instanceof DeliveryError) || error.kind !== 'auth')
            throw error;
          // A token from before may have been revoked: the next attempt gets one of its own.
          known = undefined;
          throw new DeliveryError('transient', name, error.message);
        });
      return inTurns(devices, { provider: name, atOnce, send });
    },
  };
}

async function askForToken(settings: Settings, call: CallProvider): Promise<AccessToken> {
  // Loaded when the first message is sent.
  const { importPKCS8, SignJWT } = await import('jose');
  const key = await importPKCS8(pemOf(settings.privateKey), 'RS256').catch((cause: unknown) => {
    throw new DeliveryError(
      'auth',
      name,
      `The private key cannot be read: ${words(String(cause))}`,
    );
  });
  const assertion = await new SignJWT({ scope })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(settings.clientEmail)
    .setAudience(settings.tokenEndpoint)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(key);
  const answer = await call(settings.tokenEndpoint, {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion,
    }).toString(),
  });
  const body = answer.json();
  const text = textAt(body, 'access_token');
  if (text === undefined) {
    // Not the text of a yes: it may hold another token.
    const other = answer.ok ? 'no access token in the answer' : answer.text;
    const said = textAt(body, 'error_description') ?? textAt(body, 'error') ?? other;
    refuseCommon(name, answer, said);
    throw new DeliveryError(
      answer.ok ? 'transient' : 'auth',
      name,
      words(`${answer.status} ${said}`),
    );
  }
  const seconds = Number(textAt(body, 'expires_in') ?? 3600);
  return { settings, text, until: Date.now() + Math.max(seconds - earlySeconds, 1) * 1000 };
}

interface OneSend {
  readonly note: PushNote;
  readonly device: Device;
  readonly url: string;
  readonly bearer: string;
  readonly call: CallProvider;
}

async function sendOne({ note, device, url, bearer, call }: OneSend): Promise<DeviceResult> {
  const result = { device: device.id, provider: name };
  const answer = await call(url, {
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify({ message: messageOf(note, device) }),
  });
  if (!answer.ok) return { ...result, ...refusalOf(answer) };
  const detail = textAt(answer.json(), 'name');
  if (detail === undefined) throw withoutId(name, answer);
  return { ...result, outcome: 'accepted', detail };
}

/** `error.details[].errorCode` decides; HTTP statuses are shared by several causes. */
function refusalOf(answer: ProviderAnswer): {
  readonly outcome: 'dead' | 'refused' | 'later';
  readonly detail: string;
  readonly retryAfter?: number | undefined;
  readonly refusesKey?: boolean;
} {
  const error = answer.json().error;
  const details = listAt(error, 'details');
  const code =
    details.map((detail) => textAt(detail, 'errorCode')).find((one) => one !== undefined) ??
    textAt(error, 'status') ??
    '';
  const detail = words(`${answer.status} ${code} ${textAt(error, 'message') ?? answer.text}`);
  const names = details.flatMap((one) =>
    listAt(one, 'fieldViolations').map((violation) => textAt(violation, 'field')),
  );
  if (code === 'UNREGISTERED' || code === 'SENDER_ID_MISMATCH') return { outcome: 'dead', detail };
  if (code === 'INVALID_ARGUMENT')
    return { outcome: names.includes('message.token') ? 'dead' : 'refused', detail };
  if (code === 'QUOTA_EXCEEDED' || code === 'UNAVAILABLE' || code === 'INTERNAL')
    return { outcome: 'later', detail, retryAfter: retryAfterOf(answer) };
  if (code !== 'THIRD_PARTY_AUTH_ERROR') refuseCommon(name, answer, detail);
  // The key that Firebase holds for Apple or the browser is not in order: not the problem of the device.
  if (code === 'THIRD_PARTY_AUTH_ERROR') return { outcome: 'later', detail, refusesKey: true };
  return { outcome: 'refused', detail };
}

/** A visible message carries a notification and data; a silent one only data, and wakes the app. */
function messageOf(note: PushNote, { token }: Device): object {
  const { title, body, data = {}, silent, badge, sound, image, collapseKey, ttl } = note;
  const visible = {
    ...(title ? { title } : {}),
    ...(body ? { body } : {}),
    ...(image ? { image } : {}),
  };
  const lifetime = ttl === undefined ? {} : { ttl: `${ttl}s` };
  const collapse = collapseKey === undefined ? {} : { collapse_key: collapseKey };
  return {
    token,
    data,
    ...(silent ? {} : { notification: visible }),
    android: {
      priority: silent || !note.collapseKey ? 'high' : 'normal',
      ...lifetime,
      ...collapse,
    },
    apns: {
      headers: {
        'apns-push-type': silent ? 'background' : 'alert',
        'apns-priority': silent ? '5' : '10',
        ...(collapseKey === undefined ? {} : { 'apns-collapse-id': collapseKey }),
      },
      payload: {
        aps: {
          ...(silent ? { 'content-available': 1 } : { sound: sound ?? 'default' }),
          ...(badge === undefined ? {} : { badge }),
        },
      },
    },
    ...(ttl === undefined ? {} : { webpush: { headers: { TTL: String(ttl) } } }),
  };
}
