/** Configuration of invitations to what users share. */
import Type, { type Static } from 'typebox';
import { isWebAddress } from './teams.ts';

const day = 24 * 60 * 60_000;

export const shareInvitationsConfig = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description:
      'Whether users may invite people by mail to what they share. Needs the authorization module and a mail channel; the routes are there only while both run.',
  }),
  inviteUrl: Type.String({
    default: '',
    maxLength: 2048,
    description:
      'The page of the app that invitations lead to; `invitationToken` is added to its query.',
  }),
  expiryPeriod: Type.Integer({
    default: 14 * day,
    minimum: 60_000,
    maximum: 365 * day,
    description: 'How long an invitation is good for. Milliseconds.',
  }),
});

export type ShareInvitationsConfig = Static<typeof shareInvitationsConfig>;

/** Rules across keys, with dotted paths. */
export const shareInvitationsProblems = ({
  inviteUrl,
}: ShareInvitationsConfig): { path: string; rule: string; message: string }[] =>
  inviteUrl === '' || isWebAddress(inviteUrl)
    ? []
    : [
        {
          path: 'shareInvitations.inviteUrl',
          rule: 'format',
          message: 'must be the address of a page (https://...)',
        },
      ];
