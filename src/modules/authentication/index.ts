/** The authentication module: accounts, sessions and the tokens that prove them. */
import type { Caller } from '../../kernel/caller.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../kernel/module.ts';
import { type AuthenticationConfig, authenticationConfig } from './config.ts';
import { authenticationJobs } from './jobs.ts';
import { migrations } from './migrations.ts';
import { adminOperations } from './operations/admin.ts';
import { keyOperations } from './operations/keys.ts';
import { localOperations } from './operations/local.ts';
import { renewOperation, sessionOperations } from './operations/session.ts';
import { userOperations } from './operations/user.ts';
import { userSchema } from './schemas.ts';
import { type AccessTokens, createAccessTokens } from './services/access-tokens.ts';
import { createAccounts } from './services/accounts.ts';
import { createClientIdentity } from './services/identity.ts';
import { createLocalLogin } from './services/local-login.ts';
import { createLoginGuard } from './services/login-guard.ts';
import { createRenewal } from './services/renewal.ts';
import { createSessionOpener } from './services/session-opening.ts';
import { createSessionStates, type SessionStates } from './services/session-states.ts';
import { createSessions } from './services/sessions.ts';
import { openSigningKeys, type SigningKeys } from './services/signing-keys.ts';
import { createPairMaker } from './services/token-pairs.ts';
import { createUserAdmin } from './services/user-admin.ts';

/** What other modules may ask of authentication. */
export interface AuthenticationService {
  /** Ends all sessions of these users on every node before it returns (joins the ambient transaction); answers how many. */
  endSessions(caller: Caller, userIds: readonly string[]): Promise<number>;
}

export const authentication = defineModule({
  name: 'authentication',
  description: 'Users, their passwords and their sessions',
  requires: {},
  config: authenticationConfig,
  schemas: [userSchema],
  migrations,
  start,
});

/** Operations that exist only while the configuration wants them. */
const switchable = 'authentication/switchable';

async function start({ kernel, config, log }: ModuleContext<AuthenticationConfig>): Promise<RunningModule<AuthenticationService>> {
  const { keys, accessTokens, states } = await lastingParts(kernel);
  const current = () => config.current();
  const makePair = createPairMaker(accessTokens, current);
  const sessions = createSessions({ ...kernel, states });
  const renewal = createRenewal({ ...kernel, states, makePair, config: current, log });
  const guard = createLoginGuard(kernel.limits, () => current().lockout.failures);
  const open = createSessionOpener({ ...kernel, states, makePair, config: current });
  const local = createLocalLogin({ ...kernel, open, guard, config: current });
  const accounts = createAccounts({ ...kernel, sessions, guard, config: current });
  const users = createUserAdmin({ ...kernel, sessions, config: current });

  const publish = (wanted: AuthenticationConfig): void =>
    kernel.operations.replace(switchable, [
      ...(wanted.local.enabled ? localOperations({ local, accounts }) : []),
      ...(wanted.refreshTokens.enabled ? [renewOperation({ sessions, renewal })] : []),
    ]);
  publish(current());
  const stopListening = config.onChange((next) => publish(next));
  kernel.identity.client = createClientIdentity({ accessTokens, states, keys });

  return {
    service: { endSessions: (caller, userIds) => sessions.endAll(caller, userIds, { reason: 'revoked' }) },
    operations: [
      ...sessionOperations({ sessions, renewal }),
      ...userOperations(accounts),
      ...keyOperations(keys),
      ...adminOperations(users),
    ],
    jobs: authenticationJobs(kernel.database, keys, current),
    async stop() {
      stopListening();
      kernel.identity.client = undefined;
      kernel.operations.replace(switchable, []);
    },
  };
}

/** What is tied to the bus for as long as the process lives, also while the module is switched off and on. */
interface LastingParts {
  readonly keys: SigningKeys;
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
}

const partsOf = new WeakMap<Kernel, LastingParts>();

async function lastingParts(kernel: Kernel): Promise<LastingParts> {
  const known = partsOf.get(kernel);
  if (known) return known;
  const keys = await openSigningKeys(kernel);
  const parts = { keys, accessTokens: createAccessTokens(keys), states: createSessionStates(kernel.database, kernel.caches) };
  partsOf.set(kernel, parts);
  return parts;
}
