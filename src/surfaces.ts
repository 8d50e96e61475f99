/**
 * Starts every way in, and connects what modules let operators configure about
 * them. Surfaces know no module; this file of the composition root knows both.
 */

import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from './host/kernel.ts';
import { type ConfigHandle, moduleOfConfig } from './kernel/config/config-definition.ts';
import type { Refusal } from './kernel/operations/unknown-input.ts';
import type { LimitSettings, LimitSettingsProvider } from './kernel/pipeline/rate-limits.ts';
import {
  MEGABYTE,
  type RequestSettings,
  type RequestSettingsProvider,
} from './kernel/pipeline/request-limits.ts';
import type { Settings } from './kernel/settings/settings.ts';
import type { CoreConfig, CoreService } from './modules/core/index.ts';
import type { RouterConfig, RouterService } from './modules/router/index.ts';
import type { GraphqlOptions, GraphqlOptionsSource } from './surfaces/graphql/options.ts';
import { type GraphqlSockets, mountGraphqlSockets } from './surfaces/graphql/socket-mount.ts';
import { configuredSurfaceOptions, type SurfaceOptionsSource } from './surfaces/http/options.ts';
import { listenError } from './surfaces/http/server.ts';
import { type HttpSurfaces, startHttpSurfaces } from './surfaces/http-surfaces.ts';
import type { McpOptions, McpSource } from './surfaces/mcp/options.ts';
import { asyncApiOperation, operatorDescription } from './surfaces/realtime/asyncapi.ts';
import { type SocketBudgetsProvider, socketBudgets } from './surfaces/realtime/connection.ts';
import { realtimeErrors } from './surfaces/realtime/errors.ts';
import { eventStreamOperations } from './surfaces/realtime/event-stream.ts';
import { createLiveEngine, type LiveEngine } from './surfaces/realtime/live/live-engine.ts';
import {
  type OperatorSocketOptions,
  type OperatorSockets,
  startOperatorSockets,
} from './surfaces/realtime/operators/operator-server.ts';
import { tellOfPlatform } from './surfaces/realtime/operators/platform-notices.ts';
import {
  type RealtimeSurface,
  startRealtimeSurface,
} from './surfaces/realtime/realtime-surface.ts';
import type { VisitorGate } from './surfaces/realtime/session.ts';
import { clientTicketOperation, operatorTicketOperation } from './surfaces/realtime/tickets.ts';

/* Whether the ports can be used, found before the database is started and changed. */

type PortSettings = Pick<
  Settings,
  'clientHttpPort' | 'clientSocketPort' | 'adminHttpPort' | 'host'
>;

/** @throws StartError that names the port and the variable that moves it. */
export async function checkPorts({
  clientHttpPort,
  clientSocketPort,
  adminHttpPort,
  host,
}: PortSettings): Promise<void> {
  const requested = [
    { port: clientHttpPort, portVariable: 'CLIENT_HTTP_PORT' },
    { port: adminHttpPort, portVariable: 'ADMIN_HTTP_PORT' },
    { port: clientSocketPort, portVariable: 'CLIENT_SOCKET_PORT' },
  ];
  for (const { port, portVariable } of requested) {
    if (port > 0) await tryPort({ port, host, portVariable });
  }
}

function tryPort(place: { port: number; host: string; portVariable: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => reject(listenError(error, place)));
    server.listen({ port: place.port, host: place.host }, () => server.close(() => resolve()));
  });
}

interface SurfaceServices {
  readonly router: RouterService;
  readonly core: CoreService;
}

/** How the platform closes. */
export interface CloseOptions {
  readonly patient?: boolean;
}

function refusalOf({ env, input }: CoreConfig): Refusal {
  if (input.unknown !== 'environment') return input.unknown === 'refuse' ? 'all' : 'none';
  return env === 'development' ? 'near' : 'none';
}

interface RunningSurfaces {
  readonly addresses: {
    readonly client: string;
    readonly admin: string;
    readonly realtime: string | undefined;
    readonly clientDocs: string;
    readonly adminDocs: string;
  };
  /** Is not ready from now on, and gives a proxy its time when `patient`. Everything still serves. */
  drain(how: CloseOptions): Promise<void>;
  close(): Promise<void>;
}

/** What the configuration of the router says about the client surface. */
const clientRules = {
  docsPublic: ({ docs }: RouterConfig): boolean => docs.public,
  requestIdHeader: ({ requestId }: RouterConfig): string => requestId.header.toLowerCase(),
  needsApps: ({ security }: RouterConfig): boolean => security.clientValidation,
};

export async function startSurfaces(
  kernel: Kernel,
  { router, core }: SurfaceServices,
): Promise<RunningSurfaces> {
  const common = {
    refuses: () => refusalOf(core.config.current()),
    alsoFollow: [core.config],
  };
  const client = configuredSurfaceOptions('client', router.config, { ...common, ...clientRules });
  const admin = configuredSurfaceOptions('admin', core.adminConfig, {
    ...common,
    docsPublic: () => core.adminDocsPublic(),
  });
  const http = await startHttpSurfaces(kernel, {
    client,
    admin,
    graphql: graphqlOptions(router, core),
    mcp: mcpSource(kernel, core),
    limits: limitsOf(router.config),
    requests: requestsOf(router.config),
  });
  router.listensOn(http.clientAddress);
  try {
    const engine = createLiveEngine(kernel, http.pipeline.accounts);
    describeRealtime(kernel, engine, client);
    const budgets = socketBudgetsOf(router.config);
    const serving = { client, engine, budgets, visitorGate: visitorGateOf(router) };
    const realtime = await startRealtimeSurface(kernel, { ...serving, ...http });
    if (realtime) http.mountOnClient(realtime.mount);
    const parts = { http, core, budgets, source: admin, engine, realtime };
    const operators = await serveOperators(kernel, parts);
    const subscriptions = serveSubscriptions(kernel, { http, ...serving });
    return {
      addresses: {
        client: http.clientAddress,
        admin: http.adminAddress,
        realtime: realtime?.address,
        clientDocs: `${http.clientAddress}/reference`,
        adminDocs: `${http.adminAddress}/reference`,
      },
      async drain({ patient = false }) {
        kernel.health.beginStop();
        if (!patient) return;
        http.closeGently();
        await pause(kernel, realtime);
      },
      async close() {
        // Event streams end with it, so that nobody waits for them.
        engine.stop();
        subscriptions?.close();
        await Promise.all([realtime?.close(), operators.close(), http.close()]);
      },
    };
  } catch (error) {
    await http.close();
    throw error;
  }
}

/** A proxy looks elsewhere, and sockets leave bit by bit. */
async function pause({ settings }: Kernel, realtime: RealtimeSurface | undefined): Promise<void> {
  const { pauseMs } = settings.stop;
  await Promise.all([sleep(pauseMs), realtime?.drain(pauseMs)]);
}

const noSockets = { sockets: 0, subscriptions: 0 };

interface OperatorParts extends Omit<OperatorSocketOptions, 'enabled' | 'accounts' | 'gates'> {
  readonly core: CoreService;
  readonly http: HttpSurfaces;
  readonly engine: LiveEngine;
  readonly realtime: RealtimeSurface | undefined;
}

/** Sockets of the admin surface, while they are switched on. */
async function serveOperators(
  kernel: Kernel,
  { core: { adminConfig }, http, engine, realtime, ...options }: OperatorParts,
): Promise<OperatorSockets> {
  const untell = tellOfPlatform(kernel, () => ({
    ...(realtime?.counts() ?? noSockets),
    ...engine.counts(),
  }));
  const sockets = startOperatorSockets(kernel, {
    ...options,
    ...http.pipeline,
    enabled: () => adminConfig.current().transports.sockets,
  });
  const describe = operatorDescription(kernel.operatorNotices, options.source);
  const ticket = operatorTicketOperation(kernel, () => adminConfig.current().transports.sockets);
  kernel.operations.replace('core/realtime', [describe, ticket]);
  http.mountOnAdmin(sockets.mount);
  adminConfig.onChange(sockets.apply);
  await sockets.apply();
  return {
    ...sockets,
    async close() {
      untell();
      await sockets.close();
    },
  };
}

/** Subscriptions of GraphQL. Without sockets there are none. */
function serveSubscriptions(
  kernel: Kernel,
  {
    http: { graphql, pipeline, mountOnClient },
    ...parts
  }: {
    readonly http: HttpSurfaces;
    readonly engine: LiveEngine;
    readonly client: SurfaceOptionsSource;
    readonly budgets: SocketBudgetsProvider;
    readonly visitorGate: VisitorGate;
  },
): GraphqlSockets | undefined {
  if (kernel.settings.clientSocketPort < 0) return undefined;
  const log = kernel.log.child({ surface: 'graphql' });
  const sockets = mountGraphqlSockets({ kernel, graphql, requests: pipeline, log, ...parts });
  mountOnClient(sockets.mount);
  return sockets;
}

/** The routes of realtime; who may read the description follows the options. */
function describeRealtime(kernel: Kernel, engine: LiveEngine, client: SurfaceOptionsSource): void {
  const constant = [...eventStreamOperations({ ...kernel, engine }), clientTicketOperation(kernel)];
  const register = (): void =>
    kernel.operations.replace('router/realtime', [
      ...constant,
      asyncApiOperation(kernel.sockets, client),
    ]);
  client.onChange(register);
  register();
}

/** What is `auto` follows what the installation is for. */
function graphqlOptions(router: RouterService, core: CoreService): GraphqlOptionsSource {
  const meant = (setting: 'auto' | boolean): boolean =>
    setting === 'auto' ? core.environment() === 'development' : setting;
  const read = (): GraphqlOptions => {
    const { graphql, transports } = router.config.current();
    const { introspection, explorer, enabled, ...others } = graphql;
    return {
      ...others,
      enabled: enabled && transports.graphql,
      introspection: meant(introspection),
      explorer: meant(explorer),
    };
  };
  let current = read();
  const listeners: (() => void)[] = [];
  const apply = (): void => {
    current = read();
    for (const listener of listeners) listener();
  };
  router.config.onChange(apply);
  core.config.onChange(apply);
  return { current: () => current, onChange: (listener) => void listeners.push(listener) };
}

/** Read anew when the admin surface is configured anew. */
function mcpSource({ config }: Kernel, { adminConfig }: CoreService): McpSource {
  const read = (): McpOptions => ({
    enabled: adminConfig.current().transports.mcp,
    ...adminConfig.current().mcp,
  });
  return {
    current: read,
    onChange: (listener) => void adminConfig.onChange(listener),
    configDocuments: () =>
      config.modules().flatMap((module) => {
        const definition = config.definition(module);
        return definition
          ? [{ module, owner: moduleOfConfig(module, definition), schema: definition.schema }]
          : [];
      }),
  };
}

/** What a request may use, read anew when the configuration changed. */
function requestsOf(config: ConfigHandle<RouterConfig>): RequestSettingsProvider {
  const read = ({ requests }: RouterConfig): RequestSettings => {
    const { seconds, megabytesIn, megabytesOut, maxWaitSeconds, ...counts } = requests;
    return {
      ...counts,
      milliseconds: seconds * 1_000,
      bytesIn: megabytesIn * MEGABYTE,
      bytesOut: megabytesOut * MEGABYTE,
      maxWaitMs: maxWaitSeconds * 1_000,
    };
  };
  let current = read(config.current());
  config.onChange((next) => {
    current = read(next);
  });
  return () => current;
}

/** The standard budget, read anew when the configuration changed. */
function limitsOf(config: ConfigHandle<RouterConfig>): LimitSettingsProvider {
  const read = ({ rateLimit }: RouterConfig): LimitSettings => {
    const { maxRequests: requests, resetInterval: seconds, perUser, store, failOpen } = rateLimit;
    const { peoplePerAddress } = rateLimit;
    const standard = { requests, seconds, ...(rateLimit.burst > 0 && { burst: rateLimit.burst }) };
    return {
      standard,
      peoplePerAddress,
      ...(perUser > 0 && { perUser: { ...standard, requests: perUser } }),
      counting: {
        ...(store === 'memory' && { local: true }),
        ...(!failOpen && { failClosed: true }),
      },
    };
  };
  let current = read(config.current());
  config.onChange((next) => {
    current = read(next);
  });
  return () => current;
}

/** Captchas of visitors who open sockets, where operators ask for them. */
const visitorGateOf =
  ({ config, captcha }: RouterService): VisitorGate =>
  async (token, address) => {
    if (!config.current().realtime.visitorCaptcha) return;
    const verdict = await captcha.check(token, address);
    if (verdict === 'missing') throw realtimeErrors.SOCKET_CAPTCHA_REQUIRED();
    if (verdict === 'failed') throw realtimeErrors.SOCKET_CAPTCHA_FAILED();
  };

/** How much sockets may send, read anew when the configuration changed. */
function socketBudgetsOf(config: ConfigHandle<RouterConfig>): SocketBudgetsProvider {
  let current = socketBudgets(config.current().realtime);
  config.onChange(({ realtime }) => {
    current = socketBudgets(realtime);
  });
  return () => current;
}
