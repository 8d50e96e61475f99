/**
 * What operators put before the routes of the client surface, as state. Lists of admin routes stay out: they are in
 * the hands of super admins, and a document is not. A document may speak of routes that come later.
 */
import Type from 'typebox';
import type { Problem } from '../../kernel/errors.ts';
import type { RouteMiddlewares } from '../../kernel/middlewares/create.ts';
import { isMiddleware, routeKeyOf } from '../../kernel/middlewares/names.ts';
import type { Method } from '../../kernel/operation.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import type { PlacedDocument, StateDocument, StateType } from '../../kernel/state/state.ts';

const surface = 'client';
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

const ListDocument = Type.Object({
  action: Type.Enum([...methods]),
  path: Type.String({ pattern: '^/', maxLength: 1_024, description: 'Parameters without their names: /database/Post/:' }),
  middlewares: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: 16 }),
});

export const middlewareState = (middlewares: RouteMiddlewares): StateType => ({
  module: 'router',
  type: 'routeMiddlewares',
  priority: 50,
  document: ListDocument,
  keyOf: keyOfDocument,
  export: async () =>
    [...middlewares.stored()].flatMap(([key, names]) => {
      const [of, action, path] = key.split(' ');
      return of === surface ? [{ action, path, middlewares: names }] : [];
    }),
  async complete(_caller, documents) {
    const problems = documents.flatMap(unknownNames);
    if (problems.length > 0) throw invalidInput(problems);
    return documents.map(({ document }) => ({
      action: document.action,
      path: keyOfDocument(document).split(' ').at(-1),
      middlewares: [...new Set(document.middlewares as string[])],
    }));
  },
  apply: (caller, changes) =>
    middlewares.put(caller, new Map(changes.map(({ key, after }) => [key, after?.middlewares as readonly string[] | undefined]))),
});

function keyOfDocument({ action, path }: StateDocument): string {
  return routeKeyOf(surface, action as Method, String(path));
}

const unknownNames = ({ document, place }: PlacedDocument): readonly Problem[] =>
  (document.middlewares as readonly string[]).flatMap((name, i) =>
    isMiddleware(name) ? [] : [{ path: `${place}.middlewares.${i}`, rule: 'enum', message: 'there is no such middleware' }],
  );
