/** A second factor that is on: switching it off, and its recovery codes. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { userEvent } from '../../events.ts';
import { factorErrors } from '../../factor-errors.ts';
import { deleteSecondFactor } from '../../factor-queries.ts';
import { clearSecondFactor, credentialsById } from '../../queries.ts';
import type { Notices } from '../notices.ts';
import type { Origin } from '../origin.ts';
import { lockRegistered } from '../own-account.ts';
import type { Sessions } from '../sessions.ts';
import { requireHimself, requireSudo } from '../sudo.ts';
import type { RecoveryCodes } from './recovery-codes.ts';
import type { SecondStep } from './second-step.ts';
import type { SmsCodes } from './sms-codes.ts';

export interface SecondFactor {
  /** Switches it off with its secrets and codes, after a fresh sign-in or with a code. False when it was off. */
  disable(caller: UserCaller, code: string | undefined, origin: Origin): Promise<boolean>;
  /** Ten new recovery codes; those before do not work any more. Needs a fresh sign-in. */
  makeCodes(caller: UserCaller): Promise<readonly string[]>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly smsCodes: SmsCodes;
  readonly recoveryCodes: RecoveryCodes;
  readonly step: Pick<SecondStep, 'prove'>;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly config: () => AuthenticationConfig;
}

export function createSecondFactor(dependencies: Dependencies): SecondFactor {
  const { database, events, smsCodes, recoveryCodes, step, sessions, notices, config } = dependencies;
  const requireFresh = (caller: UserCaller): void => requireSudo(caller, config().sessions.sudoMaxAge);

  return {
    async disable(caller, code, origin) {
      requireHimself(caller);
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
        if (!account.hasTwoFA) throw factorErrors.NO_SECOND_FACTOR();
        const codes = await recoveryCodes.make(transaction, caller.userId);
        await events.emit(transaction, caller, userEvent('makeRecoveryCodes', [caller.userId], caller.sessionId));
        await notices.send(transaction, account, 'RecoveryCodesMade', {});
        return codes;
      });
    },
  };
}
