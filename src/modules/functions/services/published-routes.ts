/** Which routes of functions there are, and under which paths. */
import type { Operation } from '../../../kernel/operations/operation.ts';
import { type OperationRegistry, routesOf } from '../../../kernel/operations/registry.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { type RouteParts, requestRoute, webhookRoute } from './routes.ts';

/** First parts of paths that the platform has, or will have when a module is switched on. */
const reserved: ReadonlySet<string> = new Set(
  (
    'admin apps authentication authorization chat communications config core database docs email embeddings files forms ' +
    'functions graphql health hook live mcp metrics modules notifications preferences push ready realtime reference router ' +
    'security sms state storage swagger templates token tokens unsubscribe webhooks well-known'
  ).split(' '),
);

export const isReservedName = (name: string): boolean => reserved.has(name);

/** Whether nothing else has the path of the short form. */
function hasShortForm({ path }: Operation, taken: ReadonlySet<string>): boolean {
  const [, first = '', second = ''] = shortOf(path).split('/');
  const isHook = first === 'hook';
  return !isReservedName(isHook ? second : first) && !taken.has(isHook ? `hook/${second}` : first);
}

const shortOf = (path: string): string => path.replace(/^(\/hook)?\/functions\//, '$1/');

const withShortForm = (operation: Operation): Operation => ({
  ...operation,
  aliases: [{ method: operation.method, path: shortOf(operation.path) }],
});

const firstParts = ({ operations, owner }: { operations: OperationRegistry; owner: string }) =>
  new Set(
    operations
      .all()
      .filter((one) => one.owner !== owner && one.operation.surface === 'client')
      .flatMap(({ operation }) => routesOf(operation))
      .map(({ path }) => path.split('/').slice(1))
      .map(([first, second]) => (first === 'hook' ? `hook/${second}` : String(first))),
  );

export interface FunctionRoutes {
  /** Makes the routes of these functions, all of them or those that can be. */
  publish(all: readonly StoredFunction[]): void;
  /** Why a function does not serve. */
  problemOf(id: string): string | undefined;
  /** What keeps another form of a function, such as its socket, from being served; until routes are made again. */
  note(one: StoredFunction, error: unknown): void;
}

const OWNER = 'functions/routes';

interface MadeRoute {
  readonly plain: Operation;
  /** Also under its short form. */
  readonly whole: Operation;
}

export function createFunctionRoutes(
  parts: RouteParts,
  operations: OperationRegistry,
  log: Pick<Logger, 'error'>,
): FunctionRoutes {
  const made = new WeakMap<StoredFunction, MadeRoute>();
  let problems = new Map<string, string>();

  const note = (one: StoredFunction, error: unknown): void => {
    problems.set(one._id, error instanceof Error ? error.message : 'it cannot be served');
    log.error({ err: error, function: one.name }, 'A function cannot be served and is left out');
  };

  /** The same objects as before for what did not change: surfaces remember what they compiled. */
  function routeOf(one: StoredFunction): MadeRoute | undefined {
    const known = made.get(one);
    if (known) return known;
    const isRequest = one.functionType === 'request';
    if (!isRequest && one.functionType !== 'webhook') return undefined;
    const plain = isRequest ? requestRoute(parts, one) : webhookRoute(parts, one);
    const route = { plain, whole: withShortForm(plain) };
    made.set(one, route);
    return route;
  }

  /** Nothing for what has no route, and for what cannot be served: that must not take the others with it. */
  function served(one: StoredFunction, taken: ReadonlySet<string>): readonly Operation[] {
    try {
      const route = one.enabled ? routeOf(one) : undefined;
      if (!route) return [];
      return [hasShortForm(route.plain, taken) ? route.whole : route.plain];
    } catch (error) {
      note(one, error);
      return [];
    }
  }

  return {
    problemOf: (id) => problems.get(id),
    note,
    publish(all) {
      const taken = firstParts({ operations, owner: OWNER });
      problems = new Map();
      const owners = new Map<Operation, StoredFunction>();
      for (const one of all) for (const route of served(one, taken)) owners.set(route, one);
      operations.replace(OWNER, [...owners.keys()], (operation, name) => {
        const one = owners.get(operation);
        if (one) note(one, new Error(`something else has ${name}`));
      });
    },
  };
}
