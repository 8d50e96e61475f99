/** The signed-in user's own account. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { PublicView } from '../../../data/schema/public-view.ts';
import type { Audit } from '../../../kernel/audit/audit.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { authErrors } from '../errors.ts';
import type { Accounts } from '../services/accounts/accounts.ts';
import type { Profiles } from '../services/accounts/user-data.ts';
import { deviceName } from '../services/origin.ts';
import type { TokenCookies } from '../services/sessions/token-cookies.ts';
import { UserData, UserId, userOf } from './shapes.ts';
import { signedOut } from './token-cookies.ts';

/* What happened to the own account, as its owner may know it. */

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const securityEventsOperation = (audit: Pick<Audit, 'list' | 'count'>): Operation =>
  defineOperation({
    id: 'authentication.user.securityEvents',
    surface: 'client',
    method: 'GET',
    path: '/authentication/user/events',
    access: 'user',
    limit: standardLimit,
    input: {
      query: Type.Object({
        ...pagingQuery({ maxSkip: 1_000_000, maxLimit: 100 }),
      }),
    },
    output: Type.Object({
      events: Type.Array(
        Type.Object({
          at: Type.String({ format: 'date-time' }),
          action: Type.String({
            description: 'What was done or tried, such as `login` or `resetPassword`',
          }),
          outcome: Type.Union([
            Type.Literal('success'),
            Type.Literal('refused'),
            Type.Literal('failed'),
          ]),
          ip: nullable(Type.String()),
          device: Type.String(),
        }),
      ),
      count: Type.Integer(),
    }),
    summary: 'List what happened to your account',
    description:
      'Sign-ins and attempts, proofs and changes that needed no session, the newest first. They are kept as long as the audit log.',
    handler: async (context, { query }) => {
      const mine = { target: `User:${userOf(context).userId}`, action: prefix };
      const [records, count] = await Promise.all([audit.list(mine, query), audit.count(mine)]);
      const events = records.map(({ at, action, outcome, ip, userAgent }) => ({
        at: at.toISOString(),
        action: action.slice(prefix.length),
        outcome,
        ip,
        device: deviceName(userAgent),
      }));
      return { events, count };
    },
  });

/** Of the events that this module writes down. */
const prefix = 'authentication.';

/** What these operations call. */
interface UserServices {
  readonly accounts: Accounts;
  readonly tokenCookies: TokenCookies;
}

/** `User` is the shape of a user as the schema says it now. */
export const userOperations = (
  { accounts, tokenCookies }: UserServices,
  User: Type.TObject,
): readonly Operation[] => [
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
    summary: 'Read your account',
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
    errors: [authErrors.USER_DATA_UNKNOWN, recordErrors.RECORD_NOT_UNIQUE],
    summary: 'Change data of your account',
    description:
      'Only fields by which the schema User was extended, and that `access.write` opens to users. Address, password and the like have routes of their own.',
    handler: async (context, { body }) =>
      Reply.json(await accounts.update(userOf(context), body.userData)),
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
    summary: 'Delete your account',
    description:
      'Needs a fresh login (setting sessions.sudoMaxAge). Ends all sessions, and everything that is kept about the user goes with it.',
    handler: async (context) => {
      await accounts.remove(userOf(context));
      return signedOut('LoggedOut', tokenCookies);
    },
  });

/* Public profiles of users. The routes are there while the operator has marked fields. */

/** Profiles of one request, as many as a page of records has authors. */
const MAX_IDS = 100;

/** `User` is the shape of a user as the schema says it now. */
export function profileOperations(
  profiles: Profiles,
  User: Type.TObject,
  view: PublicView | undefined,
): readonly Operation[] {
  if (!view) return [];
  const Profile = profileShape(User, view);
  const facts = {
    surface: 'client',
    access: view.visitors ? 'optionalUser' : 'user',
    limit: standardLimit,
    method: 'GET',
  } as const;
  return [
    defineOperation({
      ...facts,
      id: 'authentication.profiles.get',
      path: '/authentication/users/:id/profile',
      input: { params: UserId },
      output: Profile,
      errors: [authErrors.USER_NOT_FOUND],
      summary: 'Read the public profile of a user',
      description:
        'The fields that the operator has marked (`profiles.fields`), and the id. References to users can be populated with the same.',
      handler: async ({ caller }, { params }) => Reply.json(await profiles.get(caller, params.id)),
    }),
    defineOperation({
      ...facts,
      id: 'authentication.profiles.list',
      path: '/authentication/profiles',
      input: {
        query: Type.Object({
          ids: Type.Array(Type.String({ format: 'uuid' }), {
            minItems: 1,
            maxItems: MAX_IDS,
            description: 'Ids of users',
          }),
        }),
      },
      output: Type.Object({ documents: Type.Array(Profile), count: Type.Integer() }),
      summary: 'Read the public profiles of several users',
      description:
        'In the order of the ids, each once. Users who do not exist are left out: there is no list of all users.',
      handler: async ({ caller }, { query }) => Reply.json(await profiles.list(caller, query.ids)),
    }),
  ];
}

/** Marked as what relations to users show, for protocols with types. */
function profileShape({ properties }: Type.TObject, { fields }: PublicView): Type.TObject {
  const visible = Object.entries(properties).filter(([name]) => fields.has(name));
  return Type.Object(
    { _id: Type.String({ format: 'uuid' }), ...Object.fromEntries(visible) },
    // No schema has such a name.
    { record: 'User.Profile', partOf: 'User' },
  );
}
