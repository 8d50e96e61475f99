/**
 * Which operation answers a method and a path. The table is built from the
 * registry beside the one in use and takes its place by one assignment, so a
 * request sees either all of a change or nothing of it.
 */
import createRouter, { type HTTPMethod } from 'find-my-way';
import { type CompiledOperation, compileOperation } from '../../kernel/operations/compile.ts';
import type { Method, SurfaceName } from '../../kernel/operations/operation.ts';
import { type OperationRegistry, routesOf } from '../../kernel/operations/registry.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';

export interface Route {
  readonly compiled: CompiledOperation;
  /** As declared, with `:name`; bounded in number, so fit for metric labels. */
  readonly template: string;
}

export interface Match {
  readonly route: Route;
  /** Decoded. */
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The part after `?`, as it came. */
  readonly query: string;
}

export interface RouteTable {
  /** `undefined`: no such route. `'malformed'`: the path is not valid percent-encoding. */
  find(method: string, url: string): Match | 'malformed' | undefined;
  /** The methods that the path knows, for `Allow`. */
  allowed(url: string): readonly string[];
}

const methods: readonly Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Characters of one path parameter. Longer ones match nothing. */
const MAX_PARAM = 2_048;

/** A table that follows the registry. It is rebuilt when it is next needed after a change: many changes, one build. */
export function createRouteTable(
  surface: SurfaceName,
  registry: OperationRegistry,
  log: Logger,
): RouteTable {
  let current: RouteTable | undefined;
  registry.onChange(() => {
    current = undefined;
  });
  const table = (): RouteTable => {
    current ??= buildRouteTable(surface, registry, log);
    return current;
  };
  return {
    find: (method, url) => table().find(method, url),
    allowed: (url) => table().allowed(url),
  };
}

interface Found {
  readonly store: Route | null;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly searchParams: unknown;
}

function buildRouteTable(
  surface: SurfaceName,
  registry: OperationRegistry,
  log: Logger,
): RouteTable {
  const router = createRouter({
    ignoreTrailingSlash: true,
    maxParamLength: MAX_PARAM,
    // The decoder reads the query against the operation's schema; the router only cuts it off.
    querystringParser: (text) => text,
    // Without it a malformed path looks like an unknown one.
    onBadUrl: unreachable,
  });
  for (const { operation } of registry.all()) {
    if (operation.surface !== surface) continue;
    const compiled = compileOperation(operation);
    for (const { method, path } of routesOf(operation)) {
      try {
        router.on(method, path, unreachable, { compiled, template: path } satisfies Route);
      } catch (error) {
        // One bad template must not take every other route with it.
        log.error({ error, operation: operation.id, method, path }, 'A route could not be added');
      }
    }
  }
  return {
    find(method, url) {
      const found = router.find(method as HTTPMethod, url) as unknown as Found | null;
      if (found === null) return undefined;
      if (found.store === null) return 'malformed';
      return {
        route: found.store,
        params: found.params,
        query: typeof found.searchParams === 'string' ? found.searchParams : '',
      };
    },
    allowed(url) {
      const known = methods.filter(
        (method) => (router.find(method, url) as unknown as Found | null)?.store,
      );
      return known.includes('GET') ? ['GET', 'HEAD', ...known.slice(1)] : known;
    },
  };
}

/** The router stores handlers; ours are found through its store. */
function unreachable(): never {
  throw new Error('Routes are found, not called');
}
