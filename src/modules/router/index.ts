/** The router: what can be set about the client surface as a whole, and which apps may use it. */

import { isDeepStrictEqual } from 'node:util';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import type { ConfigHandle } from '../../kernel/config/config-definition.ts';
import { invalid } from '../../kernel/errors.ts';
import { limitNumbers } from '../../kernel/middlewares/middleware-lists.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import { withoutEnd } from '../../kernel/text.ts';
import { createChannels, type Realtime } from './channels/index.ts';
import { type RouterConfig, routerConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { clientOperations } from './operations/clients.ts';
import { relayOperations } from './operations/relays.ts';
import { middlewareOperations, routesOperation } from './operations/routes.ts';
import type { Platform } from './queries.ts';
import { startRelays } from './relays/namespace.ts';
import { createRelays } from './relays/relays.ts';
import { type Captcha, createCaptcha } from './services/captcha.ts';
import { createClients, measureClients } from './services/clients.ts';
import { createClientGate } from './services/gate.ts';
import { clientState, middlewareState, relayState } from './state.ts';

export type { Realtime } from './channels/index.ts';
export type { RouterConfig } from './config.ts';
export { routerErrors } from './errors.ts';
export type { Platform } from './queries.ts';
export type { Captcha } from './services/captcha.ts';

export interface RouterService {
  readonly config: ConfigHandle<RouterConfig>;
  /** Public address of the client surface, for links: the configured one, else the one that it listens on. */
  publicUrl(): string;
  readonly captcha: Captcha;
  /** What the server says to channels and to the sockets of users. */
  readonly realtime: Realtime;
  /** What a registered app runs on; nothing when there is no such app. */
  platformOf(clientId: string): Promise<Platform | undefined>;
  /** Told by the composition root once the client surface listens. */
  listensOn(address: string): void;
}

export const router = defineModule<typeof routerConfig.schema, RouterService>({
  name: 'router',
  description: 'The client surface: cross-origin rules, limits, addresses, apps',
  requires: {},
  essential: true,
  config: routerConfig,
  migrations,
  start,
});

async function start({
  kernel,
  config,
  log,
}: ModuleContext<RouterConfig>): Promise<RunningModule<RouterService>> {
  const gate = createClientGate({ ...kernel, log });
  const applyValidation = async ({ security }: RouterConfig): Promise<void> => {
    const before = kernel.identity.apps;
    kernel.identity.apps = security.clientValidation ? gate : undefined;
    if (kernel.identity.apps !== undefined && before === undefined)
      await kernel.identity.ends.tell({ withoutApp: true });
  };
  await applyValidation(config.current());
  measureClients(kernel);
  const channels = createChannels(kernel, () => config.current(), log);
  const stopChannels = channels.start();
  const relays = createRelays(kernel);
  const stopRelays = startRelays({ ...kernel, relays, log });
  const stopListening = config.onChange(async (next) => {
    channels.redefined();
    await applyValidation(next);
  });
  const stopLimits = serveOwnLimits(kernel, config);
  const clients = createClients({ ...kernel, gate });
  let local = '';
  return {
    service: {
      config,
      realtime: channels.realtime,
      captcha: createCaptcha(() => config.current().captcha, log),
      platformOf: async (clientId) => (await gate.find(clientId))?.platform,
      publicUrl: () => withoutEnd(config.current().hostUrl || local, '/'),
      listensOn(address) {
        local = address;
      },
    },
    operations: [
      ...clientOperations(clients),
      routesOperation(kernel.operations, kernel.middlewares),
      ...middlewareOperations(kernel.middlewares),
      ...relayOperations(relays),
    ],
    jobs: [channels.job],
    state: [
      clientState(kernel.database, clients),
      middlewareState(kernel.middlewares),
      relayState(relays),
    ],
    async stop() {
      stopListening();
      stopLimits();
      stopChannels();
      stopRelays();
      kernel.identity.apps = undefined;
    },
  };
}

/** The limits of single operations that operators set. Answers how to end that. */
function serveOwnLimits(
  { middlewares, operations }: Pick<Kernel, 'middlewares' | 'operations'>,
  config: ConfigHandle<RouterConfig>,
): () => void {
  const apply = ({ rateLimit }: RouterConfig): void =>
    middlewares.replaceLimits(
      new Map(
        Object.entries(rateLimit.operations).flatMap(([id, text]) => {
          const numbers = limitNumbers(text);
          return numbers ? [[id, numbers] as const] : [];
        }),
      ),
    );
  apply(config.current());
  const stopListening = config.onChange((next, previous) => {
    if (!isDeepStrictEqual(next.rateLimit.operations, previous.rateLimit.operations)) apply(next);
  });
  const endGuard = config.guard(async (next, previous, { force }) => {
    if (!force) requireLimited(operations, next, previous);
  });
  return () => {
    stopListening();
    endGuard();
  };
}

/** A limit that nothing asks for would be a silent one. Throws 400 for operations that there are not, or that declare none. */
function requireLimited(
  registry: OperationRegistry,
  { rateLimit }: RouterConfig,
  { rateLimit: before }: RouterConfig,
): void {
  for (const id of Object.keys(rateLimit.operations)) {
    if (id in before.operations) continue;
    const path = `rateLimit.operations.${id}`;
    const found = registry.all().find(({ operation }) => operation.id === id);
    if (!found)
      throw invalid(path, 'exists', 'there is no such operation: GET /router/routes has their ids');
    if (typeof found.operation.limit === 'string')
      throw invalid(
        path,
        'limited',
        'this operation has no limit of its own: PATCH /router/patch-middleware adds one',
      );
  }
}
