/** Users, teams and the settings of sign-in (section 3). */
import type { Json } from '../../test/support/api.ts';
import { flag, number, password, type Row, type Seen, some, text } from './row.ts';

const userFields = {
  _id: text,
  email: text,
  active: flag,
  isVerified: flag,
  createdAt: text,
  hasTwoFA: flag,
};
const teamFields = { _id: text, name: text, isDefault: flag, createdAt: text, updatedAt: text };
const cookieOptions = {
  httpOnly: flag,
  secure: flag,
  signed: flag,
  domain: text,
  path: text,
  sameSite: text,
};
const provider = {
  enabled: flag,
  clientId: text,
  clientSecret: text,
  redirect_uri: text,
  accountLinking: flag,
};

export const authentication: readonly Row[] = [
  {
    call: 'POST /authentication/users',
    body: { email: 'eva@example.com', password },
    reads: { message: text },
  },
  {
    call: 'POST /authentication/users',
    body: { email: 'ida@example.com', password },
    reads: { message: text },
  },
  {
    call: 'GET /authentication/users?skip=0&limit=10&search=eva&provider=local&sort=-createdAt',
    reads: { users: some(userFields), count: number },
    keep: ({ users }) => ({ user: users[0] }),
  },
  {
    call: 'GET /authentication/users?skip=0&limit=10',
    keep: ({ users }) => ({ userIds: users.map(({ _id }: Json) => _id) }),
  },
  {
    call: 'PATCH /authentication/users/{user._id}',
    body: ({ user }: Seen) => user,
    reads: userFields,
  },
  { call: 'POST /authentication/users/{user._id}/block' },
  { call: 'POST /authentication/users/{user._id}/unblock' },
  {
    call: 'POST /authentication/users/toggle',
    body: ({ userIds }: Seen) => ({ ids: userIds, block: true }),
  },
  {
    call: 'POST /authentication/users/toggle',
    body: ({ userIds }: Seen) => ({ ids: userIds, block: false }),
  },
  {
    call: 'PATCH /config/authentication',
    body: { config: { teams: { enabled: true } } },
    reads: { config: { teams: { enabled: true } } },
  },
  { call: 'POST /authentication/teams', body: { name: 'panel team', isDefault: false } },
  {
    call: 'GET /authentication/teams?skip=0&limit=10&search=panel&sort=name',
    reads: { teams: some(teamFields), count: number },
    keep: ({ teams }) => ({ teamId: teams[0]._id }),
  },
  { call: 'PATCH /authentication/teams/{teamId}', body: { name: 'renamed', isDefault: false } },
  {
    call: 'POST /authentication/teams',
    body: ({ teamId }: Seen) => ({ name: 'below', isDefault: false, parentTeam: teamId }),
  },
  {
    call: 'GET /authentication/teams?skip=0&limit=10&parentTeam={teamId}',
    reads: { teams: some({ ...teamFields, parentTeam: text }), count: 1 },
    keep: ({ teams }) => ({ subTeamId: teams[0]._id }),
  },
  {
    call: 'POST /authentication/teams/{teamId}/members',
    body: ({ userIds }: Seen) => ({ members: userIds }),
  },
  {
    call: 'GET /authentication/teams/{teamId}/members?skip=0&limit=10&search=&sort=-createdAt',
    reads: { members: some({ ...userFields, role: text }), count: 2 },
  },
  {
    call: 'PATCH /authentication/teams/{teamId}/members',
    body: ({ userIds }: Seen) => ({ members: userIds, role: 'owner' }),
  },
  { call: 'DELETE /authentication/teams/{teamId}/members?members[]={user._id}' },
  { call: 'DELETE /authentication/teams/{subTeamId}' },
  { call: 'DELETE /authentication/teams/{teamId}' },
  { call: 'DELETE /authentication/users?ids[]={user._id}' },
  {
    call: 'GET /config/authentication',
    reads: {
      config: {
        active: flag,
        accessTokens: { jwtSecret: text, expiryPeriod: number, setCookie: flag, cookieOptions },
        refreshTokens: { enabled: flag, expiryPeriod: number, setCookie: flag, cookieOptions },
        clients: { multipleUserSessions: flag, multipleClientLogins: flag },
        teams: {
          enabled: flag,
          enableDefaultTeam: flag,
          allowAddWithoutInvite: flag,
          allowEmailMismatchForInvites: flag,
          invites: { enabled: flag, sendEmail: flag, inviteUrl: text },
        },
        phoneAuthentication: { enabled: flag },
        local: {
          enabled: flag,
          verification: { required: flag, send_email: flag, redirect_uri: text },
          forgot_password_redirect_uri: text,
        },
        magic_link: { enabled: flag },
        twoFa: { enabled: flag, methods: { authenticator: flag, sms: flag } },
        captcha: {
          enabled: flag,
          acceptablePlatform: { android: flag, web: flag },
          routes: { login: flag, register: flag, oAuth2: flag },
        },
        google: provider,
        github: provider,
        apple: { enabled: flag, keyId: text, privateKey: text, teamId: text },
      },
    },
  },
];
