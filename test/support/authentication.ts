/** The authentication module over a real database, below the HTTP surface: one or more nodes that share it. */

import { createRecordStore } from '../../src/data/records/record-store.ts';
import { migrations as schemaMigrations } from '../../src/data/schema/migrations.ts';
import { createSchemaRegistry } from '../../src/data/schema/registry/schema-registry.ts';
import type { Kernel } from '../../src/host/kernel.ts';
import type { RunningModule } from '../../src/host/module.ts';
import { createAudit } from '../../src/kernel/audit/create-audit.ts';
import { migrations as auditMigrations } from '../../src/kernel/audit/migrations.ts';
import { createCaches } from '../../src/kernel/cache.ts';
import { system } from '../../src/kernel/caller.ts';
import type { ConfigHandle } from '../../src/kernel/config/config-definition.ts';
import { fillDefaults, type SchemaNode } from '../../src/kernel/config/tree.ts';
import type { Database } from '../../src/kernel/database/database.ts';
import { migrate } from '../../src/kernel/database/migrate.ts';
import { createBus, type NodeBus } from '../../src/kernel/events/create-bus.ts';
import { createEvents } from '../../src/kernel/events/create-events.ts';
import { migrations as eventMigrations } from '../../src/kernel/events/migrations.ts';
import { createHooks } from '../../src/kernel/hooks/hooks.ts';
import { createIdentity, type PresentedCredentials } from '../../src/kernel/identity.ts';
import type { JobDefinition, Jobs } from '../../src/kernel/jobs/jobs.ts';
import { createLimits } from '../../src/kernel/limits/create-limits.ts';
import { createDurableLimits } from '../../src/kernel/limits/durable-limits.ts';
import { migrations as limitMigrations } from '../../src/kernel/limits/migrations.ts';
import { type Operation, Reply } from '../../src/kernel/operations/operation.ts';
import type { OperationContext } from '../../src/kernel/operations/operation-input.ts';
import { createOperationRegistry } from '../../src/kernel/operations/registry.ts';
import { createPermissionPort } from '../../src/kernel/permissions.ts';
import { migrations as idempotencyMigrations } from '../../src/kernel/pipeline/idempotency/migrations.ts';
import { migrations as keyringMigrations } from '../../src/kernel/security/migrations.ts';
import { createPasswordHasher } from '../../src/kernel/security/password-hasher.ts';
import { openSecretBox } from '../../src/kernel/security/secret-box.ts';
import {
  type AuthenticationConfig,
  authenticationConfig,
} from '../../src/modules/authentication/config.ts';
import {
  type AuthenticationService,
  authentication,
} from '../../src/modules/authentication/index.ts';
import type {
  CommunicationsService,
  PlainEmail,
  TemplatedEmail,
} from '../../src/modules/communications/index.ts';
import type { RouterService } from '../../src/modules/router/index.ts';
import { openTestDatabase } from './database.ts';
import { noMetrics, silentLog } from './quiet.ts';

export interface TestAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface TestRequest {
  readonly body?: unknown;
  readonly query?: Record<string, unknown>;
  readonly params?: Record<string, unknown>;
  readonly bearer?: string | undefined;
  readonly address?: string;
}

/** A mail as the module wrote it. */
export type TestMail = TemplatedEmail | PlainEmail;
export type TestText = Parameters<CommunicationsService['messages']['sendSms']>[1];

/** One node: a kernel with the module running. */
export interface AuthenticationNode {
  readonly kernel: Kernel;
  readonly service: AuthenticationService;
  readonly running: RunningModule<AuthenticationService>;
  /** Every mail that was written here, the oldest first. */
  readonly mails: readonly TestMail[];
  /** Every text message likewise. */
  readonly texts: readonly TestText[];
  /** Waits for the jobs that were enqueued so far. */
  jobsDone(): Promise<void>;
  /** Changes the configuration of this node and tells the module. */
  configure(change: (config: AuthenticationConfig) => AuthenticationConfig): Promise<void>;
  /** Calls an operation as a surface would: credential first, then the handler. Errors become answers. */
  call(id: string, request?: TestRequest): Promise<TestAnswer>;
  stop(): Promise<void>;
}

export interface AuthenticationFixture {
  readonly database: Database;
  readonly node: AuthenticationNode;
  addNode(): Promise<AuthenticationNode>;
  close(): Promise<void>;
}

const defaults = fillDefaults(
  authenticationConfig.schema as SchemaNode,
  {},
) as AuthenticationConfig;

export async function openAuthentication(): Promise<AuthenticationFixture> {
  const opened = await openTestDatabase({
    migrations: [
      { owner: 'events', migrations: eventMigrations },
      { owner: 'limits', migrations: limitMigrations },
      { owner: 'audit', migrations: auditMigrations },
      { owner: 'idempotency', migrations: idempotencyMigrations },
      { owner: 'schema', migrations: schemaMigrations },
      { owner: 'security', migrations: keyringMigrations },
    ],
  });
  const closers: (() => Promise<void>)[] = [];
  const start = async (database: Database): Promise<AuthenticationNode> => {
    const bus = await createBus({ database, redis: undefined, log: silentLog });
    const node = await startNode(database, bus);
    closers.unshift(async () => {
      // A job that begins after the pool has closed would fail outside of every test.
      await node.jobsDone();
      await node.stop();
      await bus.close();
    });
    return node;
  };
  const node = await start(opened.database);
  return {
    database: opened.database,
    node,
    addNode: async () => start(await opened.openAgain()),
    async close() {
      for (const close of closers) await close();
      await opened.close();
    },
  };
}

async function startNode(database: Database, bus: NodeBus): Promise<AuthenticationNode> {
  const events = createEvents({ database, bus, log: silentLog, metrics: noMetrics });
  const schemas = await createSchemaRegistry({ database, bus, events });
  const permissions = createPermissionPort();
  const secrets = await openSecretBox(database, { masterKey: 'a master key that only tests use' });
  const { jobs, jobsDone } = immediateJobs(database);
  const kernel = {
    log: silentLog,
    jobs,
    audit: createAudit(database, silentLog),
    metrics: noMetrics,
    database,
    bus,
    events,
    caches: createCaches(bus),
    limits: createLimits({ redis: undefined, metrics: noMetrics, log: silentLog }),
    durableLimits: createDurableLimits({ database, metrics: noMetrics }),
    secrets,
    passwords: createPasswordHasher({ memoryKiB: 64, passes: 1 }),
    schemas,
    records: createRecordStore({ database, schemas, events, permissions, secrets }),
    operations: createOperationRegistry(),
    identity: createIdentity(),
    permissions,
    hooks: createHooks(),
  } as unknown as Kernel;
  await schemas.install(authentication.name, authentication.schemas ?? []);
  await migrate(database, [
    { owner: authentication.name, migrations: authentication.migrations ?? [] },
  ]);

  const config = testConfig();
  const mails: TestMail[] = [];
  const texts: TestText[] = [];
  const services = { communications: fakeCommunications(mails, texts), router: fakeRouter() };
  const running = await authentication.start({
    kernel,
    config: config.handle,
    services,
    optional: { authorization: absent, storage: absent },
    log: silentLog,
  });
  for (const job of running.jobs ?? []) await jobs.register(job);
  kernel.operations.replace(authentication.name, running.operations);
  return {
    kernel,
    running,
    mails,
    texts,
    jobsDone,
    service: running.service,
    configure: config.change,
    call: (id, request) => call(kernel, id, request ?? {}),
    stop: async () => running.stop?.(),
  };
}

/** Runs each job once, as soon as the transaction that enqueued it has committed. */
function immediateJobs(database: Database) {
  const definitions = new Map<string, JobDefinition>();
  let pending: Promise<void> = Promise.resolve();
  const run = (name: string, data: unknown): string => {
    const handled = Promise.withResolvers<void>();
    pending = Promise.all([pending, handled.promise]).then(() => undefined);
    database.afterCommit(() => {
      void definitions
        .get(name)
        ?.handler(data, { signal: new AbortController().signal, log: silentLog })
        .then(handled.resolve, handled.reject);
    });
    return name;
  };
  const jobs: Jobs = {
    register: async (definition) => void definitions.set(definition.name, definition),
    unregister: async (name) => void definitions.delete(name),
    leave: async (name) => void definitions.delete(name),
    enqueue: async (name, data) => run(name, data),
    enqueueMany: async (name, all) => {
      for (const { data } of all) run(name, data);
    },
    waiting: async () => 0,
    status: async () => undefined,
  };
  return { jobs, jobsDone: () => pending };
}

/** Authentication notifies nobody in the inbox. */
const fakeCommunications = (mails: TestMail[], texts: TestText[]) => {
  const messages: CommunicationsService['messages'] = {
    available: () => true,
    sendEmail: async (_transaction, email) => String(mails.push(email)),
    sendSms: async (_transaction, text) => String(texts.push(text)),
    sendPush: async () => undefined,
    forgetUsers: async () => undefined,
  };
  return {
    messages,
    templates: { register: async () => undefined },
    devices: { endSessions: async () => undefined },
    onChannelsChange: () => () => undefined,
  } as unknown as CommunicationsService;
};

const fakeRouter = () => ({ publicUrl: () => 'https://api.example.com' }) as RouterService;

/** A module that does not run: teams have no routes. */
const absent = { current: () => undefined, onChange: () => () => undefined };

function testConfig() {
  let current = defaults;
  const listeners = new Set<
    (next: AuthenticationConfig, previous: AuthenticationConfig) => void | Promise<void>
  >();
  const handle: ConfigHandle<AuthenticationConfig> = {
    current: () => current,
    version: () => 1,
    guard: () => () => undefined,
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const change = async (
    edit: (config: AuthenticationConfig) => AuthenticationConfig,
  ): Promise<void> => {
    const previous = current;
    current = edit(previous);
    for (const listener of listeners) await listener(current, previous);
  };
  return { handle, change };
}

async function call(kernel: Kernel, id: string, request: TestRequest): Promise<TestAnswer> {
  const operation = kernel.operations.all().find((owned) => owned.operation.id === id)?.operation;
  if (!operation) return { status: 404, body: {} };
  try {
    const caller = await callerOf(kernel, operation, request);
    const context = {
      ...baseContext,
      caller,
      bearer: request.bearer,
      address: request.address ?? '192.0.2.1',
    } as OperationContext;
    const input = {
      params: request.params ?? {},
      query: { skip: 0, limit: 25, ...request.query },
      body: request.body,
      headers: {},
    };
    const result = await operation.handler(context, input);
    if (result instanceof Reply)
      return {
        status: result.status,
        body: JSON.parse(result.json ?? '{}'),
        headers: result.headers,
      };
    return {
      status: 200,
      body: typeof result === 'string' ? { result } : (result as Record<string, unknown>),
    };
  } catch (error) {
    const { status = 500, code, message, errors, retryAfter } = error as Record<string, unknown>;
    if (status === 500) throw error;
    return { status: status as number, body: { code, message, errors, retryAfter } };
  }
}

const baseContext = {
  requestId: 'test',
  userAgent: 'vitest',
  signal: new AbortController().signal,
  log: silentLog,
  cookies: {},
  audited: (_facts: unknown): void => undefined,
};

async function callerOf(kernel: Kernel, operation: Operation, { bearer, address }: TestRequest) {
  if (operation.surface === 'admin') return system('test');
  const anonymous = operation.access === 'optionalUser' && bearer === undefined;
  if (anonymous || operation.access === 'public' || operation.access === 'refreshToken')
    return { kind: 'anonymous' as const };
  return kernel.identity.client?.authenticate(credentials(bearer, address));
}

/** Credentials as the surface hands them on. */
export const credentials = (
  bearer: string | undefined,
  address = '192.0.2.1',
): PresentedCredentials => ({
  bearer,
  masterKey: undefined,
  apiToken: undefined,
  cookies: {},
  address,
});
