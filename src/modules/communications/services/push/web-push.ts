/**
 * Web Push: the message is encrypted for the browser (RFC 8291, aes128gcm of RFC 8188) and sent to its push service with
 * a signed statement of who we are (VAPID, RFC 8292).
 */
import { createCipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto';
import type { CommunicationsConfig } from '../../config.ts';
import type { WebKeys } from '../../push-queries.ts';
import type { PushNote } from '../content.ts';
import {
  type CallProvider,
  DeliveryError,
  type ProviderAnswer,
  retryAfterOf,
  words,
} from '../providers/outcome.ts';
import { type Device, type DeviceResult, inTurns, type PushProvider } from './provider.ts';

type Settings = CommunicationsConfig['pushNotifications']['webpush'];

const name = 'webpush';
/** Bytes of a record; one record is all that push services take. */
const recordSize = 4096;
/** Header, tag and delimiter go off the 4,096 bytes that every push service takes. */
const maxPlainBytes = recordSize - 86 - 17;
/** Seconds: four weeks is the most that push services keep a message. */
const usualTtl = 24 * 60 * 60;
const tokenSeconds = 12 * 60 * 60;
const atOnce = 10;

export function createWebPush(settings: () => Settings, call: CallProvider): PushProvider {
  const tokens = new Map<
    string,
    { readonly settings: Settings; readonly text: string; readonly until: number }
  >();

  const vapid = async (current: Settings, origin: string): Promise<string> => {
    const known = tokens.get(origin);
    if (known?.settings === current && known.until > Date.now()) return known.text;
    // There are few push services; whoever names others gets no place in memory for long.
    if (tokens.size > 100) tokens.clear();
    const text = await signVapid(current, origin);
    tokens.set(origin, { settings: current, text, until: Date.now() + (tokenSeconds / 2) * 1000 });
    return text;
  };

  const sendOne = async (note: PushNote, device: Device, body: Buffer): Promise<DeviceResult> => {
    const current = settings();
    const result = { device: device.id, provider: name };
    if (!device.webKeys)
      return { ...result, outcome: 'refused', detail: 'no keys of a subscription' };
    if (body.length > maxPlainBytes)
      return { ...result, outcome: 'refused', detail: `more than ${maxPlainBytes} bytes` };
    const answer = await call(device.token, {
      headers: {
        ttl: String(note.ttl ?? usualTtl),
        urgency: note.silent ? 'low' : 'normal',
        ...(note.collapseKey === undefined ? {} : { topic: topicOf(note.collapseKey) }),
        'content-encoding': 'aes128gcm',
        'content-type': 'application/octet-stream',
        authorization: `vapid t=${await vapid(current, new URL(device.token).origin)}, k=${current.publicKey}`,
      },
      body: encryptFor(device.webKeys, body),
    });
    return { ...result, ...outcomeOf(answer) };
  };

  return {
    name,
    async send(note, devices, messageId) {
      const body = payloadOf(note, messageId);
      return inTurns(devices, {
        provider: name,
        atOnce,
        send: (device) => sendOne(note, device, body),
      });
    },
  };
}

function outcomeOf(answer: ProviderAnswer) {
  const { status, ok, text } = answer;
  const detail = words(`${status} ${text}`);
  if (ok) return { outcome: 'accepted', detail } as const;
  if (status === 404 || status === 410) return { outcome: 'dead', detail } as const;
  if (status === 429 || status >= 500)
    return { outcome: 'later', detail, retryAfter: retryAfterOf(answer) } as const;
  // 401 and 403 are about this subscription and our key: a subscription made for another key stays useless.
  return { outcome: 'refused', detail } as const;
}

/** What the service worker gets: JSON, in the same form for all messages. */
function payloadOf(
  { title, body, data, silent, badge, image }: PushNote,
  messageId: string,
): Buffer {
  return Buffer.from(
    JSON.stringify({ messageId, title, body, data: data ?? {}, silent, badge, image }),
  );
}

/** Topics of push services are up to 32 characters of base64url. */
const topicOf = (collapseKey: string): string =>
  Buffer.from(collapseKey).toString('base64url').slice(0, 32);

async function signVapid(
  { publicKey, privateKey, subject }: Settings,
  origin: string,
): Promise<string> {
  const { importJWK, SignJWT } = await import('jose');
  const point = Buffer.from(publicKey, 'base64url');
  const jwk = {
    kty: 'EC',
    crv: 'P-256',
    x: point.subarray(1, 33).toString('base64url'),
    y: point.subarray(33, 65).toString('base64url'),
    d: privateKey,
  };
  const key = await importJWK(jwk, 'ES256').catch((cause: unknown) => {
    throw new DeliveryError('auth', name, `The VAPID keys cannot be read: ${words(String(cause))}`);
  });
  return new SignJWT({})
    .setProtectedHeader({ typ: 'JWT', alg: 'ES256' })
    .setAudience(origin)
    .setSubject(subject)
    .setExpirationTime(Math.floor(Date.now() / 1000) + tokenSeconds)
    .sign(key);
}

const derive = (secret: Buffer, salt: Buffer, info: Buffer, length: number): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, salt, info, length));

/** One record of aes128gcm. Throws when the keys of the subscription are no keys. */
function encryptFor({ p256dh, auth }: WebKeys, plain: Buffer): Buffer {
  const theirs = Buffer.from(p256dh, 'base64url');
  const own = createECDH('prime256v1');
  const ours = own.generateKeys();
  const shared = own.computeSecret(theirs);
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), theirs, ours]);
  const secret = derive(shared, Buffer.from(auth, 'base64url'), info, 32);
  const salt = randomBytes(16);
  const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const cipher = createCipheriv('aes-128-gcm', key, nonce);
  // 2: the last record.
  const body = Buffer.concat([
    cipher.update(Buffer.concat([plain, Buffer.from([2])])),
    cipher.final(),
  ]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(recordSize, 0);
  head.writeUInt8(ours.length, 4);
  return Buffer.concat([salt, head, ours, body, cipher.getAuthTag()]);
}

/** Whether these are the keys of a subscription: a point of P-256 and 16 bytes. */
export function areWebKeys({ p256dh, auth }: WebKeys): boolean {
  try {
    const probe = createECDH('prime256v1');
    probe.generateKeys();
    probe.computeSecret(Buffer.from(p256dh, 'base64url'));
    return Buffer.from(auth, 'base64url').length === 16;
  } catch {
    return false;
  }
}
