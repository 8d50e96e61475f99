/** Invitations to what users share: their routes while they are switched on and can be mailed and answered. */
import type { Kernel } from '../../host/kernel.ts';
import type { OptionalModule } from '../../host/module.ts';
import type { ConfigHandle } from '../../kernel/config/config-definition.ts';
import type { AuthorizationService } from '../authorization/index.ts';
import type { CommunicationsService } from '../communications/index.ts';
import type { AuthenticationConfig } from './config.ts';
import { shareInvitationOperations } from './operations/share-invitations.ts';
import { allowedRedirect } from './redirects.ts';
import type { AccountErasure } from './services/accounts/account-lifecycle.ts';
import { forgetInvitationsTo } from './services/shares/invitation-queries.ts';
import { createShareInvitations } from './services/shares/invitations.ts';

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'operations'> {
  readonly authorization: OptionalModule<AuthorizationService>;
  readonly communications: CommunicationsService;
  readonly erasure: Pick<AccountErasure, 'onErasure'>;
  readonly requireAllowedEmail: (email: string) => void;
  readonly handle: Pick<ConfigHandle<AuthenticationConfig>, 'current' | 'onChange'>;
}

/** Owner of the routes in the registry. */
const owner = 'authentication/shares';

/** Starts them; answers how to stop them. */
export function startShares(dependencies: Dependencies): () => void {
  const { authorization, communications, erasure, handle, operations } = dependencies;
  const { messages } = communications;
  const config = () => handle.current();
  const invitations = createShareInvitations({
    ...dependencies,
    messages,
    allowedRedirect: (address) => allowedRedirect(address, config().redirectUris),
    config: () => config().shareInvitations,
  });
  let running = true;
  const publish = (): void => {
    const requested =
      running &&
      config().shareInvitations.enabled &&
      authorization.current() !== undefined &&
      messages.available('email');
    operations.replace(owner, requested ? shareInvitationOperations(invitations) : []);
  };
  publish();
  const stops = [
    handle.onChange(publish),
    authorization.onChange(publish),
    communications.onChannelsChange(publish),
    erasure.onErasure(
      async (transaction, userIds) => void (await forgetInvitationsTo(transaction, userIds)),
    ),
  ];
  return () => {
    running = false;
    for (const stop of stops) stop();
    publish();
  };
}
