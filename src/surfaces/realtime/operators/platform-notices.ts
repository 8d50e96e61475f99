/** What operators hear of the platform itself: modules, configuration, routes, the log, events, and who is connected. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { OperatorNamespace } from '../../../kernel/sockets/operator-notices.ts';

type PlatformKernel = Pick<
  Kernel,
  'operatorNotices' | 'operations' | 'modules' | 'config' | 'bus' | 'logTail'
>;

/** Sockets of users on this node, and what they listen to. */
interface ConnectionCounts {
  readonly sockets: number;
  readonly subscriptions: number;
  readonly queries: number;
  readonly listeners: number;
}

const Time = Type.String({ format: 'date-time' });
const OrNull = Type.Union([Type.String(), Type.Null()]);
const Module = Type.Object({ module: Type.String() });
const count = Type.Integer({ minimum: 0 });
/** Ids of one event that are told. */
const MAX_IDS = 100;

const coreNamespace: OperatorNamespace = {
  name: '/core',
  module: 'core',
  summary: 'What happens to the platform',
  topics: [
    { name: 'module:up', summary: 'A module serves again', payload: Module },
    { name: 'module:down', summary: 'A module does not serve any more', payload: Module },
    {
      name: 'config:update',
      summary: 'A configuration is another one; its values are read over HTTP',
      payload: Module,
    },
    {
      name: 'routes:refresh',
      summary: 'Operations came or went',
      payload: Type.Object({ client: count, admin: count }),
    },
    {
      name: 'log',
      summary: 'A line of the log of this node, from `info` on',
      superAdmin: true,
      unscoped: true,
      onRequest: true,
      payload: Type.Object({
        level: Type.Enum(['info', 'warn', 'error']),
        time: Time,
        message: Type.String(),
        fields: Type.Record(Type.String(), Type.Unknown()),
      }),
    },
    {
      name: 'event',
      summary: 'Something that happened to data, on any node: what is shown of it may be read anew',
      unscoped: true,
      onRequest: true,
      payload: Type.Object({
        topic: Type.String(),
        sequence: count,
        occurredAt: Time,
        actor: Type.String(),
        schema: Type.Optional(Type.String()),
        operation: Type.Optional(Type.Enum(['insert', 'update', 'delete'])),
        ids: Type.Optional(Type.Array(Type.String(), { maxItems: MAX_IDS })),
      }),
      from: { events: ['*'], data: eventNotice },
    },
  ],
};

const Opened = Type.Object({ node: Type.String(), namespace: Type.String(), user: OrNull });

const routerNamespace: OperatorNamespace = {
  name: '/router',
  module: 'router',
  summary: 'Who is connected to this node',
  topics: [
    {
      name: 'connections',
      summary: 'How many are connected, when that is different; looked at every 2 s',
      payload: Type.Object({
        node: Type.String(),
        sockets: count,
        subscriptions: count,
        queries: count,
        listeners: count,
      }),
    },
    { name: 'socket:opened', summary: 'A socket came', onRequest: true, payload: Opened },
    {
      name: 'socket:closed',
      summary: 'A socket went',
      onRequest: true,
      payload: Type.Object({ ...Opened.properties, reason: Type.String() }),
    },
  ],
};

/** Never the payload: what it says is for those who may read what it is about. */
function eventNotice({ topic, sequence, occurredAt, actor, ...about }: PublishedEvent): object {
  const { schema, operation, ids } = about;
  return {
    ...{ topic, sequence, occurredAt, actor },
    ...(schema !== undefined && { schema }),
    ...(operation !== undefined && { operation }),
    ...(ids !== undefined && { ids: ids.slice(0, MAX_IDS) }),
  };
}

const LOOK_MS = 2_000;
/** Milliseconds in which changes of routes are one change: a module brings many. */
const ROUTES_MS = 100;

/** Answers how to stop. */
export function tellOfPlatform(
  kernel: PlatformKernel,
  connections: () => ConnectionCounts,
): () => void {
  const { operatorNotices: notices, config, logTail, bus } = kernel;
  const core = (topic: string, data: () => object): void => notices.tell('/core', topic, data);
  const stops = [
    notices.register(coreNamespace),
    notices.register(routerNamespace),
    config.onChange((module) => core('config:update', () => ({ module }))),
    logTail.watch((line) => core('log', line)),
    followModules(kernel, core),
  ];
  let last = '';
  const look = setInterval(() => {
    const counts = { node: bus.nodeId, ...connections() };
    const now = JSON.stringify(counts);
    if (now !== last) notices.tell('/router', 'connections', () => counts);
    last = now;
  }, LOOK_MS);
  look.unref();
  return () => {
    clearInterval(look);
    for (const stop of stops) stop();
  };
}

/** Operations change when a module comes or goes, and when it publishes others. */
function followModules(
  { operations, modules }: Pick<Kernel, 'operations' | 'modules'>,
  core: (topic: string, data: () => object) => void,
): () => void {
  const states = (): ReadonlyMap<string, boolean> =>
    new Map(modules.list().map(({ name, serving }) => [name, serving]));
  let known = states();
  let timer: NodeJS.Timeout | undefined;
  let running = true;
  const routesOf = (surface: 'client' | 'admin'): number =>
    operations.all().filter(({ operation }) => operation.surface === surface).length;
  const look = (): void => {
    timer = undefined;
    const now = states();
    for (const [module, serving] of now)
      if (known.get(module) !== serving)
        core(serving ? 'module:up' : 'module:down', () => ({ module }));
    known = now;
    core('routes:refresh', () => ({ client: routesOf('client'), admin: routesOf('admin') }));
  };
  operations.onChange(() => {
    if (running) timer ??= setTimeout(look, ROUTES_MS).unref();
  });
  return () => {
    running = false;
    clearTimeout(timer);
  };
}
