/** A provider that answers whatever a test wants: the shapes of real ones, and those of hostile ones. */
import {
  createPrivateKey,
  createPublicKey,
  createSign,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly form: URLSearchParams;
}

/** JSON, or full control over the response. */
export type FakeAnswer = object | ((request: SeenRequest, response: ServerResponse) => void);

export interface FakeProvider {
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Everything that was asked, the newest last. */
  readonly seen: SeenRequest[];
  /** What a path answers from now on. */
  readonly answers: Map<string, FakeAnswer>;
  /** What `/token` answers for that code; takes the place of `answers` there. Access tokens `at-<subject>` open `/userinfo`. */
  issue(code: string, answer: object): void;
  /** The path's last request. */
  last(path: string): SeenRequest;
  /** A signed token: RS256 by the key that is published, unless told otherwise. */
  sign(claims: object, options?: { readonly header?: object; readonly key?: KeyObject }): string;
  /** Claims of a good ID token. */
  claims(more?: object): Record<string, unknown>;
  readonly publicKeyPem: string;
  close(): Promise<void>;
}

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const publicKey = createPublicKey(privateKey);
const kid = 'fake-1';
const clientId = 'fake-client';
const clientSecret = 'fake-secret';
const base64url = (value: object): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url');

export const foreignKey = (): KeyObject =>
  createPrivateKey(
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
      format: 'pem',
      type: 'pkcs8',
    }),
  );

export async function startFakeProvider(): Promise<FakeProvider> {
  const seen: SeenRequest[] = [];
  const answers = new Map<string, FakeAnswer>();
  const server = createServer(
    (request, response) => void respond(request, response, { seen, answers }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  answers.set('/keys', {
    keys: [{ ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }],
  });
  answers.set('/userinfo', ({ headers }: SeenRequest, response: ServerResponse) => {
    const sub = /^Bearer at-(.+)$/.exec(headers.authorization ?? '')?.[1];
    response
      .writeHead(sub === undefined ? 401 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ sub }));
  });
  answers.set('/.well-known/openid-configuration', {
    issuer: url,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    jwks_uri: `${url}/keys`,
    userinfo_endpoint: `${url}/userinfo`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
  });
  const codes = new Map<string | null, object>();
  const byCode = ({ form }: SeenRequest, response: ServerResponse): void => {
    const answer = codes.get(form.get('code'));
    response
      .writeHead(answer ? 200 : 400, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer ?? { error: 'invalid_grant' }));
  };
  const now = () => Math.floor(Date.now() / 1000);
  return {
    url,
    clientId,
    clientSecret,
    seen,
    answers,
    issue(code, answer) {
      codes.set(code, answer);
      answers.set('/token', byCode);
    },
    publicKeyPem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    last(path) {
      const request = seen.findLast((one) => one.path === path);
      if (!request) throw new Error(`nobody asked for ${path}`);
      return request;
    },
    sign(claims, { header = {}, key = privateKey } = {}) {
      const text = `${base64url({ alg: 'RS256', typ: 'JWT', kid, ...header })}.${base64url(claims)}`;
      return `${text}.${createSign('sha256').update(text).sign(key).toString('base64url')}`;
    },
    claims: (more = {}) => ({
      iss: url,
      aud: clientId,
      sub: 'subject-1',
      iat: now(),
      exp: now() + 300,
      ...more,
    }),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { seen, answers }: { seen: SeenRequest[]; answers: ReadonlyMap<string, FakeAnswer> },
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://fake');
  let body = '';
  for await (const chunk of request) body += String(chunk);
  const one = {
    method: request.method ?? '',
    path: pathname,
    query: searchParams,
    headers: request.headers,
    form: new URLSearchParams(body),
  };
  seen.push(one);
  const answer = answers.get(pathname);
  if (typeof answer === 'function')
    return void (answer as (request: SeenRequest, response: ServerResponse) => void)(one, response);
  if (answer === undefined)
    return void response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
}
