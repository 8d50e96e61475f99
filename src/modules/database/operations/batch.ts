/** `POST /database/batch`: several operations on records of any schemas, all of them or none. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import type { RouteMiddlewares, RouteName } from '../../../kernel/middlewares/route-middlewares.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { runBatch, runEach } from '../services/batch.ts';
import { type BatchOperation, requireTaken } from '../services/batch-references.ts';

/* What operators put before a record route holds for the same operation in a batch too. */

const routes: Readonly<Record<BatchOperation['op'], (schema: string) => RouteName>> = {
  create: (schema) => ({ surface: 'client', method: 'POST', path: `/database/${schema}` }),
  read: (schema) => ({ surface: 'client', method: 'GET', path: `/database/${schema}/:id` }),
  update: (schema) => ({ surface: 'client', method: 'PATCH', path: `/database/${schema}/:id` }),
  replace: (schema) => ({ surface: 'client', method: 'PUT', path: `/database/${schema}/:id` }),
  delete: (schema) => ({ surface: 'client', method: 'DELETE', path: `/database/${schema}/:id` }),
  move: (schema) => ({ surface: 'client', method: 'POST', path: `/database/${schema}/:id/move` }),
};

/** Throws 401 for what needs a user, 403 for what has a budget of its own, which only its own route can keep. */
function requireMiddlewares(
  middlewares: RouteMiddlewares,
  caller: Caller,
  operations: readonly BatchOperation[],
): void {
  for (const [index, { op, schema }] of operations.entries()) {
    for (const name of middlewares.addedTo(routes[op](schema))) {
      if (name === 'authMiddleware' && caller.kind === 'user') continue;
      const place = `operations.${index}`;
      if (name === 'authMiddleware')
        throw errors.UNAUTHORIZED({ message: `${place}: sign in for this` });
      throw errors.FORBIDDEN({
        message: `${place}: this route has a limit of its own: call it by itself`,
      });
    }
  }
}

const MAX_OPERATIONS = 100;

const operationShape = Type.Object({
  op: Type.Enum(['create', 'read', 'update', 'replace', 'delete', 'move']),
  schema: Type.String({ maxLength: 64 }),
  id: Type.Optional(
    Type.Unknown({ description: 'Id of the record, or {"$ref": "<operation>"}. Not for create' }),
  ),
  data: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Fields; for move `to`, the new owner. Not for read and delete. {"$ref": "<operation>"} stands for the id of the record that an earlier operation answered, {"$ref": "<operation>.<field>"} for a single value in it',
    }),
  ),
  ref: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'Name for references; the place in the list, from 0, works too',
    }),
  ),
  scope: Type.Optional(Type.String({ maxLength: maxReferenceLength })),
  version: Type.Optional(
    Type.Integer({
      minimum: 0,
      description:
        'Version (`__v`) that you saw; another one stored is 412. Not for create and read',
    }),
  ),
});

const resultShape = Type.Object({
  op: Type.String(),
  schema: Type.String(),
  document: Type.Optional(Type.Unknown({ description: 'The record' })),
  id: Type.Optional(Type.String({ description: 'Of the record that was deleted' })),
  error: Type.Optional(
    Type.Unknown({ description: 'Why this operation failed; only with atomic: false' }),
  ),
});

const {
  RECORD_INVALID,
  RECORD_NOT_FOUND,
  RECORD_NOT_UNIQUE,
  RECORD_IN_USE,
  DEPENDANT_LIMIT_EXCEEDED,
  WRITE_CONFLICT,
  PERMISSIONS_UNAVAILABLE,
} = recordErrors;

interface BatchKernel {
  readonly database: Database;
  readonly records: RecordStore;
  readonly middlewares: RouteMiddlewares;
}

export const batchOperation = (parts: BatchKernel): Operation =>
  defineOperation({
    id: 'database.batch',
    surface: 'client',
    access: 'optionalUser',
    limit: standardLimit,
    method: 'POST',
    path: '/database/batch',
    bodyLimit: 8 * 1024 * 1024,
    heavy: true,
    input: {
      body: Type.Object({
        operations: Type.Array(operationShape, { minItems: 1, maxItems: MAX_OPERATIONS }),
        atomic: Type.Optional(
          Type.Boolean({
            default: true,
            description: 'False: each operation for itself, with its error in its place',
          }),
        ),
      }),
    },
    output: Type.Object({ results: Type.Array(resultShape) }),
    errors: [
      schemaErrors.SCHEMA_NOT_FOUND,
      RECORD_INVALID,
      RECORD_NOT_FOUND,
      RECORD_NOT_UNIQUE,
      RECORD_IN_USE,
      DEPENDANT_LIMIT_EXCEEDED,
      WRITE_CONFLICT,
      PERMISSIONS_UNAVAILABLE,
      errors.FORBIDDEN,
      errors.PRECONDITION_FAILED,
    ],
    summary: 'Do several things with records as one',
    description:
      'What each operation may do is decided as for its own route. When one fails, nothing has happened; the error names its place.',
    async handler({ caller }, { body: { operations, atomic = true } }) {
      const given = operations as readonly BatchOperation[];
      requireTaken(given);
      requireMiddlewares(parts.middlewares, caller, given);
      // Operations that stand for themselves must not share the transaction that an Idempotency-Key opens.
      const results = atomic
        ? await runBatch(parts, caller, given)
        : await parts.database.outside(() => runEach(parts, caller, given));
      return Reply.json(`{"results":[${results.join(',')}]}`);
    },
  });
