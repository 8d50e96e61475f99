/** Relation tuples and direct permissions, as operators write and read them. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { grantRelation } from '../model/model.ts';
import { type TupleFilter, tupleOrders } from '../queries.ts';
import type { ChangeRelations } from '../services/relation-changes.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';
import type { Tuples } from '../services/tuples.ts';
import { changeOperations } from './relation-changes.ts';
import {
  asRequested,
  Name,
  nameOf,
  ofMany,
  Permission,
  paging,
  permissionOnWire,
  Relation,
  RelationIdParam,
  Resource,
  relationOnWire,
  Subject,
  sortBy,
  tupleExtras,
  tupleOf,
  written,
} from './shapes.ts';

export interface RelationServices {
  readonly tuples: Tuples;
  readonly change: ChangeRelations;
  readonly tokens: ConsistencyTokens;
  /** Most relations that one request may write. */
  readonly maxBatch: () => number;
}

/*
 * What adds or takes rights away is strict: a misspelt `expiresAt` or `condition` would be a right without an end, and a
 * misspelt filter would delete more than was meant.
 */
export const relationOperations = (services: RelationServices): readonly Operation[] => [
  create(services),
  createMany(services),
  ...changeOperations(services),
  list(services),
  removeMatching(services),
  get(services),
  remove(services),
  grant(services),
  listGrants(services),
  revoke(services),
  revokeMatching(services),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const bulkBodyLimit = 2 * 1024 * 1024;

/** An object reference, or a type name, that narrows a list. */
const objectFields = {
  subject: Type.Optional(Subject),
  resource: Type.Optional(Resource),
  subjectType: Type.Optional(Name),
  resourceType: Type.Optional(Name),
};
const search = Type.Optional(
  Type.String({
    maxLength: 256,
    description:
      'Part of subject#relation@resource; case does not matter. Every relation is looked at (about a second for a million); subject and resource are found at once',
  }),
);

interface FilterInput {
  readonly subject?: string;
  readonly relation?: string;
  readonly resource?: string;
  readonly subjectType?: string;
  readonly resourceType?: string;
  readonly search?: string;
}

const filterOf = ({ subject, resource, ...rest }: FilterInput): TupleFilter => ({
  ...rest,
  ...(subject === undefined ? {} : { subject: parseSubject(subject, 'subject') }),
  ...(resource === undefined ? {} : { resource: parseObject(resource, 'resource') }),
});

const listFields = {
  ...paging,
  ...objectFields,
  search,
  sort: sortBy(tupleOrders, '_id'),
};

const create = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.create',
    about: { resource: 'inside' },
    method: 'POST',
    path: '/authorization/relations',
    strict: true,
    input: {
      body: Type.Object({ subject: Subject, relation: Name, resource: Resource, ...tupleExtras }),
    },
    output: Relation,
    summary: 'Write a relation',
    description:
      'One that is there already is answered as it is, with the condition, attributes and expiry of this request. It counts for the very next question on every node.',
    async handler({ caller }, { body }) {
      const [tuple] = await tuples.write(caller, [
        tupleOf({ ...body, relation: nameOf(body.relation, 'relation') }),
      ]);
      return written(tokens, tuple && relationOnWire(tuple));
    },
  });

const createMany = ({ tuples, tokens, maxBatch }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.createMany',
    about: { resources: 'inside' },
    method: 'POST',
    path: '/authorization/relations/many',
    strict: true,
    bodyLimit: bulkBodyLimit,
    input: {
      body: Type.Object({
        subject: Subject,
        relation: Name,
        resources: Type.Array(Resource, {
          minItems: 1,
          maxItems: 1000,
          description: 'Objects, as <Type>:<id>',
        }),
        ...tupleExtras,
      }),
    },
    output: Type.Array(Relation),
    summary: 'Write one relation to many resources',
    description:
      'All of them or none; those that are there already count as written. At most 1,000, up to 100 are recommended.',
    async handler({ caller }, { body: { resources, ...rest } }) {
      if (resources.length > maxBatch())
        throw invalid('resources', 'maxItems', `at most ${maxBatch()} at once`);
      const shared = tupleOf({
        ...rest,
        relation: nameOf(rest.relation, 'relation'),
        resource: 'Any:any',
      });
      const requested = resources.map((resource, i) => ({
        ...shared,
        resource: parseObject(resource, `resources.${i}`),
      }));
      const stored = await asRequested(ofMany, () => tuples.write(caller, requested));
      return written(tokens, stored.map(relationOnWire));
    },
  });

const list = ({ tuples }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.list',
    about: { resource: 'open', resourceType: 'open' },
    method: 'GET',
    path: '/authorization/relations',
    input: { query: Type.Object({ ...listFields, relation: Type.Optional(Name) }) },
    output: Type.Object({ relations: Type.Array(Relation), count: Type.Integer() }),
    summary: 'List relations',
    async handler(_context, { query: { skip, limit, sort, ...filter } }) {
      const { tuples: found, count } = await tuples.list('relation', filterOf(filter), {
        skip,
        limit,
        sort,
      });
      return { relations: found.map(relationOnWire), count };
    },
  });

const get = ({ tuples }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.get',
    method: 'GET',
    path: '/authorization/relations/:id',
    input: { params: RelationIdParam },
    output: Relation,
    errors: [authorizationErrors.RELATION_NOT_FOUND],
    summary: 'Read a relation',
    handler: async (_context, { params }) => relationOnWire(await tuples.get(params.id)),
  });

const remove = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.delete',
    method: 'DELETE',
    path: '/authorization/relations/:id',
    input: { params: RelationIdParam },
    output: TextResult,
    errors: [authorizationErrors.RELATION_NOT_FOUND],
    summary: 'Delete a relation',
    description: 'It counts for nothing from the very next question on, on every node.',
    async handler({ caller }, { params }) {
      await tuples.remove(caller, params.id);
      return written(tokens, { result: 'Relation deleted' });
    },
  });

const filterRule =
  'The filter names at least one of subject, resource, subjectType and resourceType; all given parts must match. Types, relations and actions that no definition knows are 400.';
const Deleted = Type.Object({ deleted: Type.Integer({ description: 'How many there were' }) });

const removeMatching = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.relations.deleteMatching',
    about: { resource: 'inside', resourceType: 'inside' },
    method: 'DELETE',
    path: '/authorization/relations',
    strict: true,
    input: {
      query: Type.Object({
        ...objectFields,
        relation: Type.Optional(Name),
        grants: Type.Optional(
          Type.Boolean({
            description: 'Direct permissions that match as well; not with `relation`',
          }),
        ),
      }),
    },
    output: Type.Object({
      ...Deleted.properties,
      inRecords: Type.Optional(
        Type.Boolean({
          description:
            'Fields of records say relations that match too (`source: record`): they stay until the records are changed',
        }),
      ),
    }),
    summary: 'Delete all relations that match',
    description: filterRule,
    async handler({ caller }, { query: { grants = false, ...filter } }) {
      if (grants && filter.relation !== undefined)
        throw invalid('grants', 'conflict', 'a direct permission has no relation');
      const kind = grants ? 'any' : 'relation';
      const { deleted, inRecords } = await tuples.removeMatching(caller, kind, filterOf(filter));
      return written(tokens, { deleted, ...(inRecords && { inRecords }) });
    },
  });

const grantParts = { subject: Subject, permission: Name, resource: Resource };

const grant = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.grant',
    about: { resource: 'inside' },
    method: 'POST',
    path: '/authorization/permissions',
    strict: true,
    input: { body: Type.Object({ ...grantParts, expiresAt: tupleExtras.expiresAt }) },
    output: Permission,
    summary: 'Grant one action on one resource directly',
    description: 'Beside what relations give. Granting it again is no error.',
    async handler({ caller }, { body: { permission, ...rest } }) {
      const [tuple] = await tuples.write(caller, [
        tupleOf({ ...rest, relation: grantRelation(nameOf(permission, 'permission')) }),
      ]);
      return written(tokens, tuple && permissionOnWire(tuple));
    },
  });

const listGrants = ({ tuples }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.list',
    about: { resource: 'open', resourceType: 'open' },
    method: 'GET',
    path: '/authorization/permissions',
    input: { query: Type.Object({ ...listFields, permission: Type.Optional(Name) }) },
    output: Type.Object({ permissions: Type.Array(Permission), count: Type.Integer() }),
    summary: 'List direct permissions',
    async handler(_context, { query: { skip, limit, sort, permission, ...filter } }) {
      const relation = permission === undefined ? {} : { relation: grantRelation(permission) };
      const { tuples: found, count } = await tuples.list(
        'permission',
        { ...filterOf(filter), ...relation },
        { skip, limit, sort },
      );
      return { permissions: found.map(permissionOnWire), count };
    },
  });

const revokeMatching = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.revokeMatching',
    about: { resource: 'inside', resourceType: 'inside' },
    method: 'DELETE',
    path: '/authorization/permissions/many',
    strict: true,
    input: { query: Type.Object({ ...objectFields, permission: Type.Optional(Name) }) },
    output: Deleted,
    summary: 'Take all direct permissions away that match',
    description: filterRule,
    async handler({ caller }, { query: { permission, ...filter } }) {
      const named =
        permission === undefined
          ? {}
          : { relation: grantRelation(nameOf(permission, 'permission')) };
      return written(tokens, {
        deleted: (
          await tuples.removeMatching(caller, 'permission', { ...filterOf(filter), ...named })
        ).deleted,
      });
    },
  });

const revoke = ({ tuples, tokens }: RelationServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.revoke',
    about: { resource: 'inside' },
    method: 'DELETE',
    path: '/authorization/permissions',
    input: { query: Type.Object(grantParts) },
    output: TextResult,
    errors: [authorizationErrors.PERMISSION_NOT_FOUND],
    summary: 'Take a direct permission away',
    async handler({ caller }, { query: { subject, permission, resource } }) {
      const filter = { ...filterOf({ subject, resource }), relation: grantRelation(permission) };
      if ((await tuples.removeMatching(caller, 'permission', filter)).deleted === 0)
        throw authorizationErrors.PERMISSION_NOT_FOUND();
      return written(tokens, { result: 'Permission revoked' });
    },
  });
