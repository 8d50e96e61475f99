/** Resource definitions, as operators keep them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import type { Definitions } from '../services/definitions/definitions.ts';
import {
  Definition,
  definitionOnWire,
  Instant,
  Outcome,
  outcomeOnWire,
  paging,
  RefParam,
  sortBy,
} from './shapes.ts';

/** Far below what the column holds: changes without a version, and those of schemas, take the next one. */
const MAX_VERSION = 2_000_000_000;

export const resourceOperations = (definitions: Definitions): readonly Operation[] => [
  define(definitions),
  list(definitions),
  get(definitions),
  versions(definitions),
  change(definitions),
  remove(definitions),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
/** Other nodes take a definition in after the commit, so its answer is no part of a stored one. */
const write = { ...facts, idempotency: false } as const;
const bodyLimit = 256 * 1024;

const force = Type.Object({
  force: Type.Boolean({
    default: false,
    description:
      'Also when stored relations would not be valid any more (they are deleted) or others need it',
  }),
});

const Names = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description });
const content = {
  relations: Names(
    'For each relation the list of those who may stand in it: Type, Type#relation, Type:*, or *; {"from": <field>} for one that is a field of the record; {"types": [...], "shareable": true} for one that users give each other',
  ),
  permissions: Names(
    'For each action the list of roles that give it, or an object of union, intersection, exclusion, every',
  ),
  conditions: Type.Optional(
    Names(
      'Conditions by name, for relations written "Type with condition": a rule in CEL with the types of its parameters, or comparisons',
    ),
  ),
  actAs: Type.Optional(
    Type.String({
      maxLength: 64,
      description:
        'Action that lets somebody act for a scope of this type; the asked one unless set',
    }),
  ),
  version: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MAX_VERSION, description: 'Higher than the stored one' }),
  ),
};
/** A definition as it is written. */
export const NewDefinitionShape = Type.Object({
  name: Type.String({
    maxLength: 128,
    description: 'Name of the type; of a schema, where it is about its records',
  }),
  ...content,
});
const changeErrors = [authorizationErrors.RESOURCE_MISMATCH, authorizationErrors.RESOURCE_IN_USE];

interface Content {
  readonly relations: Record<string, unknown>;
  readonly permissions: Record<string, unknown>;
  readonly conditions?: Record<string, unknown>;
  readonly actAs?: string;
  readonly version?: number;
}

/** What of it is stored. */
export const contentOf = ({
  relations,
  permissions,
  conditions = {},
  actAs,
  version,
}: Content) => ({
  relations,
  permissions,
  conditions,
  actAs: actAs ?? null,
  version,
});

const define = (definitions: Definitions): Operation =>
  defineOperation({
    ...write,
    id: 'authorization.resources.define',
    method: 'POST',
    path: '/authorization/resources',
    bodyLimit,
    input: { query: force, body: NewDefinitionShape },
    output: Outcome,
    errors: changeErrors,
    summary: 'Define a type',
    description:
      'For a type that is there, a higher version replaces it; the same content is acknowledged; a lower or missing version is ignored. In force on every node when the answer comes.',
    async handler({ caller }, { query, body: { name, ...rest } }) {
      return outcomeOnWire(await definitions.define(caller, { name, ...contentOf(rest) }, query));
    },
  });

const sortable = ['name', 'version', 'createdAt', 'updatedAt'] as const;

const list = (definitions: Definitions): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.resources.list',
    method: 'GET',
    path: '/authorization/resources',
    input: {
      query: Type.Object({
        ...paging,
        search: Type.Optional(
          Type.String({
            maxLength: 128,
            description: 'An id, or part of the name; case does not matter',
          }),
        ),
        sort: sortBy(sortable, 'name'),
      }),
    },
    output: Type.Object({ resources: Type.Array(Definition), count: Type.Integer() }),
    summary: 'List resource definitions',
    async handler(_context, { query: { skip, limit, search, sort } }) {
      const part = search?.toLowerCase() ?? '';
      const found = (await definitions.all()).filter(
        ({ id, name }) => id === part || name.toLowerCase().includes(part),
      );
      const key = sortable.find((name) => name === sort.replace(/^-/, '')) ?? 'name';
      const direction = sort.startsWith('-') ? -1 : 1;
      const ordered = found.sort((a, b) =>
        a[key] === b[key] ? (a.name < b.name ? -1 : 1) : a[key] < b[key] ? -direction : direction,
      );
      return {
        resources: ordered.slice(skip, skip + limit).map(definitionOnWire),
        count: found.length,
      };
    },
  });

const get = (definitions: Definitions): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.resources.get',
    method: 'GET',
    path: '/authorization/resources/:id',
    input: { params: RefParam },
    output: Definition,
    errors: [authorizationErrors.RESOURCE_NOT_FOUND],
    summary: 'Read a resource definition',
    handler: async (_context, { params }) => definitionOnWire(await definitions.get(params.id)),
  });

const versions = (definitions: Definitions): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.resources.versions',
    method: 'GET',
    path: '/authorization/resources/:id/versions',
    input: { params: RefParam, query: Type.Object({ limit: paging.limit }) },
    output: Type.Object({
      versions: Type.Array(
        Type.Object({
          revision: Type.Integer({ description: 'Counts the changes of all definitions' }),
          definition: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
            description: 'null: it was deleted',
          }),
          changedAt: Instant,
          changedBy: Type.String(),
        }),
      ),
    }),
    errors: [authorizationErrors.RESOURCE_NOT_FOUND],
    summary: 'List what a resource definition was',
    description: 'Newest first; also of a deleted one, by its name.',
    async handler(_context, { params, query }) {
      const found = await definitions.versions(params.id, query.limit);
      return {
        versions: found.map((version) => ({
          ...version,
          changedAt: version.changedAt.toISOString(),
        })),
      };
    },
  });

const change = (definitions: Definitions): Operation =>
  defineOperation({
    ...write,
    id: 'authorization.resources.change',
    method: 'PATCH',
    path: '/authorization/resources/:id',
    bodyLimit,
    input: { params: RefParam, query: force, body: Type.Object(content) },
    output: Outcome,
    errors: [authorizationErrors.RESOURCE_NOT_FOUND, ...changeErrors],
    summary: 'Change a resource definition',
    description:
      'Relations, permissions and conditions are replaced as a whole. Without a version the next one is taken.',
    async handler({ caller }, { params, query, body }) {
      return outcomeOnWire(await definitions.change(caller, params.id, contentOf(body), query));
    },
  });

const remove = (definitions: Definitions): Operation =>
  defineOperation({
    ...write,
    id: 'authorization.resources.delete',
    method: 'DELETE',
    path: '/authorization/resources/:id',
    input: { params: RefParam, query: force },
    output: Type.Object({ result: Type.String() }),
    errors: [
      authorizationErrors.RESOURCE_NOT_FOUND,
      authorizationErrors.RESOURCE_IN_USE,
      authorizationErrors.RESOURCE_BUILT_IN,
    ],
    summary: 'Delete a resource definition',
    description: 'With all relations and permissions of objects of this type.',
    async handler({ caller }, { params, query }) {
      const removed = await definitions.remove(caller, params.id, query);
      return `Resource deleted, with ${removed} relations`;
    },
  });
