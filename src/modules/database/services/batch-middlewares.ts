/** What operators put before a record route holds for the same operation in a batch too. */
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { RouteMiddlewares, RouteName } from '../../../kernel/middlewares/create.ts';
import type { BatchOperation } from './batch-operation.ts';

const routes: Readonly<Record<BatchOperation['op'], (schema: string) => RouteName>> = {
  create: (schema) => ({ surface: 'client', method: 'POST', path: `/database/${schema}` }),
  read: (schema) => ({ surface: 'client', method: 'GET', path: `/database/${schema}/:id` }),
  update: (schema) => ({ surface: 'client', method: 'PATCH', path: `/database/${schema}/:id` }),
  replace: (schema) => ({ surface: 'client', method: 'PUT', path: `/database/${schema}/:id` }),
  delete: (schema) => ({ surface: 'client', method: 'DELETE', path: `/database/${schema}/:id` }),
};

/** Throws 401 for what needs a user, 403 for what has a budget of its own, which only its own route can keep. */
export function requireMiddlewares(middlewares: RouteMiddlewares, caller: Caller, operations: readonly BatchOperation[]): void {
  for (const [index, { op, schema }] of operations.entries()) {
    for (const name of middlewares.addedTo(routes[op](schema))) {
      if (name === 'authMiddleware' && caller.kind === 'user') continue;
      const place = `operations.${index}`;
      if (name === 'authMiddleware') throw errors.UNAUTHORIZED({ message: `${place}: sign in for this` });
      throw errors.FORBIDDEN({ message: `${place}: this route has a limit of its own: call it by itself` });
    }
  }
}
