/** Servers that files go to and come from: the bare program and the platform. */
import { Agent, request } from 'node:http';
import type { Platform } from '../platform.ts';

/** A server that files go to and come from. */
export interface Target {
  /** Answers where to read it. */
  upload(content: Buffer): Promise<string>;
  /** Answers the number of bytes that came. */
  download(address: string, range?: string): Promise<number>;
}

export const agent = new Agent({ keepAlive: true, maxSockets: 64 });

interface Sending {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly pieces?: readonly Buffer[];
}

/** The answer's bytes are counted; the text is kept where it is small. */
function exchange(url: string, { method, headers = {}, pieces = [] }: Sending) {
  const { promise, resolve, reject } = Promise.withResolvers<{ bytes: number; text: string }>();
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const sending = request(url, {
    method,
    agent,
    headers: { ...headers, ...(pieces.length > 0 && { 'content-length': length }) },
  });
  sending.once('error', reject).once('response', (answer) => {
    let [bytes, text] = [0, ''];
    answer.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < 10_000) text += chunk.toString('latin1');
    });
    answer.once('error', reject).once('end', () => {
      if ((answer.statusCode ?? 500) < 300) resolve({ bytes, text });
      else reject(new Error(`${method} ${url}: ${answer.statusCode} ${text}`));
    });
  });
  for (const piece of pieces) sending.write(piece);
  sending.end();
  return promise;
}

const BOUNDARY = 'XXBENCHXX';
function form(content: Buffer): readonly Buffer[] {
  const name = crypto.randomUUID();
  const head = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\ncontent-type: application/octet-stream\r\n\r\n`;
  return [Buffer.from(head), content, Buffer.from(`\r\n--${BOUNDARY}--\r\n`)];
}

const formType = `multipart/form-data; boundary=${BOUNDARY}`;

/** `body`: uploads are nothing but the file, which the platform does not take in one request. */
export function bareTarget(port: number, uploads: 'form' | 'body' = 'form'): Target {
  const base = `http://127.0.0.1:${port}/`;
  return {
    async upload(content) {
      const { text } = await (uploads === 'form'
        ? exchange(base, {
            method: 'POST',
            headers: { 'content-type': formType },
            pieces: form(content),
          })
        : exchange(base, { method: 'PUT', pieces: [content] }));
      return `${base}${(JSON.parse(text) as { id: string }).id}`;
    },
    download: async (address, range) =>
      (await exchange(address, { method: 'GET', ...(range && { headers: { range } }) })).bytes,
  };
}

export function platformTarget({ clientOrigin }: Platform, token: string): Target {
  const authorization = `Bearer ${token}`;
  return {
    async upload(content) {
      const { text } = await exchange(`${clientOrigin}/storage/upload`, {
        method: 'POST',
        headers: { authorization, 'content-type': formType },
        pieces: form(content),
      });
      return `${clientOrigin}/storage/download/${(JSON.parse(text) as { id: string }).id}`;
    },
    download: async (address, range) =>
      (
        await exchange(address, {
          method: 'GET',
          headers: { authorization, ...(range && { range }) },
        })
      ).bytes,
  };
}

async function configure(platform: Platform, module: string, change: object): Promise<void> {
  const answer = await fetch(`${platform.adminOrigin}/config/${module}`, {
    method: 'PATCH',
    headers: { masterkey: platform.masterKey, 'content-type': 'application/json' },
    body: JSON.stringify(change),
  });
  if (!answer.ok) throw new Error(`${module}: ${answer.status} ${await answer.text()}`);
}

async function register({ clientOrigin }: Platform): Promise<string> {
  const post = async (path: string) => {
    const answer = await fetch(`${clientOrigin}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'bench@example.com', password: 'Battery-Staple-17' }),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { accessToken: string };
  };
  await post('/authentication/local/new');
  return (await post('/authentication/local')).accessToken;
}

/** Lets files of the bench in, and answers the token of somebody who sends them. */
export async function openStorage(platform: Platform): Promise<string> {
  await configure(platform, 'router', { rateLimit: { maxRequests: 1_000_000 } });
  await configure(platform, 'storage', { limits: { maxFileSize: 2 ** 30 } });
  return register(platform);
}
