/** The mail that brings an invitation, and the tokens in it. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { isId } from '../../../../kernel/ids.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { BuiltInTemplate, Messages } from '../../../communications/index.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import type { InviteKey } from './invite-queries.ts';
import type { Person, TeamRow } from './queries.ts';

export interface InviteMail {
  /** The page that the link leads to: the caller's, if it is allowed, else the configured one. Throws 400 and 403. */
  pageOf(redirectUri: string | undefined): string;
  send(transaction: Queryable, invitation: MailedInvitation): Promise<void>;
}

export interface MailedInvitation {
  readonly to: string;
  readonly page: string;
  readonly token: string;
  readonly team: TeamRow;
  readonly inviter: Person;
}

interface Dependencies {
  readonly messages: Pick<Messages, 'sendEmail'>;
  /** The address as it may be used; throws 403 for one that is not allowed. */
  readonly allowedRedirect: (redirectUri: string) => string;
  readonly config: () => TeamsConfig;
}

export const teamInviteTemplate: BuiltInTemplate = {
  name: 'TeamInvite',
  subject: 'Invitation to {{teamName}}',
  body: `<p>{{inviterName}} invites you to the team {{teamName}}.</p>
<p><a href="{{link}}">Open the invitation</a></p>
<p>It can be used once. If you do not expect it, you need do nothing.</p>`,
};

export function createInviteMail({ messages, allowedRedirect, config }: Dependencies): InviteMail {
  return {
    pageOf(redirectUri) {
      if (redirectUri !== undefined) return allowedRedirect(redirectUri);
      const { inviteUrl } = config().invites;
      if (inviteUrl !== '') return inviteUrl;
      throw invalid(
        'redirectUri',
        'required',
        'name the page that the mail leads to, since teams.invites.inviteUrl is not set',
      );
    },
    async send(transaction, { to, page, token, team, inviter }) {
      const link = new URL(page);
      link.searchParams.set('invitationToken', token);
      const inviterName = inviter.username ?? inviter.email ?? 'A member';
      const variables = { link: link.href, teamName: unlinked(team.name), inviterName };
      await messages.sendEmail(transaction, {
        ...{ module: 'authentication', template: teamInviteTemplate.name },
        ...{ to, variables },
      });
    },
  };
}

/**
 * Users choose the names of their teams, and mail programs make links of what looks like an address: an invisible sign
 * behind each separator keeps a name what it is, so that nobody advertises in our name (OWASP API6, CWE-451).
 */
const unlinked = (name: string): string => name.replace(/[.:/](?=\S)/g, '$&\u2060');

const tokenShape = /^[A-Za-z0-9_-]{43}$/;

/** What a presented `invitationToken` names: an invitation by its token, or by the id that lists show. */
export function keyOfToken(text: string): InviteKey | undefined {
  if (isId(text)) return { id: text.toLowerCase() };
  return tokenShape.test(text) ? { hash: sha256(text) } : undefined;
}
