/** Configuration of teams. */
import Type, { type Static } from 'typebox';

const day = 24 * 60 * 60_000;
const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

export const teamsConfig = Type.Object({
  enabled: flag(
    false,
    'Whether there are teams. Needs the authorization module; its routes are there only while both are on.',
  ),
  enableDefaultTeam: flag(
    false,
    'Whether every new user becomes a member of the default team. It is made when there is none.',
  ),
  memberAccess: Type.Union([Type.Literal('read'), Type.Literal('edit'), Type.Literal('none')], {
    default: 'read',
    description:
      'What a plain member may do with the records that their team owns. Without effect where an operator wrote their own definition of the type Team.',
  }),
  allowAddWithoutInvite: flag(
    false,
    'Whether those who may invite may also make somebody a member who was not asked: POST /authentication/teams/:teamId/add.',
  ),
  allowRegistrationWithoutInvite: flag(true, 'Whether users can register without an invitation.'),
  allowEmailMismatchForInvites: flag(
    false,
    'Whether an invitation works for other addresses than the one that it was sent to.',
  ),
  invites: Type.Object({
    enabled: flag(false, 'Whether members who may invite can do so.'),
    sendEmail: flag(
      false,
      'Whether an invitation is mailed. Otherwise the app gets the token and hands it on.',
    ),
    inviteUrl: Type.String({
      default: '',
      maxLength: 2048,
      description:
        'The page of the app that mailed invitations lead to; `invitationToken` is added to its query.',
    }),
    expiryPeriod: Type.Integer({
      default: 7 * day,
      minimum: 60_000,
      maximum: 365 * day,
      description:
        'How long an invitation to an address is good for. Persistent ones last until they are revoked. Milliseconds.',
    }),
    maxPerDay: Type.Integer({
      default: 200,
      minimum: 1,
      maximum: 100_000,
      description:
        'Invitations to addresses that one user makes in 24 hours, over all teams. Operators make any number.',
    }),
  }),
});

export type TeamsConfig = Static<typeof teamsConfig>;

/** Rules across keys, with dotted paths. */
export function teamsProblems({
  invites,
}: TeamsConfig): { path: string; rule: string; message: string }[] {
  if (invites.inviteUrl === '' || isWebAddress(invites.inviteUrl)) return [];
  return [
    {
      path: 'teams.invites.inviteUrl',
      rule: 'format',
      message: 'must be the address of a page (https://...)',
    },
  ];
}

/** Mail must lead to a page, never to a script. */
export const isWebAddress = (text: string): boolean =>
  URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
