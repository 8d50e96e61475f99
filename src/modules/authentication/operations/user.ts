/** The signed-in user's own account. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, standardLimit, TextResult } from '../../../kernel/operation.ts';
import { recordErrors } from '../../../kernel/records/errors.ts';
import { authErrors } from '../errors.ts';
import type { Accounts } from '../services/accounts.ts';
import type { TokenCookies } from '../services/token-cookies.ts';
import { UserData, userOf } from './shapes.ts';
import { signedOut } from './token-cookies.ts';

/** What these operations call. */
export interface UserServices {
  readonly accounts: Accounts;
  readonly tokenCookies: TokenCookies;
}

/** `User` is the shape of a user as the schema says it now. */
export const userOperations = ({ accounts, tokenCookies }: UserServices, User: Type.TObject): readonly Operation[] => [
  readOperation(accounts, User),
  updateOperation(accounts, User),
  deleteOperation(accounts, tokenCookies),
];

const readOperation = (accounts: Accounts, User: Type.TObject): Operation =>
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
    handler: async (context) => Reply.json(await accounts.read(userOf(context))),
  });

const updateOperation = (accounts: Accounts, User: Type.TObject): Operation =>
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
    description:
      'Only fields by which the schema User was extended, and that `access.write` opens to users. Address, password and the like have routes of their own.',
    handler: async (context, { body }) => Reply.json(await accounts.update(userOf(context), body.userData)),
  });

const deleteOperation = (accounts: Accounts, tokenCookies: TokenCookies): Operation =>
  defineOperation({
    id: 'authentication.user.delete',
    surface: 'client',
    method: 'DELETE',
    path: '/authentication/user',
    access: 'user',
    limit: standardLimit,
    idempotency: false,
    input: {},
    output: TextResult,
    errors: [authErrors.SUDO_REQUIRED, recordErrors.RECORD_IN_USE],
    audit: true,
    summary: 'Delete the own account',
    description:
      'Needs a fresh login (setting sessions.sudoMaxAge). Ends all sessions, and everything that is kept about the user goes with it.',
    handler: async (context) => {
      await accounts.remove(userOf(context));
      return signedOut('LoggedOut', tokenCookies);
    },
  });
