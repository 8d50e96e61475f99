/** The authentication module: accounts, sessions and the tokens that prove them. */

import type { Kernel } from '../../host/kernel.ts';
import {
  defineModule,
  type ModuleContext,
  type Requirements as ModuleRequirements,
  type OptionalModule,
  type RunningModule,
} from '../../host/module.ts';
import type { Caller } from '../../kernel/caller.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import { authorization } from '../authorization/index.ts';
import { communications } from '../communications/index.ts';
import { router } from '../router/index.ts';
import { type StorageService, storage } from '../storage/index.ts';
import { type AuthenticationConfig, authenticationConfig } from './config.ts';
import { anonymousExpiryJob, authenticationJobs } from './jobs.ts';
import { migrations } from './migrations.ts';
import { adminOperations } from './operations/admin.ts';
import { helpOperations } from './operations/admin-help.ts';
import { clientOperations } from './operations/client-operations.ts';
import { keyOperations } from './operations/keys.ts';
import { openidClientOperations, openidClientState } from './operations/openid-clients.ts';
import { sessionOperations } from './operations/sessions.ts';
import { securityEventsOperation } from './operations/user.ts';
import { teamSchema, userSchema } from './schemas.ts';
import {
  createAccountHelp,
  createImpersonation,
  helpTemplates,
} from './services/accounts/account-help.ts';
import type { ErasureHook, RegistrationHook } from './services/accounts/account-lifecycle.ts';
import { createUserAdmin } from './services/accounts/user-admin.ts';
import {
  migrateOpenFields,
  profileView,
  unknownProfileFields,
} from './services/accounts/user-data.ts';
import { createAuthenticationParts, type Requirements } from './services/authentication-parts.ts';
import { mailTemplates } from './services/mail/notices.ts';
import { createClientIdentity } from './services/sessions/client-identity.ts';
import type { TokenHook } from './services/sessions/session-opening.ts';
import { createSessionStates, type SessionStates } from './services/sessions/sessions.ts';
import { measureUsers } from './services/sessions/sign-in.ts';
import { shareInviteTemplate } from './services/shares/invitations.ts';
import { createTeamAccess } from './services/teams/access.ts';
import { teamInviteTemplate } from './services/teams/invite-mail.ts';
import { teamState } from './services/teams/team-state.ts';
import { createTeams } from './services/teams/teams.ts';
import { type AccessTokens, createAccessTokens } from './services/tokens/access-tokens.ts';
import {
  openSigningKeys,
  type SigningKeys,
  signedLifetimeMs,
  termsOf,
} from './services/tokens/signing-keys.ts';
import { startShares } from './start-shares.ts';
import { startTeams } from './start-teams.ts';

/** What other modules may ask of authentication. */
export interface AuthenticationService {
  /** Ends all sessions of these users on every node before it returns (joins the ambient transaction); answers how many. */
  endSessions(caller: Caller, userIds: readonly string[]): Promise<number>;
  /** Asked before each registration, in its transaction: refuse by throwing, or add to the account. Answers how to stop. */
  onRegistration(hook: RegistrationHook): () => void;
  /** Runs in the transaction that deletes users, before their rows go: delete what you keep about them. Answers how to stop. */
  onErasure(hook: ErasureHook): () => void;
  /** Asked before each session is opened: refuse by throwing, or add claims to its tokens. Answers how to stop. */
  onToken(hook: TokenHook): () => void;
}

export const authentication = defineModule({
  name: 'authentication',
  description: 'Users, their passwords and their sessions',
  requires: { communications, router },
  uses: { authorization, storage },
  config: authenticationConfig,
  schemas: [userSchema, teamSchema],
  migrations,
  start,
});

/** Operations that exist only while the configuration wants them. */
const switchable = 'authentication/switchable';

interface Uses extends ModuleRequirements {
  readonly authorization: typeof authorization;
  readonly storage: typeof storage;
}

const allTemplates = [...mailTemplates, ...helpTemplates, teamInviteTemplate, shareInviteTemplate];

/** What other modules reach. */
const serviceOf = ({
  sessions,
  creation,
  erasure,
  tokenHooks,
}: ReturnType<typeof createAuthenticationParts>): AuthenticationService => ({
  endSessions: (caller, userIds) => sessions.endAll(caller, userIds, { reason: 'revoked' }),
  onRegistration: creation.onRegistration,
  onErasure: erasure.onErasure,
  onToken: tokenHooks.onToken,
});

async function start(
  context: ModuleContext<AuthenticationConfig, Requirements, Uses>,
): Promise<RunningModule<AuthenticationService>> {
  const { kernel, config, services, optional, log } = context;
  const { keys, accessTokens, states } = await lastingParts(kernel, config.current());
  const parts = createAuthenticationParts(context, { accessTokens, states, keys });
  await migrateOpenFields({ ...kernel, userDataConfig: () => config.current().userData, log });
  const users = createUserAdmin({ ...kernel, ...parts });
  const help = createAccountHelp({ ...kernel, ...parts });
  const impersonate = createImpersonation({ ...kernel, ...parts });
  await services.communications.templates.register('authentication', allTemplates);
  const access = createTeamAccess({ ...kernel, ...optional });
  const beside = { ...kernel, ...parts, ...optional, handle: config, log };
  const stopTeams = await startTeams(beside);
  const stopShares = startShares({ ...beside, ...services });

  let running = true;
  const publish = (): void => {
    const view = running ? profileView(config.current().profiles) : undefined;
    kernel.schemas.publicViews.set(userSchema.name, view);
    kernel.operations.replace(switchable, running ? clientOperations(parts, kernel.schemas) : []);
  };
  publish();
  const stopListening = [
    config.onChange(publish),
    config.guard(async ({ profiles }) => unknownProfileFields(profiles, kernel.schemas)),
    services.communications.onChannelsChange(publish),
    config.onChange((now) => followTerms(keys, now)),
    releaseFiles(parts.erasure, optional.storage),
    onUserFields(kernel, publish),
  ];
  measureUsers(kernel);
  const identity = { ...kernel, accessTokens, states, keys, cookies: parts.tokenCookies };
  kernel.identity.client = createClientIdentity(identity);

  return {
    service: serviceOf(parts),
    operations: [
      ...lastingOperations(kernel, parts, keys),
      ...adminOperations(users),
      ...helpOperations({ users, help, impersonate }),
    ],
    jobs: [
      ...authenticationJobs(kernel.database, keys, parts.config),
      anonymousExpiryJob(parts.factors.anonymousUsers),
      parts.requests.job,
    ],
    state: [
      teamState({ ...kernel, access, teams: createTeams({ ...kernel, ...optional, access }) }),
      openidClientState(kernel.database, parts.openid.clients),
    ],
    async stop() {
      running = false;
      stopTeams();
      stopShares();
      for (const stop of stopListening) stop();
      kernel.identity.client = undefined;
      publish();
    },
  };
}

/** Answers name the fields of the user as they are now. Answers how to stop. */
const onUserFields = ({ schemas }: Pick<Kernel, 'schemas'>, publish: () => void): (() => void) =>
  schemas.onChange((changed) => {
    if (changed.includes(userSchema.name)) publish();
  });

/** What becomes of the files of users follows their deletion. Answers how to stop. */
const releaseFiles = (
  { onErasure }: Pick<AuthenticationService, 'onErasure'>,
  files: OptionalModule<StorageService>,
): (() => void) =>
  onErasure(async (transaction, userIds) => {
    const owners = userIds.map((id) => `User:${id}`);
    await files.current()?.forgetOwners(transaction, owners);
  });

/** Operations that the configuration does not switch. */
const lastingOperations = (
  { audit }: Kernel,
  parts: ReturnType<typeof createAuthenticationParts>,
  keys: SigningKeys,
): readonly Operation[] => [
  ...sessionOperations(parts),
  ...keyOperations(keys),
  securityEventsOperation(audit),
  ...openidClientOperations(parts.openid.clients),
];

/** What is tied to the bus for as long as the process lives, also while the module is switched off and on. */
interface LastingParts {
  readonly keys: SigningKeys;
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
}

const partsOf = new WeakMap<Kernel, LastingParts>();

const followTerms = async (keys: SigningKeys, config: AuthenticationConfig): Promise<void> =>
  void (await keys.follow(termsOf(config), signedLifetimeMs(config)));

async function lastingParts(kernel: Kernel, config: AuthenticationConfig): Promise<LastingParts> {
  const known = partsOf.get(kernel);
  const keys = known?.keys ?? (await openSigningKeys(kernel));
  await followTerms(keys, config);
  if (known) return known;
  const parts = {
    keys,
    accessTokens: createAccessTokens(keys),
    states: createSessionStates(kernel),
  };
  partsOf.set(kernel, parts);
  return parts;
}
