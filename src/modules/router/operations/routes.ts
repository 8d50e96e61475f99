/** Which routes there are, by module, in the shape that the admin panel reads. */
import Type from 'typebox';
import type { RouteMiddlewares } from '../../../kernel/middlewares/create.ts';
import { middlewareMeanings } from '../../../kernel/middlewares/names.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import { moduleOf, type OperationRegistry, type OwnedOperation } from '../../../kernel/registry.ts';

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
  socketRoutes: Type.Record(Type.String(), Type.Unknown(), { description: 'Always empty: sockets subscribe to schemas, not to routes' }),
  middlewares: Type.Record(Type.String(), Type.Object({ description: Type.String() }), {
    description: 'What the module demands somewhere',
  }),
});

export const routesOperation = (registry: OperationRegistry, middlewares: RouteMiddlewares): Operation =>
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
  return Object.fromEntries([...modules].map(([module, own]) => [module, describe(own, middlewares)]));
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
  middlewareMeanings.get(name.startsWith('rateLimit:') ? 'rateLimit:<requests>/<seconds>' : name)?.meaning ?? '';
