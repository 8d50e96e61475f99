/** Starts the client and the admin surface over the operations of a kernel. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createObjectDirectory } from '../data/schema/object-directory.ts';
import type { Kernel } from '../host/kernel.ts';
import type { SurfaceName } from '../kernel/operations/operation.ts';
import { routesOf } from '../kernel/operations/registry.ts';
import { createActionLog } from '../kernel/pipeline/admin-actions.ts';
import { createIdempotency } from '../kernel/pipeline/idempotency/idempotency.ts';
import { createPipeline, type Pipeline, type PipelineParts } from '../kernel/pipeline/invoke.ts';
import {
  createOperationLimiter,
  type LimitSettingsProvider,
} from '../kernel/pipeline/rate-limits.ts';
import type { RequestSettingsProvider } from '../kernel/pipeline/request-limits.ts';
import type { GaugeReading } from '../kernel/telemetry/metrics.ts';
import { type ServedGraphql, serveGraphql } from './graphql/graphql-routes.ts';
import { fixedGraphqlOptions, type GraphqlOptionsSource } from './graphql/options.ts';
import { createAddressOf } from './http/client-address.ts';
import { Exchange } from './http/exchange.ts';
import { createGateway, type GatewayParts } from './http/gateway.ts';
import {
  defaultSurfaceOptions,
  fixedSurfaceOptions,
  type SurfaceOptionsSource,
} from './http/options.ts';
import {
  countInvalid,
  createModuleMetrics,
  createRequestMetrics,
  measureFields,
  requestHistogram,
} from './http/request-metrics.ts';
import { createRouteTable } from './http/route-table.ts';
import {
  createDraining,
  createHttpServer,
  type Draining,
  type HttpMount,
  type HttpServer,
} from './http/server.ts';
import { serveMcp } from './mcp/mcp-routes.ts';
import { type McpSource, noMcp } from './mcp/options.ts';
import { serveDocs } from './openapi/docs-routes.ts';

/** What surfaces need of the kernel. */
export type SurfaceKernel = Pick<
  Kernel,
  | 'settings'
  | 'log'
  | 'metrics'
  | 'tracing'
  | 'database'
  | 'secrets'
  | 'audit'
  | 'limits'
  | 'operations'
  | 'identity'
> &
  Partial<Pick<Kernel, 'modules' | 'bus' | 'config' | 'schemas' | 'sockets' | 'prompts'>>;

export interface HttpSurfaceOptions {
  readonly client?: SurfaceOptionsSource;
  readonly admin?: SurfaceOptionsSource;
  readonly graphql?: GraphqlOptionsSource;
  readonly mcp?: McpSource;
  readonly limits?: LimitSettingsProvider;
  /** How much a request may use. */
  readonly requests?: RequestSettingsProvider;
  /** Milliseconds that running requests have when the surfaces close; STOP_GRACE_MS unless set. */
  readonly graceMs?: number;
}

export interface HttpSurfaces {
  /** Such as `http://127.0.0.1:3000`. */
  readonly clientAddress: string;
  readonly adminAddress: string;
  /** The pipeline that the surfaces use, for further transports. */
  readonly pipeline: Pipeline;
  readonly graphql: ServedGraphql;
  /** Serves another protocol on the port of a surface. */
  mountOnClient(mount: HttpMount): void;
  mountOnAdmin(mount: HttpMount): void;
  /** `close` gives clients with kept connections a moment to hear, with an answer, that theirs ends. */
  closeGently(): void;
  close(): Promise<void>;
}

/** Milliseconds for what failed when the time was over to reach its clients. */
const LAST_ANSWERS_MS = 2_000;

/** Throws `StartError` when a port cannot be used; nothing listens then. */
export async function startHttpSurfaces(
  kernel: SurfaceKernel,
  options: HttpSurfaceOptions = {},
): Promise<HttpSurfaces> {
  const client = options.client ?? fixedSurfaceOptions(defaultSurfaceOptions('client'));
  const admin = options.admin ?? fixedSurfaceOptions(defaultSurfaceOptions('admin'));
  const { config, schemas } = kernel;
  const objects = config && schemas && createObjectDirectory({ config, schemas });
  const actions = createActionLog(kernel.audit, kernel.log, objects);
  const pipeline = createSurfacePipeline(kernel, options, { actions, objects });
  const histogram = requestHistogram(kernel.metrics);
  const modules = createModuleMetrics(kernel.metrics, kernel.operations);
  const { operations: registry, identity } = kernel;
  const graphql = serveGraphql({
    registry,
    sockets: kernel.sockets,
    pipeline,
    identity,
    log: kernel.log.child({ surface: 'graphql' }),
    options: options.graphql ?? fixedGraphqlOptions(),
    measure: measureFields(kernel.metrics),
  });
  const onInvalid = countInvalid(kernel.metrics, 'mcp');
  const mcp = serveMcp({
    registry,
    pipeline,
    actions,
    ...{ limits: kernel.limits, prompts: kernel.prompts, onInvalid },
    source: options.mcp ?? noMcp,
    surface: admin,
    client,
    log: kernel.log.child({ surface: 'mcp' }),
  });
  const draining = createDraining();
  const make = (surface: SurfaceName, source: SurfaceOptionsSource): HttpServer =>
    createSurfaceServer(kernel, {
      surface,
      source,
      pipeline,
      draining,
      observe: createRequestMetrics(surface, histogram, modules),
      protocolHandlers: surface === 'client' ? graphql.handlers : mcp,
    });
  const servers = { client: make('client', client), admin: make('admin', admin) };

  const { graceMs } = options;
  const { close, closeGently } = createClosing(kernel, { ...servers, pipeline, draining, graceMs });

  measureGates(kernel, pipeline);
  serveDocs(kernel.operations, { client, admin });
  countRoutes(kernel, 'client');
  countRoutes(kernel, 'admin');
  try {
    const addresses = await listenBoth(kernel, servers);
    const mounts = { mountOnClient: servers.client.mount, mountOnAdmin: servers.admin.mount };
    return { ...addresses, ...mounts, pipeline, graphql, closeGently, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function createSurfacePipeline(
  kernel: SurfaceKernel,
  options: HttpSurfaceOptions,
  { actions, objects }: Pick<PipelineParts, 'actions' | 'objects'>,
): Pipeline {
  return createPipeline({
    identity: kernel.identity,
    limiter: createOperationLimiter(kernel.limits, options.limits),
    idempotency: createIdempotency(kernel),
    actions,
    log: kernel.log,
    tracing: kernel.tracing,
    requests: options.requests,
    objects,
  });
}

/** Throws `StartError` when a port cannot be used. */
async function listenBoth(
  { settings }: SurfaceKernel,
  { client, admin }: Readonly<Record<SurfaceName, HttpServer>>,
): Promise<Pick<HttpSurfaces, 'clientAddress' | 'adminAddress'>> {
  const { host, workers = 1, clientHttpPort, adminHttpPort } = settings;
  const listen = (server: HttpServer, port: number, portVariable: string): Promise<string> =>
    server.listen({ port, host, portVariable, shared: workers > 1 });
  return {
    clientAddress: await listen(client, clientHttpPort, 'CLIENT_HTTP_PORT'),
    adminAddress: await listen(admin, adminHttpPort, 'ADMIN_HTTP_PORT'),
  };
}

interface ClosingParts {
  readonly client: HttpServer;
  readonly admin: HttpServer;
  readonly pipeline: Pipeline;
  readonly draining: Draining;
  readonly graceMs: number | undefined;
}

function createClosing(
  kernel: SurfaceKernel,
  { client, admin, pipeline, draining, graceMs }: ClosingParts,
): Pick<HttpSurfaces, 'close' | 'closeGently'> {
  let gentle = false;
  return {
    closeGently() {
      gentle = true;
    },
    async close() {
      // Ports first: clients that were told to come back on another connection would fill the queue that closing resets.
      if (gentle) await Promise.all([client.closePort(), admin.closePort()]);
      draining.begin();
      const wait = graceMs ?? kernel.settings.stop.graceMs;
      const over = Promise.withResolvers<void>();
      let givingUp: Promise<void> | undefined;
      const late = setTimeout(() => {
        givingUp = giveUp(kernel, pipeline);
        void givingUp.then(() => sleep(LAST_ANSWERS_MS)).then(over.resolve);
      }, wait);
      const how = { gentle, cutWhen: over.promise };
      await Promise.all([client.close(how), admin.close(how)]);
      clearTimeout(late);
      await givingUp;
      pipeline.close();
    },
  };
}

/**
 * The time is over. First the database ends what it runs for us, so that nothing is stored of which the client
 * hears that it failed, and what was stored still gets its answer; then the rest answers 503.
 */
async function giveUp({ database, log }: SurfaceKernel, pipeline: Pipeline): Promise<void> {
  log.warn({}, 'Requests that still run are given up: the time to stop is over');
  await database
    .endSessions()
    .catch((error: unknown) =>
      log.error({ err: error }, 'Sessions of the database could not be ended'),
    );
  pipeline.giveUp();
}

/** How full the process is, and who waits. */
function measureGates({ metrics }: SurfaceKernel, { gates }: Pipeline): void {
  const read = (what: 'running' | 'waiting') => (): GaugeReading =>
    Object.entries(gates.counts()).map(([kind, counts]) => ({
      labels: { kind },
      value: counts[what],
    }));
  metrics.gauge(
    'requests_running',
    'Requests that are worked on: all of them, the heavy ones among them, and those whose body is read meanwhile',
    read('running'),
    ['kind'],
  );
  metrics.gauge('requests_waiting', 'Requests that wait for their turn', read('waiting'), ['kind']);
}

function countRoutes({ metrics, operations, settings }: SurfaceKernel, surface: SurfaceName): void {
  const labels = ['module_name', 'transport'];
  const module_name = surface === 'client' ? 'router' : 'core';
  const read = (): GaugeReading => {
    const own = operations
      .all()
      .flatMap(({ operation }) => (operation.surface === surface ? [operation] : []));
    const counts = {
      rest: own.reduce((sum, operation) => sum + routesOf(operation).length, 0),
      graphql:
        surface === 'client'
          ? own.filter((operation) => operation.graphql !== false && !operation.legacy).length
          : 0,
      sockets: surface === 'client' && settings.clientSocketPort >= 0 ? 1 : 0,
    };
    return Object.entries(counts).map(([transport, value]) => ({
      labels: { module_name, transport },
      value,
    }));
  };
  metrics.gauge(
    `${surface}_routes_total`,
    `Routes of the ${surface} surface, by transport`,
    read,
    labels,
  );
}

interface SurfaceParts {
  readonly surface: SurfaceName;
  readonly source: SurfaceOptionsSource;
  readonly pipeline: Pipeline;
  readonly draining: Draining;
  readonly observe: ReturnType<typeof createRequestMetrics>;
  readonly protocolHandlers?: GatewayParts['protocolHandlers'];
}

function createSurfaceServer(
  kernel: SurfaceKernel,
  { surface, source, pipeline, draining, observe, protocolHandlers }: SurfaceParts,
): HttpServer {
  const log = kernel.log.child({ surface });
  const unknown = kernel.metrics.counter(
    'unknown_input_total',
    'Calls with parameters or fields that their operation does not know',
    ['operation'],
  );
  const onInvalid = countInvalid(kernel.metrics, surface);
  const gateway = createGateway({
    surface,
    onInvalid,
    pipeline,
    onUnknown: (operation) => unknown.inc({ operation }),
    observe,
    log,
    tracing: kernel.tracing,
    modules: kernel.modules,
    freshness: kernel.bus?.freshness,
    options: source,
    draining,
    ...(protocolHandlers ? { protocolHandlers } : {}),
    routes: createRouteTable(surface, kernel.operations, log),
    logRequests: kernel.settings.logLevel === 'debug',
  });
  const addressOf = createAddressOf(kernel.settings.trustedProxies);
  return createHttpServer((request, response, url) => {
    void gateway.handle(
      new Exchange({
        ...{ surface, request, response, url, address: addressOf(request) },
        requestIdHeader: source.current().requestIdHeader,
      }),
    );
  });
}
