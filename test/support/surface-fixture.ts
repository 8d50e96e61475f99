/** Both HTTP surfaces over a few example operations, with fakes for everything below them. */
import { createHmac } from 'node:crypto';
import Type from 'typebox';
import type { Audit } from '../../src/kernel/audit/audit.ts';
import type { Database } from '../../src/kernel/database/database.ts';
import { defineErrors, errors } from '../../src/kernel/errors.ts';
import { createIdentity, type Identity } from '../../src/kernel/identity.ts';
import { createLimits } from '../../src/kernel/limits/create-limits.ts';
import {
  type Access,
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../src/kernel/operations/operation.ts';
import {
  createOperationRegistry,
  type OperationRegistry,
} from '../../src/kernel/operations/registry.ts';
import type { SecretBox } from '../../src/kernel/security/secret-box.ts';
import type { Settings } from '../../src/kernel/settings/settings.ts';
import { createMetrics } from '../../src/kernel/telemetry/create-metrics.ts';
import type { Logger } from '../../src/kernel/telemetry/logger.ts';
import type { Metrics } from '../../src/kernel/telemetry/metrics.ts';
import {
  type HttpSurfaceOptions,
  type HttpSurfaces,
  startHttpSurfaces,
} from '../../src/surfaces/http-surfaces.ts';
import { silentLog } from './quiet.ts';

export interface LogLine {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

export interface SurfaceFixture extends HttpSurfaces {
  readonly registry: OperationRegistry;
  readonly identity: Identity;
  readonly metrics: Metrics;
  readonly lines: readonly LogLine[];
  /** Calls the client surface. */
  client(path: string, init?: RequestInit): Promise<Response>;
  admin(path: string, init?: RequestInit): Promise<Response>;
}

export interface FixtureOptions extends HttpSurfaceOptions {
  readonly settings?: Partial<Settings>;
  readonly operations?: readonly Operation[];
  readonly database?: Database;
  /** Nothing is written down unless given. */
  readonly audit?: Audit;
  readonly identity?: Identity;
}

/** Standard limits are out of the way unless the test sets them. */
export async function startSurfaceFixture(options: FixtureOptions = {}): Promise<SurfaceFixture> {
  const registry = createOperationRegistry();
  registry.replace('example', options.operations ?? exampleOperations);
  const identity = options.identity ?? fakeIdentity();
  const lines: LogLine[] = [];
  const settings = {
    clientHttpPort: 0,
    adminHttpPort: 0,
    host: '127.0.0.1',
    trustedProxies: [],
    workers: 1,
    stop: { pauseMs: 0, graceMs: 500 },
    logLevel: 'info',
    ...options.settings,
  } as unknown as Settings;
  const metrics = createMetrics({ metricsPrefix: 'test_', metricsPort: undefined });
  const surfaces = await startHttpSurfaces(
    {
      settings,
      log: recordingLog(lines),
      metrics,
      database: options.database ?? noDatabase,
      secrets: fixedSecrets,
      audit: options.audit ?? forgetfulAudit,
      limits: createLimits({ redis: undefined, metrics, log: silentLog }),
      operations: registry,
      identity,
    },
    { limits: () => plenty, graceMs: 500, ...options },
  );
  return {
    ...surfaces,
    registry,
    identity,
    metrics,
    lines,
    client: (path, init) => fetch(surfaces.clientAddress + path, init),
    admin: (path, init) => fetch(surfaces.adminAddress + path, init),
  };
}

const plenty = { standard: { requests: 1_000_000, seconds: 1 } };

/** The same key on every node. */
const fixedSecrets = {
  digest: (token: string, purpose: string): string =>
    createHmac('sha256', 'a key of tests').update(`${purpose}:${token}`).digest('hex'),
} as SecretBox;

const noDatabase = new Proxy({} as Database, {
  get: (_target, name) => () => {
    if (name === 'endSessions') return Promise.resolve();
    throw new Error('This test has no database');
  },
});

const forgetfulAudit: Audit = {
  record: async () => undefined,
  recordWith: (_entry, work) => work({ isWritten: () => false, end: () => undefined }),
  recordLater: () => undefined,
  flush: async () => undefined,
  list: async () => [],
  count: async () => 0,
  read: async function* () {},
  completeUntil: async () => undefined,
  purge: async () => 0,
};

function recordingLog(lines: LogLine[]): Logger {
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields, message });
  const log: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}

/** `good` is a user, `partial` needs a second factor; `admin`, `super` and `fresh` (must change the password) are admins. */
export function fakeIdentity(): Identity {
  const identity = createIdentity();
  identity.client = {
    cookieTokens: { accessToken: (cookies) => cookies.accessToken, refreshToken: () => undefined },
    authenticate({ bearer, cookies }) {
      const token = bearer ?? cookies.accessToken;
      if (token !== 'good' && token !== 'partial')
        throw errors.UNAUTHORIZED({ message: 'Token is not valid' });
      return {
        kind: 'user',
        userId: 'u1',
        sessionId: 's1',
        authenticatedAt: 0,
        complete: token === 'good',
        clientId: 'c',
      };
    },
  };
  const adminOf = (name: string) => ({
    kind: 'admin' as const,
    via: 'jwt' as const,
    adminId: name,
    username: name,
    isSuperAdmin: name === 'super',
    mustChangePassword: name === 'fresh',
  });
  identity.admin = {
    async authenticate({ bearer, masterKey, apiToken }) {
      if (masterKey !== undefined && masterKey !== 'master')
        throw errors.UNAUTHORIZED({ message: 'Wrong master key' });
      const token = bearer ?? apiToken;
      if (token === undefined) return adminOf('super');
      if (!['admin', 'super', 'fresh'].includes(token))
        throw errors.UNAUTHORIZED({ message: 'Invalid token' });
      return adminOf(token);
    },
    async masterKey({ masterKey }) {
      if (masterKey !== 'master') throw errors.UNAUTHORIZED({ message: 'Wrong master key' });
      return adminOf('super');
    },
  };
  return identity;
}

export const exampleErrors = defineErrors({ NOTE_LOCKED: [409, 'This note is locked'] });

const text = { summary: 'Example', output: TextResult, limit: 'standard', input: {} } as const;

/** Answers who called, under the given access. */
const whoami = (surface: 'client' | 'admin', access: Access): Operation =>
  defineOperation({
    ...text,
    id: `example.${surface}.${access}`,
    surface,
    method: 'GET',
    path: `/who/${access}`,
    access,
    handler: ({ caller }) => caller.kind,
  });

const Note = Type.Object({
  title: Type.String({ minLength: 1, maxLength: 100 }),
  pages: Type.Optional(Type.Integer({ minimum: 1 })),
  tags: Type.Optional(Type.Array(Type.String())),
  author: Type.Optional(Type.Object({ name: Type.String() })),
  extra: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  kind: Type.Optional(Type.Union([Type.Literal('draft'), Type.Literal('final')])),
});

export const exampleOperations: readonly Operation[] = [
  whoami('client', 'public'),
  whoami('client', 'optionalUser'),
  whoami('client', 'user'),
  whoami('client', 'partialUser'),
  whoami('client', 'refreshToken'),
  whoami('admin', 'admin'),
  whoami('admin', 'superAdmin'),
  whoami('admin', 'masterKey'),
  defineOperation({
    ...text,
    id: 'example.password',
    surface: 'admin',
    method: 'GET',
    path: '/password',
    access: 'admin',
    beforePasswordChange: true,
    handler: ({ caller }) => caller.kind,
  }),
  defineOperation({
    ...text,
    id: 'example.list',
    surface: 'client',
    method: 'GET',
    path: '/notes',
    access: 'public',
    input: {
      query: Type.Object({
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 25 })),
        text: Type.Optional(Type.String()),
        flag: Type.Optional(Type.Boolean()),
        sort: Type.Optional(Type.Array(Type.String())),
        sizes: Type.Optional(Type.Array(Type.Number())),
        price: Type.Optional(Type.Number()),
      }),
    },
    output: Type.Object({ query: Type.Record(Type.String(), Type.Unknown()) }),
    handler: (_context, { query }) => ({ query: { ...query } }),
  }),
  defineOperation({
    ...text,
    id: 'example.get',
    surface: 'client',
    method: 'GET',
    path: '/notes/:id',
    access: 'public',
    input: { params: Type.Object({ id: Type.String({ maxLength: 50 }) }) },
    output: Type.Object({ id: Type.String() }),
    handler: (_context, { params }) =>
      Reply.json(JSON.stringify({ id: params.id }), { etag: '"7"' }),
  }),
  defineOperation({
    ...text,
    id: 'example.special',
    surface: 'client',
    method: 'GET',
    path: '/notes/special',
    access: 'public',
    handler: () => 'special',
  }),
  defineOperation({
    ...text,
    id: 'example.create',
    surface: 'client',
    method: 'POST',
    path: '/notes',
    access: 'public',
    input: { body: Note },
    output: Type.Object({
      body: Type.Object({
        title: Type.String(),
        extra: Type.Optional(Type.Unknown()),
        pages: Type.Optional(Type.Integer()),
      }),
    }),
    errors: [exampleErrors.NOTE_LOCKED],
    bodyLimit: 100_000,
    handler: (_context, { body }) => ({ body, secret: 'never leaves' }),
  }),
  defineOperation({
    ...text,
    id: 'example.strict',
    surface: 'client',
    method: 'PUT',
    path: '/notes/:id',
    access: 'user',
    input: { params: Type.Object({ id: Type.String() }), body: Note },
    strict: true,
    handler: () => 'ok',
  }),
  defineOperation({
    ...text,
    id: 'example.ping',
    surface: 'client',
    method: 'POST',
    path: '/ping',
    access: 'public',
    idempotency: false,
    handler: () => 'pong',
  }),
  defineOperation({
    ...text,
    id: 'example.reset',
    surface: 'client',
    method: 'POST',
    path: '/reset',
    access: 'public',
    limit: { requests: 2, seconds: 900, account: 'email' },
    input: { body: Type.Object({ email: Type.String() }) },
    handler: () => 'sent',
  }),
  defineOperation({
    ...text,
    id: 'example.crash',
    surface: 'client',
    method: 'GET',
    path: '/crash',
    access: 'public',
    handler: () => {
      throw new Error('select password from users');
    },
  }),
  defineOperation({
    ...text,
    id: 'example.locked',
    surface: 'admin',
    method: 'GET',
    path: '/locked',
    access: 'public',
    handler: () => {
      throw exampleErrors.NOTE_LOCKED({ detail: 'by job 7', retryAfter: 3 });
    },
  }),
  defineOperation({
    ...text,
    id: 'example.redirect',
    surface: 'client',
    method: 'GET',
    path: '/away',
    access: 'public',
    handler: () => Reply.redirect('/notes'),
  }),
  defineOperation({
    ...text,
    id: 'example.badHeader',
    surface: 'client',
    method: 'GET',
    path: '/bad-header',
    access: 'public',
    handler: () => Reply.json('{}', { 'x-note': 'a\r\nset-cookie: b' }),
  }),
  defineOperation({
    ...text,
    id: 'example.badErrorHeader',
    surface: 'client',
    method: 'GET',
    path: '/bad-error-header',
    access: 'public',
    handler: () => {
      throw errors.CONFLICT({ headers: { 'x-bad': 'a\nb' } });
    },
  }),
];
