/** The routes of a description: by path and method, grouped by tags, and what repeats among hundreds of schemas left out. */
import Type from 'typebox';
import type { Method, Operation } from '../../kernel/operations/operation.ts';
import { moduleOf, type OwnedOperation, routesOf } from '../../kernel/operations/registry.ts';
import { compare, type Json } from './schemas.ts';

export interface RouteEntry {
  readonly module: string;
  readonly operation: Operation;
  readonly method: Method;
  /** As declared. */
  readonly path: string;
  /** A second spelling of the operation. */
  readonly alias: boolean;
}

/** Every route, by path and method. */
export function routeEntries(operations: readonly OwnedOperation[]): readonly RouteEntry[] {
  const entries = operations.flatMap(({ owner, operation }) =>
    routesOf(operation).map(
      ({ method, path }, i): RouteEntry => ({
        module: moduleOf(owner),
        operation,
        method,
        path,
        alias: i > 0,
      }),
    ),
  );
  return entries.sort((a, b) => compare(a.path, b.path) || compare(a.method, b.method));
}

/** Tags beyond which what differs by nothing but names stands once: programs read the whole description. */
const MANY_SCHEMAS = 100;

/** Whether routes are so many that what repeats among them is left out. */
export const isLargeList = (routes: readonly RouteEntry[]): boolean =>
  new Set(routes.map(({ operation }) => operation.tag)).size > MANY_SCHEMAS;

/**
 * Routes of many records (`/database/Post/many`), which every schema has: described once for all of them, with the name
 * of the schema as a parameter. Their bodies hold what the routes for one record take.
 */
export function withoutRepeated(routes: readonly RouteEntry[]): readonly RouteEntry[] {
  const families = new Set<string>();
  return routes.flatMap((route) => {
    const { tag } = route.operation;
    const path = tag === undefined ? route.path : route.path.replace(`/${tag}/`, '/:schema/');
    if (path === route.path || !path.endsWith('/many')) return [route];
    const family = `${route.method} ${path}`;
    if (families.has(family)) return [];
    families.add(family);
    return [{ ...route, path, operation: ofAnySchema(route.operation) }];
  });
}

const anyRecords = Type.Object({ docs: Type.Array(Type.Record(Type.String(), Type.Unknown())) });

function ofAnySchema({ tag = '', ...operation }: Operation): Operation {
  const schema = Type.String({ description: `Name of a schema, such as ${tag}` });
  return {
    ...operation,
    id: operation.id.replace(`.${tag}.`, '.'),
    summary: operation.summary.replace(`${tag} records`, 'records of a schema'),
    description:
      'Every schema has this route. The items of `docs` are as for one record of it, with `_id` where records are changed.',
    input: {
      ...operation.input,
      params: Type.Object({ schema }),
      ...(operation.input.body && { body: anyRecords }),
    },
    output: anyRecords,
  };
}

/** A tag for each module, and one for each schema of the database; viewers show the second kind below the first. */
export function tagsOf(
  routes: readonly RouteEntry[],
  { isLarge, about }: { isLarge: boolean; about: (module: string) => string },
): Json {
  const groups = new Map<string, Set<string>>();
  for (const { module, operation } of routes) {
    const tags = groups.get(module) ?? new Set();
    groups.set(module, tags.add(operation.tag ?? module));
  }
  const sorted = [...groups].sort(([a], [b]) => compare(a, b));
  const tags = sorted.flatMap(([module, names]) =>
    [...names].sort(compare).map((name) => {
      if (name === module) return { name, description: about(name) };
      return isLarge
        ? { name }
        : { name, description: `Records and endpoints of the schema ${name}.` };
    }),
  );
  const tagGroups = sorted.map(([name, names]) => ({ name, tags: [...names].sort(compare) }));
  return { tags, 'x-tagGroups': tagGroups };
}
