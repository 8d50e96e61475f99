/** Functions as operators write them. */
import Type from 'typebox';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  etagOf,
  expectedVersion,
  ifMatch,
  renditionOf,
} from '../../../kernel/operations/if-match.ts';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { DEFAULT_TIMEOUT, type StoredFunction } from '../definition/definition.ts';
import { functionErrors } from '../errors.ts';
import { codesOf } from '../queries/functions.ts';
import type { FunctionChange, Functions } from '../services/functions.ts';
import {
  adminFacts,
  FunctionChangeShape,
  FunctionParams,
  FunctionView,
  functionOnWire,
  IdParam,
  NewFunctionShape,
  Paging,
} from './shapes.ts';

export interface FunctionAdminParts {
  readonly functions: Functions;
  readonly database: Database;
  /** Why a function does not serve. */
  readonly problemOf: (one: StoredFunction) => string | undefined;
  /** When a schedule is due next; nothing for other kinds. */
  readonly nextRunsOf: (one: StoredFunction) => { readonly nextRuns?: readonly Date[] };
}

const problems = [
  functionErrors.FUNCTION_INVALID,
  functionErrors.FUNCTION_CODE_INVALID,
  functionErrors.FUNCTION_EXISTS,
];

export const functionOperations = (parts: FunctionAdminParts): readonly Operation[] => [
  upload(parts),
  list(parts),
  get(parts),
  update(parts),
  remove(parts),
  removeMany(parts),
  toggle(parts),
];

async function views(
  { database, problemOf, nextRunsOf }: FunctionAdminParts,
  rows: readonly StoredFunction[],
) {
  const codes = await codesOf(
    database,
    rows.map(({ _id }) => _id),
  );
  return rows.map((row) =>
    functionOnWire(row, codes.get(row._id) ?? '', {
      problem: row.damage?.problem ?? problemOf(row),
      ...nextRunsOf(row),
    }),
  );
}

async function view(parts: FunctionAdminParts, row: StoredFunction) {
  const [one] = await views(parts, [row]);
  if (!one) throw functionErrors.FUNCTION_NOT_FOUND();
  return one;
}

const upload = (parts: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.upload',
    method: 'POST',
    path: '/functions/upload',
    bodyLimit: 5 * 1_024 * 1_024,
    input: { body: NewFunctionShape },
    output: FunctionView,
    errors: problems,
    summary: 'Store a function',
    description: 'It serves on every node when this returns.',
    async handler({ caller }, { body }) {
      const { inputs = {}, returns = null, timeout = DEFAULT_TIMEOUT, ...given } = body;
      await parts.functions.requireKnownAction(inputs);
      return view(
        parts,
        await parts.functions.create(caller, { ...given, inputs, returns, timeout }),
      );
    },
  });

const sorts = ['name', '-name', 'createdAt', '-createdAt', 'updatedAt', '-updatedAt'] as const;

const list = (parts: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.list',
    method: 'GET',
    path: '/functions',
    input: {
      query: Type.Object({
        ...Paging,
        sort: Type.Enum([...sorts], {
          default: 'name',
          description: 'What to order by; - in front: descending',
        }),
        search: Type.Optional(
          Type.String({ maxLength: 100, description: 'An id, or a part of the name in any case' }),
        ),
      }),
    },
    output: Type.Object({ functions: Type.Array(FunctionView), count: Type.Integer() }),
    summary: 'List functions',
    async handler(_context, { query: { skip, limit, sort, search } }) {
      const part = search?.toLowerCase();
      const found = parts.functions.store
        .all()
        .filter(
          ({ _id, name }) =>
            part === undefined || _id === part || name.toLowerCase().includes(part),
        )
        .toSorted(orderOf(sort));
      return {
        functions: await views(parts, found.slice(skip, skip + limit)),
        count: found.length,
      };
    },
  });

function orderOf(sort: (typeof sorts)[number]) {
  const key = sort.replace('-', '') as 'name' | 'createdAt' | 'updatedAt';
  const direction = sort.startsWith('-') ? -1 : 1;
  return (a: StoredFunction, b: StoredFunction): number =>
    a[key] === b[key] ? (a._id < b._id ? -1 : 1) : a[key] < b[key] ? -direction : direction;
}

const get = (parts: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.get',
    method: 'GET',
    path: '/functions/:id',
    input: { params: FunctionParams },
    output: FunctionView,
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'Read a function',
    description: 'The ETag header has its version, for If-Match.',
    async handler(_context, { params }) {
      const one = parts.functions.get(params.id);
      const answer = await view(parts, one);
      return Reply.value(answer, {
        etag: etagOf(one.version, renditionOf(JSON.stringify(answer))),
      });
    },
  });

const update = (parts: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.update',
    method: 'PATCH',
    path: '/functions/:id',
    bodyLimit: 5 * 1_024 * 1_024,
    input: { params: FunctionParams, headers: ifMatch, body: FunctionChangeShape },
    output: Type.Object({ updated: Type.Literal(true) }),
    errors: [functionErrors.FUNCTION_NOT_FOUND, ...problems, errors.PRECONDITION_FAILED],
    summary: 'Change a function',
    description: 'What is left out stays. Each change is a version of its own.',
    async handler({ caller }, { params, headers, body }) {
      const change = body as FunctionChange;
      await parts.functions.requireKnownAction(change.inputs ?? {});
      const seen = expectedVersion(headers['if-match']);
      await parts.functions.update(caller, params.id, change, seen);
      return { updated: true as const };
    },
  });

const Deleted = Type.Object({ result: Type.Literal('Deleted') });

const remove = ({ functions }: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.delete',
    method: 'DELETE',
    path: '/functions/:id',
    input: { params: FunctionParams, headers: ifMatch },
    output: Deleted,
    errors: [functionErrors.FUNCTION_NOT_FOUND, errors.PRECONDITION_FAILED],
    summary: 'Delete a function with its versions and secrets',
    async handler({ caller }, { params, headers }) {
      await functions.remove(caller, [params.id], expectedVersion(headers['if-match']));
      return { result: 'Deleted' as const };
    },
  });

const removeMany = ({ functions }: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.deleteMany',
    method: 'DELETE',
    path: '/functions',
    input: {
      query: Type.Object({
        ids: Type.Array(IdParam, { minItems: 1, maxItems: 200, description: 'Their ids' }),
      }),
    },
    output: Deleted,
    errors: [functionErrors.FUNCTION_NOT_FOUND, errors.INVALID_ARGUMENTS],
    summary: 'Delete several functions, all of them or none',
    async handler({ caller }, { query }) {
      await functions.remove(caller, query.ids);
      return { result: 'Deleted' as const };
    },
  });

const toggle = (parts: FunctionAdminParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.functions.toggle',
    method: 'POST',
    path: '/functions/:id/toggle',
    input: {
      params: FunctionParams,
      body: Type.Object({
        enabled: Type.Optional(Type.Boolean({ description: 'The other way round unless given' })),
      }),
    },
    output: FunctionView,
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'Switch a function on or off',
    async handler({ caller }, { params, body }) {
      const { damage, ...found } = parts.functions.get(params.id);
      const { enabled } = damage ?? found;
      return view(parts, await parts.functions.enable(caller, params.id, body.enabled ?? !enabled));
    },
  });
