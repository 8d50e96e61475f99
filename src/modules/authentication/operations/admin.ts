/** Users as operators see them. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { authErrors } from '../errors.ts';
import type { UserAdmin } from '../services/accounts/user-admin.ts';
import { sortable } from '../services/accounts/user-queries.ts';
import { Email, Password, User, UserId } from './shapes.ts';

const Ids = Type.Array(Type.String({ format: 'uuid' }), {
  minItems: 1,
  maxItems: 1000,
  description: 'Their ids',
});
const Sort = Type.Array(Type.Enum(sortable.flatMap((name) => [name, `-${name}`])), {
  maxItems: sortable.length,
  description: 'What to order by; - in front: descending',
});
const nameConflicts = [
  authErrors.USER_EXISTS,
  authErrors.USERNAME_EXISTS,
  authErrors.PHONE_NUMBER_EXISTS,
];

const admin = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const adminOperations = (users: UserAdmin): readonly Operation[] => [
  listOperation(users),
  createOperation(users),
  updateOperation(users),
  deleteOperation(users),
  deleteManyOperation(users),
  blockOperation(users, true),
  blockOperation(users, false),
  toggleOperation(users),
];

const listOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.list',
    method: 'GET',
    path: '/authentication/users',
    input: {
      query: Type.Object({
        ...pagingQuery(),
        sort: Type.Optional(Sort),
        search: Type.Optional(
          Type.String({
            maxLength: 254,
            description: 'An id, or a part of the address, user name or phone number',
          }),
        ),
        isActive: Type.Optional(
          Type.Boolean({ description: 'Only those that may sign in, or only those that may not' }),
        ),
        isAnonymous: Type.Optional(
          Type.Boolean({ description: 'Only anonymous ones, or only the others' }),
        ),
        provider: Type.Optional(
          Type.String({
            pattern: '^[A-Za-z][A-Za-z0-9_-]{0,63}$',
            description:
              '`local`: accounts with a password; else the name of a provider that they are linked to',
          }),
        ),
      }),
    },
    output: Type.Object({ users: Type.Array(User), count: Type.Integer() }),
    summary: 'List users',
    handler: async (_context, { query: { sort = [], ...filter } }) =>
      Reply.json(await users.list({ ...filter, sort })),
  });

const createOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.create',
    method: 'POST',
    path: '/authentication/users',
    input: {
      body: Type.Object({
        email: Type.Optional(Email),
        username: Type.Optional(
          Type.String({ minLength: 3, maxLength: 64, description: 'A name that nobody else has' }),
        ),
        password: Password,
      }),
    },
    output: Type.Object({ user: User, message: Type.String() }),
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.USERNAME_INVALID,
      authErrors.PASSWORD_WEAK,
      ...nameConflicts,
    ],
    summary: 'Create a user',
    description: 'With exactly one of email and username. The user counts as verified.',
    handler: async ({ caller }, { body }) =>
      Reply.json(
        `{"user":${(await users.create(caller, body)).json},"message":"User was created"}`,
      ),
  });

const updateOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.update',
    method: 'PATCH',
    path: '/authentication/users/:id',
    input: {
      params: UserId,
      body: Type.Object({
        email: Type.Optional(Type.Union([Email, Type.Null()])),
        isVerified: Type.Optional(
          Type.Boolean({
            description: 'False after a change of the address unless it is given with it',
          }),
        ),
        phoneNumber: Type.Optional(
          Type.Union([Type.String({ maxLength: 32, description: 'E.164' }), Type.Null()]),
        ),
        hasTwoFA: Type.Optional(
          Type.Boolean({
            description: 'False takes the second factor off. True only by SMS, with a phone number',
          }),
        ),
        twoFaMethod: Type.Optional(
          Type.Union(
            [
              Type.Literal('authenticator'),
              Type.Literal('sms'),
              Type.Literal('passkey'),
              Type.Null(),
            ],
            { description: 'How the second factor is given' },
          ),
        ),
        requiresTwoFA: Type.Optional(
          Type.Boolean({
            description:
              'Whether they must set a second factor up when they sign in next (while `twoFa.enabled`)',
          }),
        ),
      }),
    },
    output: User,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.USER_NOT_FOUND,
      ...nameConflicts,
    ],
    summary: 'Change a user',
    description:
      'Fields that cannot be set here are ignored, so that a whole user can be sent back.',
    handler: async ({ caller }, { params, body }) =>
      Reply.json((await users.update(caller, params.id, body)).json),
  });

const deleteOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.delete',
    method: 'DELETE',
    path: '/authentication/users/:id',
    input: { params: UserId },
    output: TextResult,
    errors: [authErrors.USER_NOT_FOUND, recordErrors.RECORD_IN_USE],
    summary: 'Delete a user',
    description: 'With their sessions, which end at once.',
    handler: async ({ caller }, { params }) => {
      await users.remove(caller, [params.id]);
      return 'User was deleted';
    },
  });

const deleteManyOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.deleteMany',
    method: 'DELETE',
    path: '/authentication/users',
    input: { query: Type.Object({ ids: Ids }) },
    output: TextResult,
    errors: [authErrors.USER_NOT_FOUND, recordErrors.RECORD_IN_USE],
    summary: 'Delete several users',
    description: 'All of them or, when one does not exist, none.',
    handler: async ({ caller }, { query }) => {
      await users.remove(caller, query.ids);
      return 'Users were deleted';
    },
  });

const blockOperation = (users: UserAdmin, block: boolean): Operation =>
  defineOperation({
    ...admin,
    id: block ? 'authentication.users.block' : 'authentication.users.unblock',
    method: 'POST',
    path: block ? '/authentication/users/:id/block' : '/authentication/users/:id/unblock',
    input: { params: UserId },
    output: TextResult,
    errors: [
      block ? authErrors.USER_ALREADY_BLOCKED : authErrors.USER_NOT_BLOCKED,
      authErrors.USER_NOT_FOUND,
    ],
    summary: block ? 'Block a user' : 'Unblock a user',
    description: block
      ? 'Ends their sessions at once; they cannot log in.'
      : 'They can log in again.',
    handler: async ({ caller }, { params }) => {
      await users.setBlocked(caller, [params.id], block);
      return block ? 'User was blocked' : 'User was unblocked';
    },
  });

const toggleOperation = (users: UserAdmin): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.toggle',
    method: 'POST',
    path: '/authentication/users/toggle',
    destructive: true,
    input: {
      body: Type.Object({
        ids: Ids,
        block: Type.Boolean({ description: 'true blocks, false unblocks' }),
      }),
    },
    output: TextResult,
    errors: [
      authErrors.USER_ALREADY_BLOCKED,
      authErrors.USER_NOT_BLOCKED,
      authErrors.USER_NOT_FOUND,
    ],
    summary: 'Block or unblock several users',
    handler: async ({ caller }, { body }) => {
      await users.setBlocked(caller, body.ids, body.block);
      return body.block ? 'Users were blocked' : 'Users were unblocked';
    },
  });
