/** Teams as a whole: their parts over one another, and their routes while they are switched on and can be answered. */

import type { Kernel } from '../../host/kernel.ts';
import type { OptionalModule } from '../../host/module.ts';
import type { ConfigHandle } from '../../kernel/config/config-definition.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { AuthorizationService } from '../authorization/index.ts';
import type { CommunicationsService } from '../communications/index.ts';
import type { StorageService } from '../storage/index.ts';
import type { AuthenticationConfig } from './config.ts';
import { adminTeamOperations, noTeams } from './operations/admin-teams.ts';
import { inviteOperations } from './operations/team-invites.ts';
import { addOperation, memberOperations, teamOperations } from './operations/teams.ts';
import { allowedRedirect } from './redirects.ts';
import type { AccountCreation, AccountErasure } from './services/accounts/account-lifecycle.ts';
import { createTeamAccess, teamUses } from './services/teams/access.ts';
import { createInviteMail } from './services/teams/invite-mail.ts';
import { forgetInvitesTo } from './services/teams/invite-queries.ts';
import { createInvites, createOwnInvites } from './services/teams/invites.ts';
import { createMembers, createOwnMembers } from './services/teams/members.ts';
import { createOwnTeams } from './services/teams/own-teams.ts';
import {
  createAcceptance,
  createTeamJoining,
  createTeamRegistration,
} from './services/teams/team-joining.ts';
import { createTeams } from './services/teams/teams.ts';

interface Dependencies
  extends Pick<
    Kernel,
    'database' | 'durableLimits' | 'events' | 'records' | 'schemas' | 'permissions' | 'operations'
  > {
  readonly authorization: OptionalModule<AuthorizationService>;
  readonly storage: OptionalModule<StorageService>;
  readonly messages: CommunicationsService['messages'];
  readonly creation: Pick<AccountCreation, 'onRegistration'>;
  readonly erasure: Pick<AccountErasure, 'onErasure'>;
  readonly requireAllowedEmail: (email: string) => void;
  readonly config: () => AuthenticationConfig;
  readonly handle: Pick<ConfigHandle<AuthenticationConfig>, 'onChange'>;
  readonly log: Logger;
}

/** Owner of the routes in the registry. */
const owner = 'authentication/teams';

/** Starts teams; answers how to stop them. */
export async function startTeams(dependencies: Dependencies): Promise<() => void> {
  const { authorization, config, handle, operations } = dependencies;
  const parts = createTeamParts(dependencies);
  let running = true;
  const publish = (): void => operations.replace(owner, running ? parts.operations(config()) : []);
  const apply = async (): Promise<void> => {
    publish();
    await parts.applyMemberAccess(config());
  };
  await apply();
  dependencies.permissions.uses.set(owner, () => (config().teams.enabled ? teamUses : []));
  const stops = [handle.onChange(apply), authorization.onChange(() => void apply())];
  return () => {
    running = false;
    for (const stop of stops) stop();
    dependencies.permissions.uses.delete(owner);
    parts.stop();
    publish();
  };
}

interface TeamParts {
  /** The routes that there are now: none while teams are off or the authorization module does not run. */
  operations(config: AuthenticationConfig): readonly Operation[];
  /** Brings what plain members may do in line with the configuration; never rejects. */
  applyMemberAccess(config: AuthenticationConfig): Promise<void>;
  /** Takes its hooks away. */
  stop(): void;
}

function createTeamParts(dependencies: Dependencies): TeamParts {
  const { authorization, messages, creation, erasure, requireAllowedEmail, config } = dependencies;
  const teamsConfig = () => config().teams;
  const userDataConfig = () => config().userData;
  const access = createTeamAccess(dependencies);
  const mail = createInviteMail({
    messages,
    allowedRedirect: (address) => allowedRedirect(address, config().redirectUris),
    config: teamsConfig,
  });
  const teams = createTeams({ ...dependencies, access });
  const members = createMembers({ ...dependencies, access });
  const invites = createInvites({
    ...dependencies,
    access,
    mail,
    requireAllowedEmail,
    config: teamsConfig,
    userDataConfig,
  });
  const joining = createTeamJoining({ ...dependencies, access, members, config: teamsConfig });
  const parts = {
    ...dependencies,
    access,
    teams,
    members,
    invites,
    joining,
    config: teamsConfig,
    userDataConfig,
  };
  const own = {
    teams: createOwnTeams(parts),
    members: createOwnMembers(parts),
    invites: createOwnInvites(parts),
  };
  const accept = createAcceptance(parts);
  const stops = [
    creation.onRegistration(createTeamRegistration(parts)),
    erasure.onErasure(
      async (transaction, userIds) => void (await forgetInvitesTo(transaction, userIds)),
    ),
  ];

  return {
    operations({ teams: requested }) {
      if (!requested.enabled || !authorization.current()) return [noTeams];
      return [
        ...teamOperations({ teams: own.teams, sudoMaxAge: () => config().sessions.sudoMaxAge }),
        ...memberOperations(own.members),
        ...(requested.allowAddWithoutInvite ? [addOperation(own.members)] : []),
        ...inviteOperations({ own: own.invites, invites, accept }),
        ...adminTeamOperations({ teams, members, invites }),
      ];
    },
    applyMemberAccess: (config) => applyMemberAccess(dependencies, config),
    stop() {
      for (const stop of stops) stop();
    },
  };
}

async function applyMemberAccess(
  { authorization, log }: Dependencies,
  { teams: { enabled, memberAccess } }: AuthenticationConfig,
): Promise<void> {
  if (!enabled) return;
  try {
    const applied = await authorization.current()?.setTeamMemberAccess(memberAccess);
    if (applied === false)
      log.warn(
        { memberAccess },
        'teams.memberAccess has no effect: an operator wrote their own definition of Team',
      );
  } catch (error) {
    log.error({ err: error }, 'teams.memberAccess could not be applied');
  }
}
