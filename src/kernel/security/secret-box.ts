import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { StringDecoder } from 'node:string_decoder';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { StartError } from '../start-error.ts';
import { createTimeSlices } from '../time-slices.ts';

/* Authenticated encryption of short texts: AES-256-GCM with a random nonce, in one printable string. */

const ALGORITHM = 'aes-256-gcm';
/** Bytes, as NIST SP 800-38D recommends for GCM. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Names the format, so that a later one can stand beside it. */
const PREFIX = 'v1.';

/** Encrypts; `context` is authenticated with the text and must be the same to decrypt. */
function encrypt(key: KeyObject, plain: Buffer, context: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(context, 'utf8'),
  );
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return PREFIX + Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url');
}

/** Decrypts what `encrypt` made. Throws on another key, another context, or a changed text. */
function decrypt(key: KeyObject, sealed: string, context: string): Buffer {
  if (!sealed.startsWith(PREFIX)) throw new Error('This is not a sealed text of a known format');
  const bytes = Buffer.from(sealed.slice(PREFIX.length), 'base64url');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('This sealed text is too short');
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
    .setAAD(Buffer.from(context, 'utf8'))
    .setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([
    decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)),
    decipher.final(),
  ]);
}

/* The same of what may be megabytes: in slices of time, and never twice as one text. */

/** Characters that are looked at in one step; a multiple of four, as base64 wants it. */
const STEP = 192 * 1024;

/** Parts of a text, none of which ends within a character. */
function* stepsOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const last = text.charCodeAt(at + STEP - 1);
    const end = at + STEP + (last >= 0xd800 && last < 0xdc00 ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}

/** What `encrypt` makes of the pieces together, as the bytes of its text. */
async function encryptInSlices(
  key: KeyObject,
  pieces: readonly string[],
  context: string,
): Promise<Buffer> {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(context, 'utf8'),
  );
  const pause = createTimeSlices();
  const body: Buffer[] = [];
  for (const piece of pieces)
    for (const step of stepsOf(piece)) {
      body.push(cipher.update(step, 'utf8'));
      await pause();
    }
  body.push(cipher.final());
  return printedInSlices([nonce, cipher.getAuthTag(), ...body]);
}

async function printedInSlices(parts: readonly Buffer[]): Promise<Buffer> {
  const size = parts.reduce((sum, { length }) => sum + length, 0);
  const printed = Buffer.allocUnsafe(PREFIX.length + Math.ceil((size * 4) / 3));
  const pause = createTimeSlices();
  let at = printed.write(PREFIX, 'latin1');
  let left: Buffer = Buffer.alloc(0);
  for (const part of parts) {
    const bytes = left.length === 0 ? part : Buffer.concat([left, part]);
    const whole = bytes.length - (bytes.length % 3);
    at += printed.write(bytes.toString('base64url', 0, whole), at, 'latin1');
    left = bytes.subarray(whole);
    await pause();
  }
  printed.write(left.toString('base64url'), at, 'latin1');
  return printed;
}

/** Throws what `decrypt` throws, before anything of the text is known. */
async function decryptInSlices(key: KeyObject, sealed: string, context: string): Promise<string> {
  // What stands in the first step decides how the others are read.
  if (sealed.length <= STEP) return decrypt(key, sealed, context).toString('utf8');
  if (!sealed.startsWith(PREFIX)) throw new Error('This is not a sealed text of a known format');
  const pause = createTimeSlices();
  const bytesAt = (at: number): Buffer => Buffer.from(sealed.slice(at, at + STEP), 'base64url');
  const first = bytesAt(PREFIX.length);
  const decipher = createDecipheriv(ALGORITHM, key, first.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
    .setAAD(Buffer.from(context, 'utf8'))
    .setAuthTag(first.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const decoder = new StringDecoder('utf8');
  const texts = [decoder.write(decipher.update(first.subarray(NONCE_BYTES + TAG_BYTES)))];
  for (let at = PREFIX.length + STEP; at < sealed.length; at += STEP) {
    texts.push(decoder.write(decipher.update(bytesAt(at))));
    await pause();
  }
  decipher.final();
  return texts.join('') + decoder.end();
}

/** Encryption at rest for small secrets (configuration leaves, TOTP seeds, signing keys). */
export interface SecretBox {
  /** AES-256-GCM under the platform's data key; `context` is bound to the text and must be the same to open it. */
  seal(plain: string, context: string): string;
  open(sealed: string, context: string): string;
  /** `seal` of the pieces together, for what is large: the bytes of the sealed text. No piece ends within a character. */
  sealInSlices(pieces: readonly string[], context: string): Promise<Buffer>;
  /** `open` for what may be large. */
  openInSlices(sealed: string, context: string): Promise<string>;
  /** Keyed digest for looking up high-entropy tokens without storing them. Hex. */
  digest(token: string, purpose: string): string;
}

/*
 * Opens the secret box: one random data key per installation, kept in
 * `penstock.keyring` wrapped by a key derived from the environment. Changing the
 * environment's key re-wraps 32 bytes and touches no sealed text.
 */

interface SecretBoxKeys {
  /** `MASTER_KEY`: wraps the data key while `configEncryptionKey` is not set. */
  readonly masterKey: string;
  /** `MASTER_KEY_PREVIOUS`: opens what the earlier master key wrapped, once. */
  readonly masterKeyPrevious?: string | undefined;
  /** `CONFIG_ENCRYPTION_KEY`: wraps the data key, so that the master key can change freely. */
  readonly configEncryptionKey?: string | undefined;
}

const DATA_KEY_BYTES = 32;
const DATA_KEY_ID = 'data';
const WRAP_CONTEXT = 'penstock/keyring/data';

/**
 * Reads (at the first start: makes) the data key and answers the box. Safe when several nodes start
 * for the first time at once. Throws `StartError` when no given key opens what is stored.
 */
export async function openSecretBox(database: Database, keys: SecretBoxKeys): Promise<SecretBox> {
  const [current, ...earlier] = wrappingKeys(keys);
  if (!current)
    throw new StartError('MASTER_KEY is missing: set it, or let the data folder keep one');
  const wrapped = (await readWrapped(database)) ?? (await createWrapped(database, current));
  const dataKey = tryUnwrap(wrapped, current);
  if (dataKey) return boxOf(dataKey);
  for (const key of earlier) {
    const found = tryUnwrap(wrapped, key);
    if (!found) continue;
    await rewrap(database, wrapped, wrap(found, current));
    return boxOf(found);
  }
  throw new StartError(wrongKeyMessage(keys));
}

/** Whether one of the keys opens a stored data key: a restored installation needs the key of the one that was backed up. */
export const opensDataKey = (wrapped: string, keys: Partial<SecretBoxKeys>): boolean =>
  unwrapWith(wrapped, keys) !== undefined;

/** A signature (HMAC-SHA256, hex) that only the installation of a stored data key can make; nothing when no key opens it. */
export function signWithDataKey(
  wrapped: string,
  keys: Partial<SecretBoxKeys>,
  { text, purpose }: { readonly text: string; readonly purpose: string },
): string | undefined {
  const dataKey = unwrapWith(wrapped, keys);
  if (!dataKey) return undefined;
  const key = derive(dataKey, `penstock/sign/${purpose}`);
  return createHmac('sha256', key).update(text).digest('hex');
}

function unwrapWith(wrapped: string, keys: Partial<SecretBoxKeys>): Buffer | undefined {
  for (const key of wrappingKeys(keys)) {
    const dataKey = tryUnwrap(wrapped, key);
    if (dataKey) return dataKey;
  }
  return undefined;
}

/** The wrapping key in force first, then those that may have wrapped before. */
function wrappingKeys(keys: Partial<SecretBoxKeys>): readonly KeyObject[] {
  const texts = [keys.configEncryptionKey, keys.masterKey, keys.masterKeyPrevious].filter(
    (text) => text !== undefined && text !== '',
  );
  return texts.map((text) => derive(text ?? '', 'penstock/keyring/wrapping-key'));
}

function wrongKeyMessage({ configEncryptionKey }: SecretBoxKeys): string {
  const name = configEncryptionKey ? 'CONFIG_ENCRYPTION_KEY' : 'MASTER_KEY';
  return (
    `The secrets in the database were sealed with another key: give ${name} the value that the other nodes and earlier starts of ` +
    'this installation use; if MASTER_KEY was changed on purpose, start once with the earlier value in MASTER_KEY_PREVIOUS'
  );
}

/** As an object, which is made once: from bytes, Node makes one again at each use, which costs more than the use itself. */
const derive = (secret: string | Buffer, purpose: string): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', secret, 'penstock', purpose, 32)));

const wrap = (dataKey: Buffer, key: KeyObject): string => encrypt(key, dataKey, WRAP_CONTEXT);

function tryUnwrap(wrapped: string, key: KeyObject): Buffer | undefined {
  try {
    return decrypt(key, wrapped, WRAP_CONTEXT);
  } catch {
    return undefined;
  }
}

async function readWrapped(database: Database): Promise<string | undefined> {
  const { rows } = await database.query<{ wrapped: string }>(
    sql`select wrapped from penstock.keyring where id = ${DATA_KEY_ID}`,
  );
  return rows[0]?.wrapped;
}

/** Whoever inserts first decides; everybody reads the one row that won. */
async function createWrapped(database: Database, key: KeyObject): Promise<string> {
  const mine = wrap(randomBytes(DATA_KEY_BYTES), key);
  await database.query(
    sql`insert into penstock.keyring (id, wrapped) values (${DATA_KEY_ID}, ${mine}) on conflict (id) do nothing`,
  );
  const stored = await readWrapped(database);
  if (stored === undefined) throw new Error('The key ring could not be written');
  return stored;
}

/** Only replaces what was read: of two nodes that re-wrap at once, either result opens. */
async function rewrap(database: Database, before: string, after: string): Promise<void> {
  await database.query(
    sql`update penstock.keyring set wrapped = ${after}, rewrapped_at = now() where id = ${DATA_KEY_ID} and wrapped = ${before}`,
  );
}

function boxOf(dataKey: Buffer): SecretBox {
  const sealKey = derive(dataKey, 'penstock/seal');
  const digestKey = derive(dataKey, 'penstock/digest');
  return {
    seal: (plain, context) => encrypt(sealKey, Buffer.from(plain, 'utf8'), context),
    open: (sealed, context) => decrypt(sealKey, sealed, context).toString('utf8'),
    sealInSlices: (pieces, context) => encryptInSlices(sealKey, pieces, context),
    openInSlices: (sealed, context) => decryptInSlices(sealKey, sealed, context),
    digest: (token, purpose) =>
      createHmac('sha256', digestKey).update(`${purpose}\0${token}`).digest('hex'),
  };
}
