/** A second factor that is on: switching it off, and its recovery codes. */

import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import {
  type Authenticator,
  tidyCode,
} from '../../../../kernel/security/second-factor/authenticator.ts';
import type { RecoveryCodes } from '../../../../kernel/security/second-factor/recovery-codes.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { factorErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, clearSecondFactor, credentialsById } from '../../queries.ts';
import { forbidImpersonation, lockRegistered, requireRecentLogin } from '../caller-checks.ts';
import {
  deleteSecondFactor,
  phoneNumberOf,
  type SecondFactorMethod,
} from '../credentials/queries.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import { type FactorQuota, maskedPhoneNumber, type SmsCodes } from './sms-codes.ts';

/*
 * The second step of a sign-in. The partial token of the first step says whose it is; what proves the
 * second factor ends that session and opens a whole one in its place.
 */

/** Other proofs that an account may have for its second step. */
export type Alternative = 'passkey' | 'recoveryCode';

interface Authorization {
  readonly method: SecondFactorMethod;
  readonly message: string;
  /** What would do as well. */
  readonly alternatives: readonly Alternative[];
}

export interface SecondStep {
  /** Says how the second factor is proven, and sends the code where one must be sent. */
  authorize(caller: UserCaller): Promise<Authorization>;
  /** Proves it with a code and answers a whole session. */
  verify(caller: UserCaller, code: string, origin: Origin): Promise<LoginAnswer>;
  /** The same with a recovery code; `left` are there still. The owner is told by mail. */
  recover(
    caller: UserCaller,
    code: string,
    origin: Origin,
  ): Promise<LoginAnswer & { readonly left: number }>;
  /** Uses up a code of the caller's own second factor. Throws 401, 404, 429. Not for use in a transaction: wrong codes count. */
  prove(caller: UserCaller, code: string, origin: Origin): Promise<void>;
  /** A whole session in place of the caller's partial one, for a second factor that is proven. Throws 401 when it has ended. */
  finish(caller: UserCaller, origin: Origin, strategy: string): Promise<LoginAnswer>;
}

interface StepDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly authenticator: Authenticator;
  readonly smsCodes: SmsCodes;
  readonly recoveryCodes: RecoveryCodes;
  readonly quota: FactorQuota;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly securityLog: SecurityLog;
  readonly notices: Notices;
  /** What the user has, and may use now. */
  readonly alternatives: (userId: string) => Promise<readonly Alternative[]>;
}

export function createSecondStep(dependencies: StepDependencies): SecondStep {
  const authorize = createAuthorize(dependencies);
  const {
    database,
    events,
    authenticator,
    smsCodes,
    recoveryCodes,
    sessions,
    signIn,
    securityLog,
    notices,
  } = dependencies;

  const fits = async (caller: UserCaller, method: string | null, code: string): Promise<boolean> =>
    method === 'sms'
      ? (await smsCodes.use('two-factor', caller, code)) !== undefined
      : authenticator.use(caller.userId, code);

  const proveWith = async (caller: UserCaller, given: string, origin: Origin): Promise<void> => {
    const { twoFaMethod } = await accountOf(database, caller.userId);
    const isRight = await trying(dependencies, caller, origin, () =>
      fits(caller, twoFaMethod, tidyCode(given)),
    );
    if (!isRight)
      throw twoFaMethod === 'authenticator'
        ? factorErrors.TOTP_INVALID()
        : factorErrors.CODE_INVALID();
  };

  const finish: SecondStep['finish'] = (caller, origin, strategy) =>
    signIn.within(async (transaction) => {
      if (!(await sessions.replace(transaction, caller))) throw authErrors.TOKEN_INVALID();
      return signIn.openById(caller.userId, origin, strategy, 'bothFactors');
    });

  return {
    authorize,
    async verify(caller, code, origin) {
      requirePartial(caller);
      await proveWith(caller, code, origin);
      return finish(caller, origin, 'second-factor');
    },
    async recover(caller, code, origin) {
      requirePartial(caller);
      const account = await accountOf(database, caller.userId);
      const { userId } = caller;
      if ((await recoveryCodes.left(userId)) === 0) throw factorErrors.RECOVERY_CODES_MISSING();
      if (!(await trying(dependencies, caller, origin, () => recoveryCodes.use(userId, code))))
        throw factorErrors.CODE_INVALID();
      return signIn.within(async (transaction) => {
        const answer = await finish(caller, origin, 'recovery-code');
        const left = await recoveryCodes.left(userId);
        await events.emit(transaction, caller, userEvent('useRecoveryCode', [userId]));
        await securityLog.note({ action: 'recovery', userId, origin });
        await notices.send(transaction, account, 'RecoveryCodeUsed', { left: String(left) });
        return { ...answer, left };
      });
    },
    prove: proveWith,
    finish,
  };
}

/** Pays for a try, and notes the ones that fail. */
async function trying(
  { quota, securityLog }: StepDependencies,
  caller: UserCaller,
  origin: Origin,
  attempt: () => Promise<boolean>,
): Promise<boolean> {
  await quota.enter(caller.userId);
  const isRight = await attempt();
  if (isRight) await quota.succeeded(caller.userId);
  else
    await securityLog.note({
      action: 'secondFactor',
      userId: caller.userId,
      origin,
      outcome: 'refused',
    });
  return isRight;
}

/** The account, which must have a second factor. */
async function accountOf(database: Queryable, userId: string): Promise<Credentials> {
  const account = await credentialsById(database, userId);
  if (!account) throw authErrors.TOKEN_INVALID();
  if (!account.hasTwoFA) throw factorErrors.SECOND_FACTOR_MISSING();
  return account;
}

function createAuthorize({
  database,
  smsCodes,
  alternatives: others,
}: StepDependencies): SecondStep['authorize'] {
  return async (caller) => {
    const { twoFaMethod } = await accountOf(database, caller.userId);
    const alternatives = await others(caller.userId);
    if (twoFaMethod === 'passkey')
      return {
        method: twoFaMethod,
        message: 'Use your passkey',
        alternatives: alternatives.filter((one) => one !== twoFaMethod),
      };
    if (twoFaMethod !== 'sms')
      return {
        method: 'authenticator',
        message: 'Enter the code of your authenticator app',
        alternatives,
      };
    const phone = await phoneNumberOf(database, caller.userId);
    if (phone === null) throw factorErrors.SECOND_FACTOR_MISSING();
    await smsCodes.send('two-factor', caller, phone);
    return {
      method: 'sms',
      message: `A code was sent to ${maskedPhoneNumber(phone)}`,
      alternatives,
    };
  };
}

/** Who needs no further factor has nothing to prove here. */
function requirePartial({ complete }: UserCaller): void {
  if (complete) throw factorErrors.SECOND_FACTOR_NOT_PENDING();
}

interface SecondFactor {
  /** Switches it off with its secrets and codes, after a fresh sign-in or with a code. False when it was off. */
  disable(caller: UserCaller, code: string | undefined, origin: Origin): Promise<boolean>;
  /** Ten new recovery codes; those before do not work any more. Needs a fresh sign-in. */
  makeCodes(caller: UserCaller): Promise<readonly string[]>;
}

interface FactorDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly smsCodes: SmsCodes;
  readonly recoveryCodes: RecoveryCodes;
  readonly step: Pick<SecondStep, 'prove'>;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly config: () => AuthenticationConfig;
}

export function createSecondFactor(dependencies: FactorDependencies): SecondFactor {
  const { database, events, smsCodes, recoveryCodes, step, sessions, notices, config } =
    dependencies;
  const requireFresh = (caller: UserCaller): void =>
    requireRecentLogin(caller, config().sessions.sudoMaxAge);

  return {
    async disable(caller, code, origin) {
      forbidImpersonation(caller);
      const { userId, sessionId } = caller;
      if (!(await credentialsById(database, userId))?.hasTwoFA) return false;
      if (code === undefined) requireFresh(caller);
      else await step.prove(caller, code, origin);
      return database.transaction(async (transaction) => {
        const account = await lockRegistered(transaction, caller);
        if (!account.hasTwoFA) return false;
        await deleteSecondFactor(transaction, userId);
        await smsCodes.discard(transaction, userId);
        await clearSecondFactor(transaction, userId);
        await sessions.endAll(caller, [userId], { reason: 'factorsChanged', except: sessionId });
        await events.emit(transaction, caller, userEvent('disableTwofa', [userId], sessionId));
        await notices.send(transaction, account, 'SecondFactorOff', {});
        return true;
      });
    },
    async makeCodes(caller) {
      requireFresh(caller);
      return database.transaction(async (transaction) => {
        const account = await lockRegistered(transaction, caller);
        if (!account.hasTwoFA) throw factorErrors.SECOND_FACTOR_MISSING();
        const codes = await recoveryCodes.make(transaction, caller.userId);
        await events.emit(
          transaction,
          caller,
          userEvent('makeRecoveryCodes', [caller.userId], caller.sessionId),
        );
        await notices.send(transaction, account, 'RecoveryCodesMade', {});
        return codes;
      });
    },
  };
}
