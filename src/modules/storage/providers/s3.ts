/** S3 and what speaks like it, Alibaba's OSS among them (specification storage.md 5.7). */
import { AwsV4Signer } from 'aws4fetch';
import {
  ProviderError,
  requirePlace,
  type SignedRequest,
  type StorageProvider,
  type TransportLimits,
} from './provider.ts';
import {
  answeredText,
  nodeOf,
  parseXml,
  StoreRefusal,
  succeeded,
  textIn,
} from './remote/answers.ts';
import { createTransport, type UnsignedRequest } from './remote/transport.ts';
import type { XmlStore } from './remote/xml-buckets.ts';
import { objectUrl, xmlCalls } from './remote/xml-store.ts';

export interface S3ProviderOptions {
  readonly name: 'aws' | 'aliyun';
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Address of another store than Amazon's, with its scheme. */
  readonly endpoint?: string | undefined;
  /** The bucket in the path instead of the host name. */
  readonly usePathStyle: boolean;
  /** How the store shall encrypt what it is given; as the bucket says where there is none. */
  readonly encryption?: { readonly algorithm: string; readonly keyId: string } | undefined;
  readonly limits?: TransportLimits;
}

const MAX_WHOLE_BYTES = 5 * 1024 ** 3;

type Credentials = Pick<S3ProviderOptions, 'region' | 'accessKeyId' | 'secretAccessKey'>;

/** Makes no call. @throws ProviderError REFUSED when the address is none */
export function createS3Provider(options: S3ProviderOptions): StorageProvider {
  const transport = createTransport(options.limits);
  const address = addressesOf(options);
  const store: XmlStore = {
    transport,
    address,
    sign: (request) => signHeaders(options, request),
    prefix: 'x-amz-',
    storing: encryptionHeaders(options),
    maxWholeBytes: MAX_WHOLE_BYTES,
    creation: { body: locationOf(options), headers: {} },
  };
  return {
    name: options.name,
    capabilities: { signedRequests: true, signedLength: true, minimumPartSize: 5 * 1024 * 1024 },
    ...xmlCalls(store),
    async signRead(place, { expiresInSeconds, disposition, contentType }) {
      requirePlace(place);
      const query = {
        ...(disposition !== undefined && { 'response-content-disposition': disposition }),
        ...(contentType !== undefined && { 'response-content-type': contentType }),
      };
      const url = objectUrl(store, { ...place, query });
      return signQuery(options, { method: 'GET', url, headers: {} }, expiresInSeconds);
    },
    async signWrite(place, { expiresInSeconds, contentType, size }) {
      requirePlace(place);
      const headers = {
        'content-type': contentType,
        ...(size !== undefined && { 'content-length': String(size) }),
        // What was looked at once it had come is not replaced behind that. Not all others know of it.
        ...(options.name === 'aws' && !options.endpoint && { 'if-none-match': '*' }),
        ...store.storing,
      };
      const url = objectUrl(store, place);
      return signQuery(options, { method: 'PUT', url, headers }, expiresInSeconds);
    },
    async probe() {
      try {
        const url = objectUrl(store, { query: { 'max-buckets': '1' } });
        const answer = await transport.send({ method: 'GET', url, sign: store.sign });
        (await succeeded(answer)).body.resume();
      } catch (error) {
        // Whoever may not list buckets is known all the same.
        if (!(error instanceof StoreRefusal && error.code === 'AccessDenied')) throw error;
      }
    },
    close: async () => transport.close(),
  };
}

const encryptionHeaders = ({
  encryption,
}: Pick<S3ProviderOptions, 'encryption'>): Record<string, string> => ({
  ...(encryption && { 'x-amz-server-side-encryption': encryption.algorithm }),
  ...(encryption?.keyId && { 'x-amz-server-side-encryption-aws-kms-key-id': encryption.keyId }),
});

function addressesOf({ name, endpoint, region, usePathStyle }: S3ProviderOptions) {
  const usual =
    name === 'aws' ? `https://s3.${region}.amazonaws.com` : `https://s3.oss-${region}.aliyuncs.com`;
  const text = endpoint || usual;
  const base = URL.canParse(text) ? new URL(text) : undefined;
  if (!base || !['http:', 'https:'].includes(base.protocol))
    throw new ProviderError('REFUSED', 'The endpoint is no http or https address');
  return (bucket?: string): URL => {
    const url = new URL(base);
    if (!url.pathname.endsWith('/')) url.pathname += '/';
    if (bucket === undefined) return url;
    if (usePathStyle) url.pathname += `${bucket}/`;
    else url.host = `${bucket}.${base.host}`;
    return url;
  };
}

/** The oldest region takes no name of its own. */
function locationOf({ name, region }: S3ProviderOptions): string {
  if (name !== 'aws' || region === '' || region === 'us-east-1') return '';
  return `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`;
}

/** The body is protected by the connection; it flows, so it cannot be hashed before it is sent. */
async function signHeaders(
  { accessKeyId, secretAccessKey, region }: Credentials,
  { method, url, headers }: UnsignedRequest,
): Promise<Readonly<Record<string, string>>> {
  const signer = new AwsV4Signer({
    method,
    url: url.href,
    headers: { ...headers },
    accessKeyId,
    secretAccessKey,
    region: region || 'us-east-1',
    service: 's3',
  });
  return Object.fromEntries((await signer.sign()).headers);
}

async function signQuery(
  { accessKeyId, secretAccessKey, region }: Credentials,
  { method, url, headers }: UnsignedRequest & { readonly method: 'GET' | 'PUT' },
  expiresInSeconds: number,
): Promise<SignedRequest> {
  url.searchParams.set('X-Amz-Expires', String(expiresInSeconds));
  const now = new Date(Math.floor(Date.now() / 1000) * 1000);
  const signer = new AwsV4Signer({
    method,
    url: url.href,
    headers: { ...headers },
    accessKeyId,
    secretAccessKey,
    region: region || 'us-east-1',
    service: 's3',
    signQuery: true,
    // Type and length too: whoever sends something else is refused.
    allHeaders: true,
    datetime: now.toISOString().replace(/[:-]|\.\d{3}/g, ''),
  });
  const signed = await signer.sign();
  return {
    url: signed.url.href.replaceAll('+', '%20'),
    method,
    headers,
    expiresAt: new Date(now.getTime() + expiresInSeconds * 1000),
  };
}

/** Number of the account behind the credentials, for names of buckets; undefined where nobody tells (other stores than Amazon's). */
export async function readAccountId(options: S3ProviderOptions): Promise<string | undefined> {
  if (options.name !== 'aws' || options.endpoint) return undefined;
  const transport = createTransport(options.limits);
  try {
    const url = new URL(`https://sts.${options.region}.amazonaws.com/`);
    url.search = 'Action=GetCallerIdentity&Version=2011-06-15';
    const signer = new AwsV4Signer({
      method: 'GET',
      url: url.href,
      ...credentialsOf(options),
      service: 'sts',
    });
    const headers = Object.fromEntries((await signer.sign()).headers);
    const text = await answeredText(await transport.send({ method: 'GET', url, headers }));
    const result = nodeOf(nodeOf(parseXml(text).GetCallerIdentityResponse).GetCallerIdentityResult);
    return textIn(result.Account) || undefined;
  } finally {
    transport.close();
  }
}

const credentialsOf = ({ accessKeyId, secretAccessKey, region }: Credentials): Credentials => ({
  accessKeyId,
  secretAccessKey,
  region,
});
