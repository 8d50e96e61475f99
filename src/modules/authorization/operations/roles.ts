/** Roles of the 0.16 line, as operators keep them. */
import Type, { type Static } from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import { type RoleRow, roleOrders } from '../role-queries.ts';
import type { Roles } from '../services/roles.ts';
import { describedId, Id, Instant, paging, sortBy } from './shapes.ts';

export const roleOperations = (roles: Roles): readonly Operation[] => [
  list(roles),
  create(roles),
  update(roles),
  remove(roles),
  ofUser(roles),
  assign(roles),
  revoke(roles),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit, legacy: true } as const;

const RoleName = Type.String({
  pattern: '^[A-Za-z][\\w .-]{0,63}$',
  description: 'What people call it',
});
const description = Type.String({ maxLength: 1024, description: 'For people' });
const permissions = Type.Array(
  Type.String({ pattern: '^(\\*|[A-Za-z][\\w.-]{0,63}):(\\*|[A-Za-z][\\w.-]{0,63})$' }),
  {
    maxItems: 1000,
    description: '<resource>:<action>; * stands for any',
  },
);

/** A role as it is written. */
export const NewRoleShape = Type.Object({
  name: RoleName,
  description: Type.Optional(description),
  permissions: Type.Optional(permissions),
});

const Role = Type.Object({
  _id: Id,
  name: Type.String(),
  description: Type.String(),
  permissions: Type.Array(Type.String()),
  createdAt: Instant,
  updatedAt: Instant,
});

const roleOnWire = ({
  id,
  createdAt,
  updatedAt,
  permissions: held,
  ...rest
}: RoleRow): Static<typeof Role> => ({
  _id: id,
  ...rest,
  permissions: [...held],
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

const RoleList = Type.Object({ roles: Type.Array(Role), count: Type.Integer() });
const roleParam = Type.Object({ roleId: describedId('role') });
/** In a place where either can stand. */
const roleRef = Type.String({ minLength: 1, maxLength: 64, description: 'Name or id of the role' });
const userParam = Type.Object({ userId: describedId('user') });
const Message = Type.Object({ message: Type.String() });

const list = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.roles.list',
    method: 'GET',
    path: '/authorization/roles',
    input: {
      query: Type.Object({
        ...paging,
        sort: sortBy(roleOrders.keys(), 'name'),
        search: Type.Optional(
          Type.String({ maxLength: 64, description: 'Part of the name; case does not matter' }),
        ),
      }),
    },
    output: RoleList,
    summary: 'List roles',
    async handler(_context, { query }) {
      const { roles: found, count } = await roles.list(query);
      return { roles: found.map(roleOnWire), count };
    },
  });

const create = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.roles.create',
    method: 'POST',
    path: '/authorization/roles',
    input: { body: NewRoleShape },
    output: Role,
    errors: [authorizationErrors.ROLE_EXISTS],
    summary: 'Create a role',
    handler: async ({ caller }, { body }) => roleOnWire(await roles.create(caller, body)),
  });

const update = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.roles.update',
    method: 'PUT',
    path: '/authorization/roles/:roleId',
    input: {
      params: roleParam,
      body: Type.Object({
        name: Type.Optional(RoleName),
        description: Type.Optional(description),
        permissions: Type.Optional(permissions),
      }),
    },
    output: Role,
    errors: [authorizationErrors.ROLE_NOT_FOUND, authorizationErrors.ROLE_EXISTS],
    summary: 'Change a role',
    description: 'What is left out stays.',
    handler: async ({ caller }, { params, body }) =>
      roleOnWire(await roles.update(caller, params.roleId, body)),
  });

const remove = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.roles.delete',
    method: 'DELETE',
    path: '/authorization/roles/:roleId',
    input: { params: roleParam },
    output: Message,
    errors: [authorizationErrors.ROLE_NOT_FOUND],
    summary: 'Delete a role',
    description: 'Nobody holds it any more; its rules go with it.',
    async handler({ caller }, { params }) {
      await roles.remove(caller, params.roleId);
      return { message: 'Role deleted' };
    },
  });

const ofUser = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.users.roles',
    method: 'GET',
    path: '/authorization/users/:userId/roles',
    input: { params: userParam },
    output: RoleList,
    errors: [recordErrors.RECORD_NOT_FOUND],
    summary: 'List the roles that a user holds',
    description:
      'Those that they were given, and those that they hold through a team. The role "user", which everybody holds, is not among them.',
    async handler(_context, { params }) {
      const found = await roles.ofUser(params.userId);
      return { roles: found.map(roleOnWire), count: found.length };
    },
  });

const assign = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.users.assignRole',
    method: 'POST',
    path: '/authorization/users/:userId/roles',
    input: {
      params: userParam,
      body: Type.Object({ role: roleRef }),
    },
    output: Message,
    errors: [authorizationErrors.ROLE_NOT_FOUND, recordErrors.RECORD_NOT_FOUND],
    summary: 'Give a user a role',
    async handler({ caller }, { params, body }) {
      await roles.assign(caller, params.userId, body.role);
      return { message: 'Role assigned successfully' };
    },
  });

const revoke = (roles: Roles): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.users.revokeRole',
    method: 'DELETE',
    path: '/authorization/users/:userId/roles/:roleId',
    input: { params: Type.Object({ userId: describedId('user'), roleId: roleRef }) },
    output: Message,
    errors: [authorizationErrors.ROLE_NOT_FOUND, recordErrors.RECORD_NOT_FOUND],
    summary: 'Take a role from a user',
    description: 'The role "user", which everybody holds, stays.',
    async handler({ caller }, { params }) {
      await roles.revoke(caller, params.userId, params.roleId);
      return { message: 'Role revoked' };
    },
  });
