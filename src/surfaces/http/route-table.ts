/**
 * Which operation answers a method and a path. The table is built from the
 * registry beside the one in use and takes its place by one assignment, so a
 * request sees either all of a change or nothing of it.
 */
import createRouter, { type HTTPMethod } from 'find-my-way';
import { type CompiledOperation, compileOperation } from '../../kernel/operations/compile.ts';
import type { Method, Operation, SurfaceName } from '../../kernel/operations/operation.ts';
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
  /** What the operations of the path say to OPTIONS beside that. */
  optionsHeaders(url: string): Readonly<Record<string, string>>;
}

const methods: readonly Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Characters of one path parameter. Longer ones match nothing. */
const MAX_PARAM = 2_048;

/**
 * A table that follows the registry. It is brought up to date when it is next needed after a change: many changes,
 * one build. The paths are in groups by their first two literal segments, each with a router of its own, so that a new
 * schema builds the routes of that schema and not those of everything.
 */
export function createRouteTable(
  surface: SurfaceName,
  registry: OperationRegistry,
  log: Logger,
): RouteTable {
  let groups: ReadonlyMap<string, RouteGroup> = new Map();
  let isCurrent = false;
  registry.onChange(() => {
    isCurrent = false;
  });
  const table = (): ReadonlyMap<string, RouteGroup> => {
    if (!isCurrent) {
      groups = buildGroups(surface, registry, groups, log);
      isCurrent = true;
    }
    return groups;
  };
  const find = (method: string, url: string): ReturnType<RouteTable['find']> => {
    const current = table();
    for (const key of groupKeysOfUrl(url)) {
      const found = current.get(key)?.find(method, url);
      if (found !== undefined) return found;
    }
    return isDecodable(url) ? undefined : 'malformed';
  };
  return {
    find,
    allowed(url) {
      const known = methods.filter((method) => typeof find(method, url) === 'object');
      return known.includes('GET') ? ['GET', 'HEAD', ...known.slice(1)] : known;
    },
    optionsHeaders(url) {
      const headers: Record<string, string> = {};
      for (const method of methods) {
        const found = find(method, url);
        if (typeof found === 'object')
          Object.assign(headers, found.route.compiled.operation.optionsHeaders);
      }
      return headers;
    },
  };
}

/** The routes below one beginning. */
interface RouteGroup {
  /** What the router was made from. The same operations make the same router. */
  readonly operations: readonly Operation[];
  find(method: string, url: string): Match | 'malformed' | undefined;
}

function buildGroups(
  surface: SurfaceName,
  registry: OperationRegistry,
  before: ReadonlyMap<string, RouteGroup>,
  log: Logger,
): ReadonlyMap<string, RouteGroup> {
  const byKey = new Map<string, Operation[]>();
  for (const { operation } of registry.all()) {
    if (operation.surface !== surface) continue;
    for (const key of groupKeysOf(operation)) {
      const operations = byKey.get(key);
      if (operations) operations.push(operation);
      else byKey.set(key, [operation]);
    }
  }
  const groups = new Map<string, RouteGroup>();
  for (const [key, operations] of byKey) {
    const known = before.get(key);
    const isSame =
      known?.operations.length === operations.length &&
      operations.every((operation, i) => operation === known.operations[i]);
    groups.set(key, isSame ? known : buildGroup(key, operations, log));
  }
  return groups;
}

interface Found {
  readonly store: Route | null;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly searchParams: unknown;
}

function routerOf(key: string, operations: readonly Operation[], log: Logger) {
  const router = createRouter({
    ignoreTrailingSlash: true,
    maxParamLength: MAX_PARAM,
    // The decoder reads the query against the operation's schema; the router only cuts it off.
    querystringParser: (text) => text,
    // Without it a malformed path looks like an unknown one.
    onBadUrl: unreachable,
  });
  for (const operation of operations) {
    const compiled = compileOperation(operation);
    for (const { method, path } of routesOf(operation)) {
      if (groupKeyOf(path) !== key) continue;
      try {
        router.on(method, path, unreachable, { compiled, template: path } satisfies Route);
      } catch (error) {
        // One bad template must not take every other route with it.
        log.error({ error, operation: operation.id, method, path }, 'A route could not be added');
      }
    }
  }
  return router;
}

/** Its router is made when it is first looked through: after an import there may be thousands at once. */
function buildGroup(key: string, operations: readonly Operation[], log: Logger): RouteGroup {
  let router: ReturnType<typeof routerOf> | undefined;
  return {
    operations,
    find(method, url) {
      router ??= routerOf(key, operations, log);
      const found = router.find(method as HTTPMethod, url) as unknown as Found | null;
      if (found === null) return undefined;
      if (found.store === null) return 'malformed';
      return {
        route: found.store,
        params: found.params,
        query: typeof found.searchParams === 'string' ? found.searchParams : '',
      };
    },
  };
}

/** The router stores handlers; ours are found through its store. */
function unreachable(): never {
  throw new Error('Routes are found, not called');
}

/* Groups. A router prefers literal segments to parameters at every segment, so it is the same whether it looks through all routes or through those of the longest literal beginning first. */

/** The first two segments of a template as far as they are literal: `database/Post`, `ready`, or nothing. */
function groupKeyOf(path: string): string {
  const [, first = '', second = ''] = path.split('/', 3);
  if (!isLiteral(first)) return '';
  return second !== '' && isLiteral(second) ? `${first}/${second}` : first;
}

const isLiteral = (segment: string): boolean => !/[:*(]/.test(segment);

const keysOfOperations = new WeakMap<Operation, ReadonlySet<string>>();

function groupKeysOf(operation: Operation): ReadonlySet<string> {
  const known = keysOfOperations.get(operation);
  if (known) return known;
  const keys = new Set(routesOf(operation).map(({ path }) => groupKeyOf(path)));
  keysOfOperations.set(operation, keys);
  return keys;
}

/** Scheme and host of a request in absolute form, as proxies send it. */
const origin = /^https?:\/\/[^/?#]*/i;

/** The groups that may hold the route of an address, the most literal one first. */
function groupKeysOfUrl(url: string): readonly string[] {
  const path = url.startsWith('/') ? url : url.replace(origin, '');
  const firstEnd = segmentEnd(path, 1);
  const first = decoded(path.slice(1, firstEnd));
  if (path[firstEnd] !== '/') return [first, ''];
  return [decoded(path.slice(1, segmentEnd(path, firstEnd + 1))), first, ''];
}

/** Where the segment ends that begins at `from`. */
function segmentEnd(path: string, from: number): number {
  for (let i = from; i < path.length; i += 1) {
    const character = path[i];
    if (character === '/' || character === '?' || character === '#') return i;
  }
  return path.length;
}

/** Literal segments may come percent-encoded. What cannot be decoded names no group. */
function decoded(segments: string): string {
  if (!segments.includes('%')) return segments;
  try {
    return decodeURI(segments);
  } catch {
    return '';
  }
}

function isDecodable(url: string): boolean {
  const [path = ''] = url.split(/[?#]/, 1);
  if (!path.includes('%')) return true;
  try {
    decodeURI(path);
    return true;
  } catch {
    return false;
  }
}
