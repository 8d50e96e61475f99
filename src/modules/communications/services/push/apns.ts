/** Apple Push Notification service, over one HTTP/2 connection per host. */

import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { pemOf } from '../../config/leaves.ts';
import type { CommunicationsConfig } from '../../config.ts';
import type { PushNote } from '../content.ts';
import { baseOf, DeliveryError, textAt, words } from '../providers/outcome.ts';
import { type Device, type DeviceResult, inTurns, type PushProvider } from './provider.ts';

type Settings = CommunicationsConfig['pushNotifications']['apns'];

const name = 'apns';
const productionHost = 'https://api.push.apple.com';
const sandboxHost = 'https://api.sandbox.push.apple.com';
/** Apple wants a token to be used for 20 to 60 minutes. */
const tokenMs = 40 * 60_000;
const maxAnswerBytes = 10_000;
const atOnce = 20;
/** A connection that nobody uses is closed; it is opened again when needed. */
const idleMs = 60_000;

interface ApnsAnswer {
  readonly status: number;
  readonly reason: string;
  /** Since when the token is not valid, in ms. */
  readonly timestamp: number | undefined;
}

export function createApns(settings: () => Settings, timeoutMs: () => number): PushProvider {
  let token:
    | { readonly settings: Settings; readonly text: string; readonly madeAt: number }
    | undefined;
  const connections = createConnections();

  const bearer = async (current: Settings, fresh: boolean): Promise<string> => {
    if (!fresh && token?.settings === current && Date.now() - token.madeAt < tokenMs)
      return token.text;
    token = { settings: current, text: await signToken(current), madeAt: Date.now() };
    return token.text;
  };

  const sendOne = async (
    note: PushNote,
    device: Device,
    messageId: string,
  ): Promise<DeviceResult> => {
    const current = settings();
    const host = hostOf(current, device);
    const post = async (fresh: boolean): Promise<ApnsAnswer> => {
      const authorization = `bearer ${await bearer(current, fresh)}`;
      const session = connections.to(host);
      return postTo(session, {
        timeoutMs: timeoutMs(),
        path: `/3/device/${encodeURIComponent(device.token)}`,
        headers: { authorization, ...headersOf(note, current.bundleId, messageId) },
        body: payloadOf(note),
      }).catch((error: unknown) => {
        // A connection on which nothing comes back is not asked again.
        connections.leave(host, session);
        throw error;
      });
    };
    let answer = await post(false);
    // Once: a token that was made on another clock, or used too long.
    if (answer.status === 403 && answer.reason === 'ExpiredProviderToken')
      answer = await post(true);
    return resultOf(answer, device);
  };

  return {
    name,
    send: (note, devices, messageId) =>
      inTurns(devices, {
        provider: name,
        atOnce,
        send: (device) => sendOne(note, device, messageId),
      }),
    close: connections.close,
  };
}

async function signToken({ privateKey, keyId, teamId }: Settings): Promise<string> {
  const { importPKCS8, SignJWT } = await import('jose');
  const key = await importPKCS8(pemOf(privateKey), 'ES256').catch((cause: unknown) => {
    throw new DeliveryError(
      'auth',
      name,
      `The signing key cannot be read: ${words(String(cause))}`,
    );
  });
  return new SignJWT({})
    .setProtectedHeader({ alg: 'ES256', kid: keyId })
    .setIssuer(teamId)
    .setIssuedAt()
    .sign(key);
}

const hostOf = ({ endpoint, production }: Settings, { environment }: Device): string =>
  baseOf(
    endpoint,
    (environment ?? (production ? 'production' : 'sandbox')) === 'production'
      ? productionHost
      : sandboxHost,
  );

function headersOf(note: PushNote, bundleId: string, messageId: string): Record<string, string> {
  const { silent, collapseKey, ttl } = note;
  return {
    'apns-id': messageId,
    'apns-topic': bundleId,
    'apns-push-type': silent ? 'background' : 'alert',
    'apns-priority': silent ? '5' : '10',
    ...(ttl === undefined
      ? {}
      : { 'apns-expiration': String(ttl === 0 ? 0 : Math.floor(Date.now() / 1000) + ttl) }),
    ...(collapseKey === undefined ? {} : { 'apns-collapse-id': collapseKey }),
  };
}

function payloadOf({ title, body, data = {}, silent, badge, sound }: PushNote): string {
  const { aps: _reserved, ...own } = data;
  const alert = { ...(title ? { title } : {}), ...(body ? { body } : {}) };
  return JSON.stringify({
    ...own,
    aps: {
      ...(silent ? { 'content-available': 1 } : { alert, sound: sound ?? 'default' }),
      ...(badge === undefined ? {} : { badge }),
    },
  });
}

const deadReasons = new Set([
  'BadDeviceToken',
  'DeviceTokenNotForTopic',
  'Unregistered',
  'ExpiredToken',
]);
const accountReasons = new Set([
  'InvalidProviderToken',
  'MissingProviderToken',
  'ExpiredProviderToken',
  'TopicDisallowed',
]);

function resultOf({ status, reason, timestamp }: ApnsAnswer, device: Device): DeviceResult {
  const result = { device: device.id, provider: name, detail: words(`${status} ${reason}`) };
  if (status === 200) return { ...result, outcome: 'accepted' };
  if (status === 403 && accountReasons.has(reason))
    throw new DeliveryError('auth', name, result.detail);
  // A device that was registered since then is another one.
  const stale = timestamp === undefined || device.updatedAt.getTime() < timestamp;
  if (deadReasons.has(reason) && (status === 400 || stale)) return { ...result, outcome: 'dead' };
  if (status === 429 || status >= 500 || status === 0) return { ...result, outcome: 'later' };
  return { ...result, outcome: 'refused' };
}

interface Post {
  readonly timeoutMs: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function postTo(
  session: ClientHttp2Session,
  { timeoutMs, path, headers, body }: Post,
): Promise<ApnsAnswer> {
  return new Promise((resolve, reject) => {
    let isSent = !session.connecting;
    session.once('connect', () => {
      isSent = true;
    });
    const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
    const fail = (cause: unknown): void =>
      reject(
        new DeliveryError(
          isSent ? 'unknown' : 'transient',
          name,
          `No answer: ${words(String(cause))}`,
        ),
      );
    let status = 0;
    let text = '';
    stream.setEncoding('utf8');
    // Also while there is no connection yet, and while single bytes come.
    const timer = setTimeout(() => {
      fail('no answer in time');
      stream.close(constants.NGHTTP2_CANCEL);
    }, timeoutMs);
    stream.on('response', (answer) => {
      status = Number(answer[':status'] ?? 0);
    });
    stream.on('data', (chunk: string) => {
      if (text.length < maxAnswerBytes) text += chunk;
    });
    stream.on('error', fail);
    stream.on('close', () => {
      clearTimeout(timer);
      if (status === 0) fail('the connection broke');
      else resolve({ status, ...wordsOf(text) });
    });
    stream.end(body);
  });
}

function wordsOf(text: string): Pick<ApnsAnswer, 'reason' | 'timestamp'> {
  try {
    const body: unknown = text === '' ? {} : JSON.parse(text);
    const timestamp = Number(textAt(body, 'timestamp'));
    return {
      reason: textAt(body, 'reason') ?? '',
      timestamp: Number.isFinite(timestamp) ? timestamp : undefined,
    };
  } catch {
    return { reason: text, timestamp: undefined };
  }
}

/** One connection per host, kept while it is used. */
function createConnections() {
  const open = new Map<string, ClientHttp2Session>();
  return {
    to(host: string): ClientHttp2Session {
      const known = open.get(host);
      if (known && !known.closed && !known.destroyed) return known;
      const session = connect(host);
      session.on('error', () => open.delete(host));
      session.on('close', () => {
        if (open.get(host) === session) open.delete(host);
      });
      session.setTimeout(idleMs, () => session.close());
      session.unref();
      open.set(host, session);
      return session;
    },
    /** The next request gets another one; what still runs on this one may end. */
    leave(host: string, session: ClientHttp2Session): void {
      if (open.get(host) === session) open.delete(host);
      if (session.connecting) session.destroy();
      else session.close();
    },
    close(): void {
      for (const session of open.values()) session.destroy();
      open.clear();
    },
  };
}
