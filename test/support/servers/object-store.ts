/**
 * An object store in this process that speaks S3's XML, under Amazon's names or Google's, and is as strict as they
 * are: it works every signature out by itself, keeps uploads to their objects, and forgets what did not come whole.
 */
import { createHash, createHmac, createVerify, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { importSPKI, jwtVerify } from 'jose';

interface Stored {
  readonly data: Buffer;
  readonly type: string;
  readonly etag: string;
  readonly modified: Date;
}

interface Upload {
  readonly place: string;
  readonly type: string;
  readonly parts: Map<number, Stored>;
}

interface Asked {
  readonly method: string;
  readonly bucket: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
  }
}

export interface ObjectStore {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
  /** Requests that came, `PUT /bucket/key`. */
  readonly seen: readonly string[];
  /** Keys of the objects of all buckets. */
  keys(): readonly string[];
  close(): Promise<void>;
}

type Check = (asked: Asked, path: string) => Promise<void> | void;

export const testAccess = { accessKeyId: 'TESTKEY', secretAccessKey: 'test/secret+key' };

/** Knows one account; everything else is 403. */
export const startS3Store = (): Promise<ObjectStore> =>
  start('x-amz-', (asked, path) => requireSignature(asked, path, amazon));

export interface GoogleStore extends ObjectStore {
  /** The file that an operator downloads. */
  readonly serviceAccount: Readonly<Record<string, string>>;
}

export async function startGoogleStore(): Promise<GoogleStore> {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const email = 'storage@test-project.iam.gserviceaccount.com';
  const tokens = new Set<string>();
  const issue = async (request: IncomingMessage): Promise<unknown> => {
    const form = new URLSearchParams((await buffer(request)).toString());
    const key = await importSPKI(publicKey, 'RS256');
    const audience = `http://${request.headers.host}/token`;
    const { payload } = await jwtVerify(form.get('assertion') ?? '', key, {
      issuer: email,
      audience,
    }).catch(() => {
      throw new Refusal(400, 'invalid_grant');
    });
    if (!String(payload.scope).includes('devstorage')) throw new Refusal(403, 'no scope');
    const token = randomUUID();
    tokens.add(token);
    return { access_token: token, expires_in: 3600, token_type: 'Bearer' };
  };
  const google: Scheme = {
    prefix: 'X-Goog-',
    credential: email,
    isValid: (text, signature) =>
      createVerify('RSA-SHA256').update(text).verify(publicKey, signature, 'hex'),
  };
  const store = await start(
    'x-goog-',
    (asked, path) => {
      const bearer = asked.request.headers.authorization?.replace(/^Bearer /, '');
      if (bearer === undefined) return requireSignature(asked, path, google);
      if (!tokens.has(bearer)) throw new Refusal(401, 'AuthenticationRequired');
    },
    issue,
  );
  const serviceAccount = {
    type: 'service_account',
    project_id: 'test-project',
    client_email: email,
    private_key: privateKey,
    token_uri: `${store.endpoint}/token`,
  };
  return { ...store, serviceAccount };
}

/** A store that takes nobody's credentials any more, and says more of it than clients may hear. */
export async function startRefusingStore() {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(403, { 'content-type': 'application/xml' });
    response.end('<Error><Code>AccessDenied</Code><Message>Key of 127.0.0.1</Message></Error>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function start(
  prefix: string,
  check: Check,
  issue?: (request: IncomingMessage) => Promise<unknown>,
): Promise<ObjectStore> {
  const buckets: Buckets = new Map();
  const calls = createCalls(prefix, buckets);
  const seen: string[] = [];
  const server = createServer(async (request, response) => {
    try {
      const [path = '/', search = ''] = (request.url ?? '/').split('?');
      seen.push(`${request.method} ${path}`);
      if (issue && path === '/token')
        return void response.end(JSON.stringify(await issue(request)));
      const [, bucket = '', ...parts] = path.split('/').map(decodeURIComponent);
      const query = new URLSearchParams(search);
      const asked = { method: request.method ?? '', bucket, key: parts.join('/'), query, request };
      await check(asked, path);
      await calls(asked, response);
    } catch (error) {
      refuse(error, request, response);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    keys: () => [...buckets.values()].flatMap((objects) => [...objects.keys()]),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function refuse(error: unknown, request: IncomingMessage, response: ServerResponse): void {
  if (request.destroyed && !request.complete) return void response.destroy();
  const code = error instanceof Error ? error.message : 'InternalError';
  request.resume();
  response.writeHead(error instanceof Refusal ? error.status : 500, {
    'content-type': 'application/xml',
    connection: 'close',
  });
  response.end(request.method === 'HEAD' ? '' : `<Error><Code>${code}</Code></Error>`);
}

interface Scheme {
  readonly prefix: 'X-Amz-' | 'X-Goog-';
  readonly credential: string;
  isValid(text: string, signature: string, scope: readonly string[]): boolean;
}

const amazon: Scheme = {
  prefix: 'X-Amz-',
  credential: testAccess.accessKeyId,
  isValid(text, signature, scope) {
    const key = scope.reduce<string | Buffer>(
      (secret, part) => createHmac('sha256', secret).update(part).digest(),
      `AWS4${testAccess.secretAccessKey}`,
    );
    return createHmac('sha256', key).update(text).digest('hex') === signature;
  },
};

/** Version 4 as both describe it, worked out from what arrived. */
function requireSignature({ method, query, request }: Asked, path: string, scheme: Scheme): void {
  const { headers } = request;
  const header = new Map(
    (headers.authorization ?? '')
      .replace(/^\S+ /, '')
      .split(', ')
      .map((part) => part.split(/=(.*)/s, 2) as [string, string]),
  );
  const fromQuery = query.has(`${scheme.prefix}Signature`);
  const read = (name: string): string =>
    (fromQuery ? query.get(scheme.prefix + name) : header.get(name)) ?? '';
  const date = fromQuery ? read('Date') : String(headers['x-amz-date']);
  const [credential, ...scope] = read('Credential').split('/');
  const names = read('SignedHeaders').split(';');
  const canonical = [
    method,
    path
      .split('/')
      .map((part) => strict(decodeURIComponent(part)))
      .join('/'),
    [...query]
      .filter(([name]) => name !== `${scheme.prefix}Signature`)
      .map((pair) => pair.map(strict).join('='))
      .sort()
      .join('&'),
    ...names.map((name) => `${name}:${String(headers[name] ?? '').trim()}`),
    '',
    names.join(';'),
    fromQuery ? 'UNSIGNED-PAYLOAD' : String(headers['x-amz-content-sha256']),
  ].join('\n');
  const algorithm = fromQuery ? read('Algorithm') : (headers.authorization ?? '').split(' ', 1)[0];
  const hash = createHash('sha256').update(canonical).digest('hex');
  const text = [algorithm, date, scope.join('/'), hash].join('\n');
  if (credential !== scheme.credential) throw new Refusal(403, 'InvalidAccessKeyId');
  if (!names.includes('host')) throw new Refusal(403, 'AccessDenied');
  if (!scheme.isValid(text, read('Signature'), scope))
    throw new Refusal(403, 'SignatureDoesNotMatch');
  const begun = Date.parse(
    date.replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3:$4:$5Z'),
  );
  const seconds = fromQuery ? Number(read('Expires')) : 900;
  if (!(Date.now() < begun + seconds * 1000)) throw new Refusal(403, 'AccessDenied');
}

const strict = (text: string): string =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );

const etagOf = (data: Buffer): string => createHash('md5').update(data).digest('hex');
const escaped = (text: string): string =>
  text.replace(/[<>&"']/g, (char) => `&#${char.charCodeAt(0)};`);

type Buckets = Map<string, Map<string, Stored>>;

function createCalls(prefix: string, buckets: Buckets) {
  const uploads = new Map<string, Upload>();
  const objects = (bucket: string): Map<string, Stored> => {
    const found = buckets.get(bucket);
    if (!found) throw new Refusal(404, 'NoSuchBucket');
    return found;
  };
  const object = (bucket: string, key: string): Stored => {
    const found = objects(bucket).get(key);
    if (!found) throw new Refusal(404, 'NoSuchKey');
    return found;
  };
  const received = async ({ request }: Asked): Promise<Stored> => {
    const data = await buffer(request);
    const [least, most] = String(request.headers['x-goog-content-length-range'] ?? '').split(',');
    if (most && (data.length < Number(least) || data.length > Number(most)))
      throw new Refusal(400, 'EntityTooLarge');
    if (prefix === 'x-amz-' && request.headers['content-length'] === undefined)
      throw new Refusal(411, 'MissingContentLength');
    const type = request.headers['content-type'] ?? 'binary/octet-stream';
    return { data, type, etag: etagOf(data), modified: new Date() };
  };
  const upload = ({ bucket, key, query }: Asked): Upload => {
    const found = uploads.get(query.get('uploadId') ?? '');
    if (found?.place !== `${bucket}/${key}`) throw new Refusal(404, 'NoSuchUpload');
    return found;
  };
  const source = (header: string): Stored => {
    const [, bucket = '', ...parts] = decodeURIComponent(header).split('/');
    return object(bucket, parts.join('/'));
  };
  const bucketCalls: Readonly<Record<string, (asked: Asked) => string | undefined>> = {
    GET: ({ bucket, query }) => listing(objects(bucket), query),
    HEAD: ({ bucket }) => void objects(bucket),
    PUT: ({ bucket }) => {
      if (buckets.has(bucket)) throw new Refusal(409, 'BucketAlreadyOwnedByYou');
      buckets.set(bucket, new Map());
      return undefined;
    },
    DELETE: ({ bucket }) => {
      if (objects(bucket).size > 0) throw new Refusal(409, 'BucketNotEmpty');
      buckets.delete(bucket);
      return undefined;
    },
  };
  const put = async (asked: Asked, response: ServerResponse): Promise<void> => {
    const own = objects(asked.bucket);
    const copied = asked.request.headers[`${prefix}copy-source`];
    const stored = copied ? source(String(copied)) : await received(asked);
    if (asked.request.headers['x-goog-if-generation-match'] === '0' && own.has(asked.key))
      throw new Refusal(412, 'PreconditionFailed');
    if (asked.query.has('partNumber'))
      upload(asked).parts.set(Number(asked.query.get('partNumber')), stored);
    else own.set(asked.key, { ...stored, modified: new Date() });
    response.setHeader('etag', `"${stored.etag}"`);
    response.end(
      copied ? `<CopyObjectResult><ETag>"${stored.etag}"</ETag></CopyObjectResult>` : '',
    );
  };
  const post = async (asked: Asked, response: ServerResponse): Promise<void> => {
    const own = objects(asked.bucket);
    const text = (await buffer(asked.request)).toString();
    if (asked.query.has('uploads')) {
      const id = randomUUID();
      const type = asked.request.headers['content-type'] ?? '';
      uploads.set(id, { place: `${asked.bucket}/${asked.key}`, type, parts: new Map() });
      return void response.end(
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    const { parts, type } = upload(asked);
    const named = [...text.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"(.*?)"<\/ETag>/g)];
    const chosen = named.map(([, number, tag]) => {
      const part = parts.get(Number(number));
      if (part?.etag !== tag) throw new Refusal(400, 'InvalidPart');
      return part!.data;
    });
    if (chosen.slice(0, -1).some(({ length }) => length < 5 * 1024 * 1024))
      throw new Refusal(400, 'EntityTooSmall');
    const data = Buffer.concat(chosen);
    const etag = `${etagOf(data)}-${chosen.length}`;
    own.set(asked.key, { data, type, etag, modified: new Date() });
    uploads.delete(asked.query.get('uploadId') ?? '');
    response.end(
      `<CompleteMultipartUploadResult><ETag>"${etag}"</ETag></CompleteMultipartUploadResult>`,
    );
  };
  const remove = (asked: Asked, response: ServerResponse): void => {
    if (asked.query.has('uploadId')) {
      upload(asked);
      uploads.delete(asked.query.get('uploadId') ?? '');
    } else objects(asked.bucket).delete(asked.key);
    response.writeHead(204).end();
  };
  return async (asked: Asked, response: ServerResponse): Promise<void> => {
    const { method, bucket, key } = asked;
    if (bucket === '') return void response.end('<ListAllMyBucketsResult/>');
    if (key === '') return void response.end(bucketCalls[method]?.(asked) ?? '');
    if (method === 'PUT') return put(asked, response);
    if (method === 'POST') return post(asked, response);
    if (method === 'DELETE') return remove(asked, response);
    answerObject(object(bucket, key), asked, response);
  };
}

function answerObject(
  { data, type, etag, modified }: Stored,
  asked: Asked,
  response: ServerResponse,
): void {
  const range = /^bytes=(\d+)-(\d+)$/.exec(asked.request.headers.range ?? '');
  if (range && Number(range[1]) >= data.length) throw new Refusal(416, 'InvalidRange');
  const body = range ? data.subarray(Number(range[1]), Number(range[2]) + 1) : data;
  const disposition = asked.query.get('response-content-disposition');
  response.writeHead(range ? 206 : 200, {
    'content-type': asked.query.get('response-content-type') ?? type,
    'content-length': body.length,
    etag: `"${etag}"`,
    'last-modified': modified.toUTCString(),
    ...(disposition !== null && { 'content-disposition': disposition }),
  });
  response.end(asked.method === 'HEAD' ? undefined : body);
}

function listing(objects: ReadonlyMap<string, Stored>, query: URLSearchParams): string {
  const prefix = query.get('prefix') ?? '';
  const limit = Number(query.get('max-keys') ?? 1000);
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64url');
  const all = [...objects.keys()]
    .filter((key) => key.startsWith(prefix) && Buffer.compare(Buffer.from(key), after) > 0)
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const page = all.slice(0, limit);
  const last = all.length > limit ? page.at(-1) : undefined;
  const contents = page.map((key) => {
    const { data, modified } = objects.get(key)!;
    const written = escaped(strict(key).replaceAll('%20', '+'));
    return `<Contents><Key>${written}</Key><Size>${data.length}</Size><LastModified>${modified.toISOString()}</LastModified></Contents>`;
  });
  const next =
    last === undefined
      ? ''
      : `<NextContinuationToken>${Buffer.from(last).toString('base64url')}</NextContinuationToken>`;
  return `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>${last !== undefined}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`;
}
