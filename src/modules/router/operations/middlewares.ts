/**
 * What stands before routes: read, and changed by operators (spec/router.md 2 and 5.2). The same for the routes of
 * both surfaces; those of the admin surface are in the hands of super admins, whose own rights hang on them.
 */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import type { RouteMiddlewares, RouteName } from '../../../kernel/middlewares/create.ts';
import { middlewareErrors } from '../../../kernel/middlewares/errors.ts';
import { middlewareMeanings } from '../../../kernel/middlewares/names.ts';
import { defineOperation, type Method, type Operation, Reply, type SurfaceName, standardLimit } from '../../../kernel/operation.ts';

export const middlewareOperations = (middlewares: RouteMiddlewares): readonly Operation[] => [
  list,
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
  { surface: 'client', id: 'router.middlewares', prefix: '/router', access: 'admin', title: 'a route of the client surface' },
  { surface: 'admin', id: 'router.adminMiddlewares', prefix: '', access: 'superAdmin', title: 'a route of the admin surface' },
];

const facts = { surface: 'admin', limit: standardLimit } as const;

const list = defineOperation({
  ...facts,
  id: 'router.middlewares.list',
  access: 'admin',
  method: 'GET',
  path: '/router/middlewares',
  input: {
    query: Type.Object({
      sortByName: Type.Optional(Type.Boolean({ description: 'true: ascending; false: descending; absent: as they are asked' })),
    }),
  },
  output: Type.Array(Type.String()),
  summary: 'List the middlewares that routes may have',
  description: [...middlewareMeanings]
    .map(([name, { meaning, addable }]) => `\`${name}\`: ${meaning}${addable ? '; operators may add it' : ''}.`)
    .join(' '),
  handler(_context, { query: { sortByName } }) {
    const names = [...middlewareMeanings.keys()];
    if (sortByName !== undefined) names.sort();
    return Reply.json(JSON.stringify(sortByName === false ? names.reverse() : names));
  },
});

const RouteQuery = Type.Object({
  path: Type.String({ minLength: 1, maxLength: 1_024, description: 'As GET /router/routes has it, with :name for parameters' }),
  action: Type.String({ maxLength: 16, description: 'GET, POST, PUT (or UPDATE), PATCH or DELETE' }),
});

const read = (middlewares: RouteMiddlewares, { surface, id, prefix, title }: PatchedSurface): Operation =>
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
    handler: (_context, { query }) => ({ middlewares: [...middlewares.of(routeOf(surface, query))] }),
  });

const patch = (middlewares: RouteMiddlewares, { surface, id, prefix, access, title }: PatchedSurface): Operation =>
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

function routeOf(surface: SurfaceName, { path, action }: { readonly path: string; readonly action: string }): RouteName {
  const method = methods.get(action.toUpperCase());
  if (!method) throw invalid('action', 'enum', 'must be GET, POST, PUT, UPDATE, PATCH or DELETE');
  return { surface, method, path };
}
