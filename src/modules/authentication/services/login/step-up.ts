/**
 * Step-up: a user who is signed in proves once more who they are, so that the session passes for fresh
 * (`sudo`). Who has a second factor proves that; their password alone could be known to whoever took the session.
 */
import type { AuthenticationResponseJSON } from '@simplewebauthn/server';
import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import { authErrors } from '../../errors.ts';
import { type Credentials, credentialsById } from '../../queries.ts';
import type { Origin } from '../origin.ts';
import type { PasskeySignIn } from '../passkeys/passkey-sign-in.ts';
import type { SecondStep } from '../second-factor/second-factor.ts';
import type { SecurityLog } from '../security-log.ts';
import { attemptAt, type LoginGuard } from '../sessions/login-guard.ts';
import { freshenSession } from '../sessions/queries.ts';
import type { PairMaker } from '../sessions/session-opening.ts';

/** Exactly one of them. */
export interface StepUpProof {
  readonly password?: string | undefined;
  /** Of the second factor. */
  readonly code?: string | undefined;
  readonly credential?: AuthenticationResponseJSON | undefined;
}

export interface StepUp {
  /**
   * Answers an access token that says so; the refresh token stays good. Throws 400 when the proof is missing or
   * not enough for this account, 403 for a wrong password and for operators who act as a user, 401 for a wrong
   * code or passkey, 429.
   */
  prove(
    caller: UserCaller,
    proof: StepUpProof,
    origin: Origin,
  ): Promise<{ readonly accessToken: string }>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'passwords'> {
  readonly guard: LoginGuard;
  readonly step: Pick<SecondStep, 'prove'>;
  readonly passkeySignIn: Pick<PasskeySignIn, 'prove'>;
  readonly securityLog: SecurityLog;
  readonly makePair: PairMaker;
}

export function createStepUp({
  database,
  passwords,
  guard,
  step,
  passkeySignIn,
  securityLog,
  makePair,
}: Dependencies): StepUp {
  const refused = (userId: string, origin: Origin) =>
    securityLog.note({ action: 'stepUp', userId, origin, outcome: 'refused' });

  const byPassword = async (
    account: Credentials,
    password: string,
    origin: Origin,
  ): Promise<void> => {
    const { userId, hashedPassword, hasTwoFA } = account;
    if (hasTwoFA) throw invalid('code', 'required', 'this account has a second factor: prove that');
    const attempt = attemptAt(account, origin.address);
    const mayTry = await guard.enter(attempt);
    if (!(await passwords.verify(hashedPassword ?? undefined, password)) || !mayTry) {
      await refused(userId, origin);
      throw authErrors.PASSWORD_INCORRECT({ message: 'The password is not right' });
    }
    await guard.succeeded(attempt);
  };

  const check = async (
    caller: UserCaller,
    { password, code, credential }: StepUpProof,
    origin: Origin,
  ): Promise<void> => {
    const account = await credentialsById(database, caller.userId);
    if (!account) throw authErrors.TOKEN_INVALID();
    if ([password, code, credential].filter((given) => given !== undefined).length !== 1) {
      throw invalid(
        'password',
        'oneOf',
        'give one proof: the password, a code of the second factor, or a passkey credential',
      );
    }
    if (credential !== undefined) return passkeySignIn.prove(caller, credential, origin);
    if (password !== undefined) return byPassword(account, password, origin);
    return step.prove(caller, code ?? '', origin);
  };

  return {
    async prove(caller, proof, origin) {
      if (caller.impersonatedBy !== undefined) throw authErrors.SUDO_REQUIRED();
      await check(caller, proof, origin);
      return database.transaction(async (transaction) => {
        const session = await freshenSession(transaction, caller);
        if (!session) throw authErrors.TOKEN_INVALID();
        await securityLog.note({ action: 'stepUp', userId: caller.userId, origin });
        return {
          accessToken: makePair(session, { tokenId: newId(), refreshToken: undefined }).accessToken,
        };
      });
    },
  };
}
