/** Which routes there are, by module, in the shape that the admin panel reads. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { middlewareErrors } from '../../../kernel/middlewares/errors.ts';
import { middlewareMeanings } from '../../../kernel/middlewares/middleware-lists.ts';
import type { RouteMiddlewares, RouteName } from '../../../kernel/middlewares/route-middlewares.ts';
import {
  defineOperation,
  type Method,
  type Operation,
  Reply,
  type SurfaceName,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import {
  moduleOf,
  type OperationRegistry,
  type OwnedOperation,
} from '../../../kernel/operations/registry.ts';

/*
 * What stands before routes: read, and changed by operators (spec/router.md 2 and 5.2). The same for the routes of
 * both surfaces; those of the admin surface are in the hands of super admins, whose own rights hang on them.
 */

export const middlewareOperations = (middlewares: RouteMiddlewares): readonly Operation[] => [
  list(middlewares),
  ...surfaces.flatMap((of) => [read(middlewares, of), patch(middlewares, of)]),
];

interface PatchedSurface {
  readonly surface: SurfaceName;
  readonly id: string;
  readonly prefix: string;
  readonly access: 'admin' | 'superAdmin';
  readonly title: string;
}

const surfaces: readonly PatchedSurface[] = [
  {
    surface: 'client',
    id: 'router.middlewares',
    prefix: '/router',
    access: 'admin',
    title: 'a route of the client surface',
  },
  {
    surface: 'admin',
    id: 'router.adminMiddlewares',
    prefix: '',
    access: 'superAdmin',
    title: 'a route of the admin surface',
  },
];

const facts = { surface: 'admin', limit: standardLimit } as const;

const list = (middlewares: RouteMiddlewares): Operation =>
  defineOperation({
    ...facts,
    id: 'router.middlewares.list',
    access: 'admin',
    method: 'GET',
    path: '/router/middlewares',
    input: {
      query: Type.Object({
        sortByName: Type.Optional(
          Type.Boolean({
            description: 'true: ascending; false: descending; absent: as they are asked',
          }),
        ),
      }),
    },
    output: Type.Array(Type.String()),
    summary: 'List the middlewares that routes may have',
    description: [...middlewareMeanings]
      .map(
        ([name, { meaning, addable }]) =>
          `\`${name}\`: ${meaning}${addable ? '; operators may add it' : ''}.`,
      )
      .join(' '),
    handler(_context, { query: { sortByName } }) {
      const names = [...middlewareMeanings.keys(), ...middlewares.provided()];
      if (sortByName !== undefined) names.sort();
      return Reply.json(JSON.stringify(sortByName === false ? names.reverse() : names));
    },
  });

const RouteQuery = Type.Object({
  path: Type.String({
    minLength: 1,
    maxLength: 1_024,
    description: 'As GET /router/routes has it, with :name for parameters',
  }),
  action: Type.String({
    maxLength: 16,
    description: 'GET, POST, PUT (or UPDATE), PATCH or DELETE',
  }),
});

const read = (
  middlewares: RouteMiddlewares,
  { surface, id, prefix, title }: PatchedSurface,
): Operation =>
  defineOperation({
    ...facts,
    id: `${id}.get`,
    access: 'admin',
    method: 'GET',
    path: `${prefix}/route-middlewares`,
    about: { path: 'open' },
    input: { query: RouteQuery },
    output: Type.Object({ middlewares: Type.Array(Type.String()) }),
    errors: [middlewareErrors.ROUTE_NOT_FOUND],
    summary: `Read what stands before ${title}`,
    handler: (_context, { query }) => ({
      middlewares: [...middlewares.of(routeOf(surface, query))],
    }),
  });

const patch = (
  middlewares: RouteMiddlewares,
  { surface, id, prefix, access, title }: PatchedSurface,
): Operation =>
  defineOperation({
    ...facts,
    id: `${id}.patch`,
    access,
    method: 'PATCH',
    path: `${prefix}/patch-middleware`,
    about: { path: 'inside' },
    input: {
      query: RouteQuery,
      body: Type.Object({
        middlewares: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
          maxItems: 16,
          description: 'The whole list: what the module demands, and what you add',
        }),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: Object.values(middlewareErrors),
    summary: `Change what stands before ${title}`,
    description:
      'Holds on every node when it answers, after restarts, and however often the module registers its routes again. What the module demands cannot be left out.',
    async handler(context, { query, body }) {
      const route = routeOf(surface, query);
      context.audited({ changes: { from: middlewares.of(route), to: body.middlewares } });
      await middlewares.set(context.caller, route, body.middlewares);
      return { result: 'Middleware patched successfully' };
    },
  });

/** `UPDATE` is what existing clients call PUT. */
const methods: ReadonlyMap<string, Method> = new Map([
  ['GET', 'GET'],
  ['POST', 'POST'],
  ['PUT', 'PUT'],
  ['UPDATE', 'PUT'],
  ['PATCH', 'PATCH'],
  ['DELETE', 'DELETE'],
]);

function routeOf(
  surface: SurfaceName,
  { path, action }: { readonly path: string; readonly action: string },
): RouteName {
  const method = methods.get(action.toUpperCase());
  if (!method) throw invalid('action', 'enum', 'must be GET, POST, PUT, UPDATE, PATCH or DELETE');
  return { surface, method, path };
}

const Route = Type.Object({
  action: Type.String({ description: 'GET, POST, PUT, PATCH or DELETE' }),
  path: Type.String(),
  description: Type.String(),
  middlewares: Type.Array(Type.String()),
  handler: Type.String({ description: 'Id of the operation' }),
});
const ModuleRoutes = Type.Object({
  moduleUrl: Type.String({ description: 'Always `local`: all modules run in this process' }),
  routes: Type.Record(Type.String(), Route),
  socketRoutes: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Always empty: sockets subscribe to schemas, not to routes',
  }),
  middlewares: Type.Record(Type.String(), Type.Object({ description: Type.String() }), {
    description: 'What the module demands somewhere',
  }),
});

export const routesOperation = (
  registry: OperationRegistry,
  middlewares: RouteMiddlewares,
): Operation =>
  defineOperation({
    id: 'router.routes.list',
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    method: 'GET',
    path: '/router/routes',
    aliases: [{ method: 'GET', path: '/routes' }],
    input: {},
    output: Type.Record(Type.String(), ModuleRoutes),
    summary: 'List the routes of the client surface, by module',
    handler: () =>
      byModule(
        registry.all().filter(({ operation }) => operation.surface === 'client'),
        middlewares,
      ),
  });

function byModule(owned: readonly OwnedOperation[], middlewares: RouteMiddlewares) {
  const modules = Map.groupBy(owned, ({ owner }) => moduleOf(owner));
  return Object.fromEntries(
    [...modules].map(([module, own]) => [module, describe(own, middlewares)]),
  );
}

function describe(owned: readonly OwnedOperation[], middlewares: RouteMiddlewares) {
  const routes = owned.map(({ operation }) => ({
    action: operation.method,
    path: operation.path,
    description: operation.description ?? operation.summary,
    middlewares: [...middlewares.ofOperation(operation)],
    handler: operation.id,
  }));
  const used = [...new Set(routes.flatMap((route) => route.middlewares))].sort();
  return {
    moduleUrl: 'local',
    routes: Object.fromEntries(routes.map((route) => [route.handler, route])),
    socketRoutes: {},
    middlewares: Object.fromEntries(used.map((name) => [name, { description: meaningOf(name) }])),
  };
}

const meaningOf = (name: string): string =>
  middlewareMeanings.get(name.startsWith('rateLimit:') ? 'rateLimit:<requests>/<seconds>' : name)
    ?.meaning ?? '';
