/** Google Cloud Storage by its XML interface, with the key of a service account (specification storage.md 5.7). */
import { createHash, createSign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { importPKCS8, SignJWT } from 'jose';
import {
  type ObjectPlace,
  ProviderError,
  requirePlace,
  type SignedRequest,
  type StorageProvider,
  type TransportLimits,
} from './provider.ts';
import { StoreRefusal, succeeded } from './remote/answers.ts';
import { createTransport, type Transport, textOf } from './remote/transport.ts';
import type { XmlStore } from './remote/xml-buckets.ts';
import { encodePart, objectUrl, xmlCalls } from './remote/xml-store.ts';

export interface GoogleProviderOptions {
  /** The key itself, as JSON; else the path of its file. */
  readonly serviceAccountKeyJson?: string | undefined;
  readonly serviceAccountKeyPath?: string | undefined;
  /** Another address than Google's, with its scheme. */
  readonly endpoint?: string | undefined;
  /** Name of a key of the key service that the store shall encrypt with. */
  readonly encryptionKey?: string | undefined;
  readonly limits?: TransportLimits;
}

interface ServiceAccount {
  readonly email: string;
  readonly privateKey: string;
  readonly project: string;
  readonly tokenUri: string;
}

const TOKEN_SCOPE = 'https://www.googleapis.com/auth/devstorage.full_control';
/** An object of the largest size goes up, and is copied, by one request. */
const MAX_OBJECT_BYTES = 5 * 1024 ** 4;

/** Reads the key and makes no call. @throws ProviderError REFUSED when the key is none */
export async function createGoogleProvider(
  options: GoogleProviderOptions,
): Promise<StorageProvider> {
  const account = await readAccount(options);
  const transport = createTransport(options.limits);
  const token = tokenSource(account, transport);
  const base = new URL(options.endpoint || 'https://storage.googleapis.com');
  const store: XmlStore = {
    transport,
    address: (bucket) => new URL(bucket === undefined ? '/' : `/${bucket}/`, base),
    sign: async () => ({ authorization: `Bearer ${await token()}` }),
    prefix: 'x-goog-',
    storing: encryptionHeaders(options),
    creation: { body: '', headers: { 'x-goog-project-id': account.project } },
    maxWholeBytes: MAX_OBJECT_BYTES,
  };
  return {
    name: 'google',
    capabilities: { signedRequests: true, signedLength: true, minimumPartSize: 5 * 1024 * 1024 },
    ...xmlCalls(store),
    async signRead(place, { expiresInSeconds, disposition, contentType }) {
      const query = {
        ...(disposition !== undefined && { 'response-content-disposition': disposition }),
        ...(contentType !== undefined && { 'response-content-type': contentType }),
      };
      const call = { method: 'GET', place, query, headers: {}, expiresInSeconds } as const;
      return signUrl(store, account, call);
    },
    async signWrite(place, { expiresInSeconds, contentType, size }) {
      const headers = {
        'content-type': contentType,
        // What was looked at once it had come is not replaced behind that.
        'x-goog-if-generation-match': '0',
        ...(size !== undefined && { 'x-goog-content-length-range': `${size},${size}` }),
        ...store.storing,
      };
      const call = { method: 'PUT', place, query: {}, headers, expiresInSeconds } as const;
      return signUrl(store, account, call);
    },
    async probe() {
      try {
        const headers = { 'x-goog-project-id': account.project };
        const url = objectUrl(store, {});
        const answer = await transport.send({ method: 'GET', url, headers, sign: store.sign });
        (await succeeded(answer)).body.resume();
      } catch (error) {
        // Whoever may not list buckets is known all the same.
        if (!(error instanceof StoreRefusal && error.status === 403)) throw error;
      }
    },
    close: async () => transport.close(),
  };
}

const encryptionHeaders = ({
  encryptionKey: key,
}: GoogleProviderOptions): Record<string, string> =>
  key ? { 'x-goog-encryption-kms-key-name': key } : {};

async function readAccount(options: GoogleProviderOptions): Promise<ServiceAccount> {
  const { serviceAccountKeyJson: json, serviceAccountKeyPath: path } = options;
  try {
    const parsed: unknown = JSON.parse(json || (await readFile(path ?? '', 'utf8')));
    const field = (name: string): string => {
      const value = (parsed as Readonly<Record<string, unknown>>)[name];
      if (typeof value !== 'string' || value === '') throw new Error(`"${name}" is missing`);
      return value;
    };
    const privateKey = field('private_key');
    await importPKCS8(privateKey, 'RS256');
    return {
      email: field('client_email'),
      privateKey,
      project: field('project_id'),
      tokenUri: field('token_uri'),
    };
  } catch (cause) {
    throw new ProviderError('REFUSED', 'The service account key cannot be read', { cause });
  }
}

/** One token for all calls, renewed a minute before it ends. */
function tokenSource(account: ServiceAccount, transport: Transport): () => Promise<string> {
  let current: Promise<{ token: string; until: number }> | undefined;
  return async () => {
    const held = await current?.catch(() => undefined);
    if (held && Date.now() < held.until) return held.token;
    const asked = requestToken(account, transport);
    current = asked;
    return (await asked).token;
  };
}

async function requestToken({ email, privateKey, tokenUri }: ServiceAccount, transport: Transport) {
  const assertion = await new SignJWT({ scope: TOKEN_SCOPE })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(email)
    .setAudience(tokenUri)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(await importPKCS8(privateKey, 'RS256'));
  const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const form = new URLSearchParams({ grant_type: grant, assertion });
  const answer = await transport.send({
    method: 'POST',
    url: new URL(tokenUri),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: { bytes: Buffer.from(form.toString()) },
  });
  const text = await textOf(await succeeded(answer));
  const { access_token: token, expires_in: seconds } = JSON.parse(text) as {
    access_token: string;
    expires_in: number;
  };
  return { token, until: Date.now() + (seconds - 60) * 1000 };
}

interface Signing {
  readonly method: 'GET' | 'PUT';
  readonly place: ObjectPlace;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresInSeconds: number;
}

/** https://docs.cloud.google.com/storage/docs/access-control/signing-urls-manually (V4) */
function signUrl(
  store: XmlStore,
  { email, privateKey }: ServiceAccount,
  { method, place, query, headers, expiresInSeconds }: Signing,
): SignedRequest {
  requirePlace(place);
  const now = new Date(Math.floor(Date.now() / 1000) * 1000);
  const time = now.toISOString().replace(/[:-]|\.\d{3}/g, '');
  const scope = `${time.slice(0, 8)}/auto/storage/goog4_request`;
  const plain = objectUrl(store, place);
  const signed = Object.entries({ ...headers, host: plain.host }).sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const names = signed.map(([name]) => name).join(';');
  const parameters = Object.entries({
    ...query,
    'X-Goog-Algorithm': 'GOOG4-RSA-SHA256',
    'X-Goog-Credential': `${email}/${scope}`,
    'X-Goog-Date': time,
    'X-Goog-Expires': String(expiresInSeconds),
    'X-Goog-SignedHeaders': names,
  });
  const search = parameters
    .map((pair) => pair.map(encodePart).join('='))
    .sort()
    .join('&');
  const lines = signed.map(([name, value]) => `${name}:${value.trim()}`);
  const canonical = [method, plain.pathname, search, ...lines, '', names, 'UNSIGNED-PAYLOAD'].join(
    '\n',
  );
  const text = ['GOOG4-RSA-SHA256', time, scope, hashOf(canonical)].join('\n');
  const signature = createSign('RSA-SHA256').update(text).sign(privateKey, 'hex');
  return {
    url: `${plain.origin}${plain.pathname}?${search}&X-Goog-Signature=${signature}`,
    method,
    headers,
    expiresAt: new Date(now.getTime() + expiresInSeconds * 1000),
  };
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');
