/** The accounts of admins. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { coreErrors } from '../errors.ts';
import { masterPrincipal } from '../services/accounts.ts';
import type { Admins } from '../services/admins.ts';
import { requireStoredAdmin, type Sessions } from '../services/sessions.ts';
import {
  Admin,
  adminOf,
  adminView,
  idOf,
  Message,
  masterAdmin,
  Password,
  Username,
} from './shapes.ts';

export const adminOperations = (admins: Admins, sessions: Sessions): readonly Operation[] => [
  list(admins),
  get(admins),
  create(admins),
  update(admins),
  remove(admins),
  changeOwnPassword(admins, sessions),
  setPassword(admins),
];

const facts = { surface: 'admin', limit: standardLimit } as const;
const IdParam = Type.Object({ id: Type.String() });

const list = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.list',
    method: 'GET',
    path: '/admins',
    access: 'admin',
    input: {
      query: Type.Object({
        ...optionalPagingQuery(),
        sort: Type.Optional(
          Type.String({
            maxLength: 64,
            description: 'A field such as `username`, with `-` before it to turn the order',
          }),
        ),
      }),
    },
    output: Type.Object({ admins: Type.Array(Admin), count: Type.Integer() }),
    summary: 'List admins',
    async handler(_context, { query: { skip = 0, limit = 25, sort } }) {
      const { rows, count } = await admins.list({ skip, limit, sort });
      return { admins: rows.map(adminView), count };
    },
  });

const get = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.get',
    method: 'GET',
    path: '/admins/:id',
    access: 'admin',
    input: { params: Type.Object({ id: Type.String({ description: 'An id, or `me`' }) }) },
    output: Admin,
    errors: [coreErrors.ADMIN_NOT_FOUND],
    summary: 'Read an admin',
    async handler({ caller }, { params }) {
      const id = params.id === 'me' ? adminOf(caller).adminId : params.id;
      if (id === masterPrincipal.adminId) return masterAdmin;
      return adminView(await admins.get(idOf('id', id)));
    },
  });

const create = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.create',
    unscoped: true,
    method: 'POST',
    path: '/admins',
    access: 'superAdmin',
    mcp: false,
    input: {
      body: Type.Object({
        username: Username,
        password: Password,
        isSuperAdmin: Type.Optional(Type.Boolean({ default: false })),
      }),
    },
    output: Type.Object({ message: Type.String(), admin: Admin }),
    errors: [coreErrors.ADMIN_EXISTS],
    summary: 'Create an admin',
    handler: async ({ caller }, { body }) => ({
      message: 'OK',
      admin: adminView(await admins.create(adminOf(caller), body)),
    }),
  });

const update = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.update',
    unscoped: true,
    method: 'PATCH',
    path: '/admins/:id',
    access: 'superAdmin',
    mcp: false,
    input: {
      params: IdParam,
      body: Type.Object({
        isSuperAdmin: Type.Optional(Type.Boolean()),
        active: Type.Optional(
          Type.Boolean({ description: 'false ends the sessions and disables the API tokens' }),
        ),
        hasTwoFA: Type.Optional(
          Type.Literal(false, { description: 'Takes the second factor from an admin who lost it' }),
        ),
      }),
    },
    output: Type.Object({ admin: Admin }),
    errors: [coreErrors.ADMIN_NOT_FOUND, coreErrors.LAST_SUPER_ADMIN_PROTECTED],
    summary: 'Change the rights of an admin',
    handler: async ({ caller }, { params, body }) => ({
      admin: adminView(await admins.update(adminOf(caller), idOf('id', params.id), body)),
    }),
  });

const remove = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.delete',
    unscoped: true,
    method: 'DELETE',
    path: '/admins/:id',
    access: 'superAdmin',
    mcp: false,
    input: { params: IdParam },
    output: Message,
    errors: [
      coreErrors.SELF_DELETION_FORBIDDEN,
      coreErrors.ADMIN_NOT_FOUND,
      coreErrors.LAST_SUPER_ADMIN_PROTECTED,
    ],
    summary: 'Delete an admin',
    description: 'The API tokens of the admin go too.',
    async handler({ caller }, { params }) {
      await admins.remove(adminOf(caller), idOf('id', params.id));
      return { message: 'Admin deleted.' };
    },
  });

const changeOwnPassword = (admins: Admins, sessions: Sessions): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.changeOwnPassword',
    unscoped: true,
    method: 'PUT',
    path: '/change-password',
    access: 'admin',
    beforePasswordChange: true,
    idempotency: false,
    mcp: false,
    input: { body: Type.Object({ oldPassword: Password, newPassword: Password }) },
    output: Type.Object({
      message: Type.String(),
      token: Type.Optional(
        Type.String({ description: 'A session in place of the one that ended' }),
      ),
    }),
    errors: [
      coreErrors.PASSWORD_INCORRECT,
      coreErrors.STORED_ADMIN_REQUIRED,
      coreErrors.ADMIN_PASSWORD_CHANGED,
      coreErrors.ATTEMPTS_EXHAUSTED,
    ],
    summary: 'Change your own password',
    description: 'Ends all sessions of the calling admin. A caller with a session gets a new one.',
    async handler({ caller }, { body }) {
      const own = adminOf(caller);
      requireStoredAdmin(own);
      const admin = await admins.changeOwnPassword(own, body);
      return { message: 'OK', ...(own.via === 'jwt' ? { token: sessions.issue(admin) } : {}) };
    },
  });

const setPassword = (admins: Admins): Operation =>
  defineOperation({
    ...facts,
    id: 'core.admins.setPassword',
    unscoped: true,
    method: 'PUT',
    path: '/admins/:adminId/change-password',
    access: 'superAdmin',
    mcp: false,
    input: {
      params: Type.Object({ adminId: Type.String() }),
      body: Type.Object({ newPassword: Password }),
    },
    output: Message,
    errors: [coreErrors.ADMIN_NOT_FOUND],
    summary: "Set an admin's password",
    description: 'Ends all sessions of that admin.',
    async handler({ caller }, { params, body }) {
      await admins.setPassword(adminOf(caller), idOf('adminId', params.adminId), body.newPassword);
      return { message: 'OK' };
    },
  });
