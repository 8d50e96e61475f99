/** The signed-in user's own account. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, standardLimit, TextResult } from '../../../kernel/operation.ts';
import { recordErrors } from '../../../kernel/records/errors.ts';
import { authErrors } from '../errors.ts';
import type { Accounts } from '../services/accounts.ts';
import { User, UserData, userOf } from './shapes.ts';

export const userOperations = (accounts: Accounts): readonly Operation[] => [
  readOperation(accounts),
  updateOperation(accounts),
  deleteOperation(accounts),
];

const readOperation = (accounts: Accounts): Operation =>
  defineOperation({
    id: 'authentication.user.get',
    surface: 'client',
    method: 'GET',
    path: '/authentication/user',
    access: 'user',
    limit: standardLimit,
    input: {},
    output: User,
    summary: 'Read the own account',
    handler: async (context) => Reply.json((await accounts.read(userOf(context))).json),
  });

const updateOperation = (accounts: Accounts): Operation =>
  defineOperation({
    id: 'authentication.user.update',
    surface: 'client',
    method: 'PATCH',
    path: '/authentication/user',
    access: 'user',
    limit: standardLimit,
    input: { body: Type.Object({ userData: UserData }) },
    output: User,
    errors: [authErrors.UNKNOWN_USER_DATA, recordErrors.RECORD_NOT_UNIQUE],
    summary: 'Change data of the own account',
    description: 'Only fields by which the schema User was extended. Address, password and the like have routes of their own.',
    handler: async (context, { body }) => Reply.json((await accounts.update(userOf(context), body.userData)).json),
  });

const deleteOperation = (accounts: Accounts): Operation =>
  defineOperation({
    id: 'authentication.user.delete',
    surface: 'client',
    method: 'DELETE',
    path: '/authentication/user',
    access: 'user',
    limit: standardLimit,
    input: {},
    output: TextResult,
    errors: [authErrors.SUDO_REQUIRED, recordErrors.RECORD_IN_USE],
    summary: 'Delete the own account',
    description: 'Needs a fresh login (setting sessions.sudoMaxAge). Ends all sessions.',
    handler: async (context) => {
      await accounts.remove(userOf(context));
      return 'LoggedOut';
    },
  });
