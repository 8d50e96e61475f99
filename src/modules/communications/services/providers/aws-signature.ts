/** Signatures of requests to AWS (Signature Version 4), for the few plain requests that we send. */
import { createHash, createHmac } from 'node:crypto';

interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly service: string;
}

interface AwsRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer =>
  createHmac('sha256', key).update(text).digest();

/** The headers with those that sign them: `host`, `x-amz-date`, `authorization`. */
export function signedHeaders(
  request: AwsRequest,
  credentials: AwsCredentials,
  now = new Date(),
): Record<string, string> {
  const { accessKeyId, secretAccessKey, region, service } = credentials;
  const url = new URL(request.url);
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, '');
  const day = time.slice(0, 8);
  const headers: Record<string, string> = {
    ...request.headers,
    host: url.host,
    'x-amz-date': time,
  };
  const names = Object.keys(headers).sort();
  const query = [...url.searchParams]
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .sort()
    .join('&');
  const canonical = [
    request.method,
    // A path counts as it stands in the request, encoded once more (all services but S3).
    url.pathname.split('/').map(encoded).join('/'),
    query,
    ...names.map((name) => `${name}:${headers[name]?.trim()}`),
    '',
    names.join(';'),
    sha256(request.body),
  ].join('\n');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n');
  const key = [region, service, 'aws4_request'].reduce<Buffer>(
    (signing, part) => hmac(signing, part),
    hmac(`AWS4${secretAccessKey}`, day),
  );
  const signature = hmac(key, toSign).toString('hex');
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`,
  };
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
