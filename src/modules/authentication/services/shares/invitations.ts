/**
 * Invitations by mail to what users share. An invitation is made, mailed and answered in the same way whether or not the
 * address has an account; nothing is given before its owner takes it, and then only if the inviter still may give it.
 */
import type { Kernel } from '../../../../host/kernel.ts';
import type { OptionalModule } from '../../../../host/module.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid, PenstockError } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import { randomToken, sha256 } from '../../../../kernel/security/tokens.ts';
import type { AuthorizationService, ObjectRef } from '../../../authorization/index.ts';
import type { BuiltInTemplate, Messages } from '../../../communications/index.ts';
import type { ShareInvitationsConfig } from '../../config/share-invitations.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { markVerified } from '../../queries.ts';
import { canonicalEmail } from '../accounts/identifiers.ts';
import { keyOfToken } from '../teams/invite-mail.ts';
import { type Person, personById } from '../teams/queries.ts';
import {
  countOtherOpen,
  dropInvitation,
  invitationById,
  invitationsOf,
  invitationsTo,
  lockInvitationsBy,
  putInvitation,
  type ShareInvitation,
  takeInvitation,
} from './invitation-queries.ts';

/** Invitations of one user that nobody has answered yet. */
const MAX_OPEN = 500;

interface NewInvitation {
  readonly email: string;
  readonly resource: ObjectRef;
  readonly relation: string;
  /** When what is given ends; ISO 8601. */
  readonly expiresAt?: string | undefined;
  /** Page that the mail leads to instead of the configured one. */
  readonly redirectUri?: string | undefined;
}

export interface ShareInvitations {
  /** Throws 400, 403, and 409 for somebody with too many open ones. */
  invite(caller: UserCaller, invitation: NewInvitation): Promise<ShareInvitation>;
  /** Those to an object, for who may share it. Throws 403. */
  list(
    caller: UserCaller,
    resource: ObjectRef,
    page: { readonly skip: number; readonly limit: number },
  ): ReturnType<typeof invitationsOf>;
  /** Those to the caller's own address, which must be proven; of what is deleted meanwhile, none. */
  received(caller: UserCaller): Promise<readonly ShareInvitation[]>;
  /** By the token of the mail, or by the id where the address is proven. Throws 403 INVALID_INVITATION, and 409. */
  accept(caller: UserCaller, presented: string): Promise<ShareInvitation>;
  /** For the inviter, for others who may give the same, and for the invited. Throws 404. */
  withdraw(caller: UserCaller, id: string): Promise<ShareInvitation>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly authorization: OptionalModule<AuthorizationService>;
  readonly messages: Pick<Messages, 'sendEmail'>;
  /** Throws 400 for an address that may not have an account. */
  readonly requireAllowedEmail: (email: string) => void;
  /** Throws 403. */
  readonly allowedRedirect: (redirectUri: string) => string;
  readonly config: () => ShareInvitationsConfig;
}

export const shareInviteTemplate: BuiltInTemplate = {
  name: 'ShareInvite',
  subject: '{{inviterName}} shares something with you',
  body: `<p>{{inviterName}} shares something with you.</p>
<p><a href="{{link}}">Open the invitation</a></p>
<p>It can be used once, with an account for this address. If you do not expect it, you need do nothing.</p>`,
};

type Sharing = AuthorizationService['sharing'];

const sharingOf = ({ authorization }: Pick<Dependencies, 'authorization'>): Sharing => {
  const running = authorization.current();
  if (!running) throw errors.UNAVAILABLE({ retryAfter: 2 });
  return running.sharing;
};

export function createShareInvitations(dependencies: Dependencies): ShareInvitations {
  const { database } = dependencies;
  return {
    async invite(caller, invitation) {
      const inviter = await registered(database, caller);
      const email = canonicalEmail(invitation.email);
      dependencies.requireAllowedEmail(email);
      if (email === inviter.email)
        throw invalid('email', 'self', 'this is your own address: invite somebody else');
      return database.transaction((transaction) =>
        invite(dependencies, transaction, { caller, inviter, ...invitation, email }),
      );
    },
    async list(caller, resource, page) {
      await sharingOf(dependencies).requireGiver(caller.userId, resource);
      return invitationsOf(database, resource, page);
    },
    async received(caller) {
      const { email, isVerified } = await registered(database, caller);
      if (email === null || !isVerified) return [];
      const invitations = await invitationsTo(database, email);
      const areOpen = await sharingOf(dependencies).areOpen(
        invitations.map((one) => ({
          ...{ by: one.invitedBy, resource: resourceOf(one), relation: one.relation },
        })),
      );
      return invitations.filter((_, i) => areOpen[i]);
    },
    accept: (caller, presented) =>
      database.transaction((transaction) => accept(dependencies, transaction, caller, presented)),
    async withdraw(caller, id) {
      const found = await invitationById(database, id);
      const mayEnd = found && (await isTheirs(dependencies, caller, found));
      if (!mayEnd || !(await dropInvitation(database, id))) throw authErrors.INVITE_NOT_FOUND();
      return found;
    },
  };
}

const resourceOf = ({ resourceType, resourceId }: ShareInvitation): ObjectRef => ({
  type: resourceType,
  id: resourceId,
});

interface CheckedInvitation extends NewInvitation {
  readonly caller: UserCaller;
  readonly inviter: Person;
}

async function invite(
  dependencies: Dependencies,
  transaction: Transaction,
  invitation: CheckedInvitation,
): Promise<ShareInvitation> {
  const { caller, inviter, resource, relation, expiresAt = null, redirectUri } = invitation;
  const page = pageOf(dependencies, redirectUri);
  await sharingOf(dependencies).requireOffer(caller.userId, resource, relation);
  const offer = {
    email: invitation.email,
    resourceType: resource.type,
    resourceId: resource.id,
    relation,
    invitedBy: caller.userId,
    shareEndsAt: expiresAt,
  };
  await lockInvitationsBy(transaction, caller.userId);
  if ((await countOtherOpen(transaction, offer, MAX_OPEN)) >= MAX_OPEN)
    throw authErrors.INVITATION_LIMIT_EXCEEDED();
  const token = randomToken();
  const stored = await putInvitation(transaction, {
    ...offer,
    id: newId(),
    hash: sha256(token),
    lifetimeMs: dependencies.config().expiryPeriod,
  });
  page.searchParams.set('invitationToken', token);
  const variables = {
    link: page.href,
    inviterName: inviter.username ?? inviter.email ?? 'Somebody',
  };
  await dependencies.messages.sendEmail(transaction, {
    ...{ module: 'authentication', template: shareInviteTemplate.name },
    ...{ to: stored.email, variables },
  });
  return stored;
}

async function accept(
  dependencies: Dependencies,
  transaction: Transaction,
  caller: UserCaller,
  presented: string,
): Promise<ShareInvitation> {
  const key = keyOfToken(presented);
  const { email, isVerified } = await registered(transaction, caller);
  const byToken = key !== undefined && 'hash' in key;
  // A token came by the mailbox; an id is known to whoever made the invitation.
  const taken =
    key && email !== null && (byToken || isVerified)
      ? await takeInvitation(transaction, key, email)
      : undefined;
  if (!taken) throw authErrors.INVALID_INVITATION();
  const { invitedBy: by, relation, shareEndsAt } = taken;
  const offer = { by, to: caller.userId, resource: resourceOf(taken), relation };
  const expiresAt = shareEndsAt?.toISOString();
  await refusedAsInvalid(() => sharingOf(dependencies).accept(caller, { ...offer, expiresAt }));
  if (byToken && (await markVerified(transaction, caller.userId, taken.email)))
    await dependencies.events.emit(transaction, caller, userEvent('verified', [caller.userId]));
  return taken;
}

async function isTheirs(
  dependencies: Dependencies,
  caller: UserCaller,
  found: ShareInvitation,
): Promise<boolean> {
  if (found.invitedBy === caller.userId) return true;
  const person = await registered(dependencies.database, caller);
  if (person.isVerified && person.email === found.email) return true;
  return sharingOf(dependencies)
    .requireGiver(caller.userId, resourceOf(found), found.relation)
    .then(
      () => true,
      () => false,
    );
}

/** The account behind a call; throws 401 when it is gone and 403 for an anonymous one. */
async function registered(
  queryable: Parameters<typeof personById>[0],
  caller: UserCaller,
): Promise<Person> {
  const person = await personById(queryable, caller.userId);
  if (!person) throw authErrors.TOKEN_INVALID();
  if (person.isAnonymous) throw authErrors.USER_ANONYMOUS();
  return person;
}

/** The page that the mail leads to. Throws 400 and 403. */
function pageOf(
  { allowedRedirect, config }: Pick<Dependencies, 'allowedRedirect' | 'config'>,
  redirectUri: string | undefined,
): URL {
  if (redirectUri !== undefined) return new URL(allowedRedirect(redirectUri));
  const { inviteUrl } = config();
  if (inviteUrl !== '') return new URL(inviteUrl);
  throw invalid(
    'redirectUri',
    'required',
    'name the page that the mail leads to, since shareInvitations.inviteUrl is not set',
  );
}

/** Why the inviter may not give it any more is not the business of the invited. */
async function refusedAsInvalid(accept: () => Promise<void>): Promise<void> {
  try {
    await accept();
  } catch (error) {
    const isRefusal = error instanceof PenstockError && [400, 403].includes(error.status);
    throw isRefusal ? authErrors.INVALID_INVITATION() : error;
  }
}
