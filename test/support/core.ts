/** The core module over a real database, below the HTTP surface: one or more nodes that share it. */

import type { Kernel, ModuleState } from '../../src/host/kernel.ts';
import { createCaches } from '../../src/kernel/cache.ts';
import { anonymous, type Caller } from '../../src/kernel/caller.ts';
import { createConfigService } from '../../src/kernel/config/create-config-service.ts';
import { migrations as configMigrations } from '../../src/kernel/config/migrations.ts';
import type { Database } from '../../src/kernel/database/database.ts';
import { createHealth } from '../../src/kernel/health.ts';
import {
  createIdentity,
  isSuperAdmin,
  type PresentedCredentials,
} from '../../src/kernel/identity.ts';
import { createLimits } from '../../src/kernel/limits/create-limits.ts';
import { createDurableLimits } from '../../src/kernel/limits/durable-limits.ts';
import { migrations as limitMigrations } from '../../src/kernel/limits/migrations.ts';
import { type Operation, Reply } from '../../src/kernel/operations/operation.ts';
import type { OperationContext } from '../../src/kernel/operations/operation-input.ts';
import { migrations as keyringMigrations } from '../../src/kernel/security/migrations.ts';
import { createPasswordHasher } from '../../src/kernel/security/password-hasher.ts';
import { openSecretBox } from '../../src/kernel/security/secret-box.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { type CoreConfig, type CoreService, core } from '../../src/modules/core/index.ts';
import { createTestBuses, type TestBus } from './buses.ts';
import { openTestDatabase } from './database.ts';
import { noMetrics, silentLog } from './quiet.ts';

export const coreMasterKey = 'a master key that only tests use';
export const coreAdminPassword = 'a first password for tests';

export interface CoreRequest {
  readonly body?: unknown;
  readonly params?: Record<string, unknown>;
  readonly query?: Record<string, unknown>;
  readonly headers?: Record<string, unknown>;
  readonly masterKey?: string;
  readonly bearer?: string | undefined;
  readonly address?: string;
}

export interface CoreAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the shape of a body is what the calling test asserts
  readonly body: any;
  readonly headers: Readonly<Record<string, string>>;
}

export interface CoreNode {
  readonly kernel: Kernel;
  readonly bus: TestBus;
  readonly service: CoreService;
  /** The password that this node made for the first admin. */
  readonly madePassword: string | undefined;
  /** What `kernel.modules` lists. */
  readonly modules: ModuleState[];
  /** Calls an operation as a surface would: credential first, then the handler. Refusals become answers. */
  call(id: string, request?: CoreRequest): Promise<CoreAnswer>;
}

export interface CoreOptions {
  /** Nodes on the one database; 1 unless set. */
  readonly nodes?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export interface CoreFixture {
  readonly database: Database;
  readonly node: CoreNode;
  readonly nodes: readonly CoreNode[];
  /** A session token of the first admin. */
  login(username?: string, password?: string): Promise<string>;
  close(): Promise<void>;
}

export async function openCore({
  nodes: count = 1,
  env = {},
}: CoreOptions = {}): Promise<CoreFixture> {
  const opened = await openTestDatabase({
    migrations: [
      { owner: 'config', migrations: configMigrations },
      { owner: 'limits', migrations: limitMigrations },
      { owner: 'security', migrations: keyringMigrations },
      { owner: 'core', migrations: core.migrations ?? [] },
    ],
  });
  const nodes: CoreNode[] = [];
  for (const [index, bus] of createTestBuses(count).entries()) {
    nodes.push(await startNode(index === 0 ? opened.database : await opened.openAgain(), bus, env));
  }
  const [node] = nodes;
  if (!node) throw new Error('There must be a node');
  return {
    database: opened.database,
    node,
    nodes,
    async login(username = 'admin', password = coreAdminPassword) {
      const { status, body } = await node.call('core.session.login', {
        masterKey: coreMasterKey,
        body: { username, password },
      });
      if (status !== 200) throw new Error(`Login failed: ${status} ${body.message}`);
      return body.token;
    },
    close: opened.close,
  };
}

async function startNode(
  database: Database,
  bus: TestBus,
  env: Readonly<Record<string, string>>,
): Promise<CoreNode> {
  const modules: ModuleState[] = [{ name: 'core', serving: true }];
  const health = createHealth();
  const secrets = await openSecretBox(database, { masterKey: coreMasterKey });
  const config = await createConfigService({ database, bus, secrets, log: silentLog, health });
  const kernel = {
    settings: readSettings({
      MASTER_KEY: coreMasterKey,
      ADMIN_INITIAL_PASSWORD: coreAdminPassword,
      ...env,
    }),
    log: silentLog,
    metrics: noMetrics,
    health,
    database,
    bus,
    caches: createCaches(bus),
    limits: createLimits({ redis: undefined, metrics: noMetrics, log: silentLog }),
    durableLimits: createDurableLimits({ database, metrics: noMetrics }),
    secrets,
    passwords: createPasswordHasher({ memoryKiB: 64, passes: 1 }),
    config,
    identity: createIdentity(),
    modules: { list: () => modules },
    state: { all: () => [] },
  } as unknown as Kernel;
  const handle = await config.register<CoreConfig>(
    'core',
    core.configFor?.(kernel.settings) ?? core.config,
  );
  const { service, operations } = await core.start({
    kernel,
    config: handle,
    services: {},
    optional: {},
    log: silentLog,
  });
  let madePassword: string | undefined;
  await service.createFirstAdmin(async ({ password }) => {
    madePassword = password;
  });
  return {
    kernel,
    bus,
    service,
    madePassword,
    modules,
    call: (id, request = {}) => call(kernel, operations, id, request),
  };
}

async function call(
  kernel: Kernel,
  operations: readonly Operation[],
  id: string,
  request: CoreRequest,
): Promise<CoreAnswer> {
  const operation = operations.find((one) => one.id === id);
  if (!operation) throw new Error(`There is no operation ${id}`);
  try {
    const credentials = coreCredentials(request);
    const caller = await callerOf(kernel, operation, credentials);
    const context = {
      ...baseContext,
      caller,
      bearer: request.bearer,
      address: credentials.address,
    } as OperationContext;
    const { params = {}, query = {}, headers = {}, body } = request;
    return answerOf(await operation.handler(context, { params, query, headers, body }));
  } catch (error) {
    const {
      status = 500,
      code,
      message,
      errors,
      retryAfter,
      headers = {},
    } = error as Record<string, unknown>;
    if (status === 500) throw error;
    return {
      status: status as number,
      body: { code, message, errors, retryAfter },
      headers: headers as Record<string, string>,
    };
  }
}

function answerOf(result: unknown): CoreAnswer {
  if (!(result instanceof Reply)) return { status: 200, body: result, headers: {} };
  return {
    status: result.status,
    body: result.json === undefined ? result.text : JSON.parse(result.json),
    headers: result.headers,
  };
}

async function callerOf(
  { identity }: Kernel,
  { access }: Operation,
  credentials: PresentedCredentials,
): Promise<Caller> {
  if (access === 'public' || access === 'adminSecondFactor' || !identity.admin) return anonymous;
  if (access === 'masterKey') return identity.admin.masterKey(credentials);
  const caller = await identity.admin.authenticate(credentials);
  if (access === 'superAdmin' && !isSuperAdmin(caller))
    throw Object.assign(new Error('not super'), { status: 403 });
  return caller;
}

const baseContext = {
  requestId: 'test',
  userAgent: 'vitest',
  signal: new AbortController().signal,
  log: silentLog,
  audited: (_facts: unknown): void => undefined,
};

/** Credentials as the surface hands them on. */
export const coreCredentials = ({
  masterKey,
  bearer,
  address = '192.0.2.1',
}: CoreRequest): PresentedCredentials => ({
  bearer,
  masterKey,
  apiToken: undefined,
  cookies: {},
  address,
});
