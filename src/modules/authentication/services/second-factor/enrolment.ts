/** Switching a second factor on, in two steps: it counts once it is proven. */

import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import {
  type Authenticator,
  tidyCode,
} from '../../../../kernel/security/second-factor/authenticator.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { factorErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import type { Credentials } from '../../queries.ts';
import { forbidImpersonation, lockRegistered, requireRecentLogin } from '../caller-checks.ts';
import { passkeysOf } from '../credentials/key-queries.ts';
import {
  phoneNumberOf,
  type SecondFactorMethod,
  setPhoneNumber,
  setSecondFactor,
} from '../credentials/queries.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import { onUniqueViolation } from '../transactions.ts';
import type { SecondStep } from './second-factor.ts';
import { type SmsCodes, usablePhoneNumber } from './sms-codes.ts';

export interface Enabling {
  readonly method: SecondFactorMethod;
  /** Needed for `sms` where the account has no number. */
  readonly phoneNumber?: string | undefined;
}

/** What is shown once: the image as a data URI, with what it says. */
export interface EnablingAnswer {
  readonly result: string;
  readonly secret?: string;
  readonly uri?: string;
  readonly qrCode?: string;
}

export interface Enrolment {
  /**
   * Begins. Needs a fresh sign-in; also for one who must set up a factor before anything else. A passkey that the
   * user has was proven when it was added: with it the second factor is on at once.
   */
  enable(caller: UserCaller, requested: Enabling): Promise<EnablingAnswer>;
  /**
   * Proves the new factor and switches it on. All other sessions end. Answers the tokens of a whole session
   * to one who could do nothing else until now.
   */
  confirm(caller: UserCaller, code: string, origin: Origin): Promise<LoginAnswer | undefined>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly authenticator: Authenticator;
  readonly smsCodes: SmsCodes;
  readonly step: Pick<SecondStep, 'finish'>;
  readonly signIn: Pick<SignIn, 'within'>;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly messages: Pick<Messages, 'available'>;
  readonly config: () => AuthenticationConfig;
}

export function createEnrolment(dependencies: Dependencies): Enrolment {
  const { database, authenticator, step, signIn, messages, config } = dependencies;
  const begin = createBeginning(dependencies);
  const switchOn = createSwitch(dependencies);

  const requireMethod = (method: SecondFactorMethod): void => {
    const { twoFa, passkeys } = config();
    const isUp = { authenticator: true, sms: messages.available('sms'), passkey: passkeys.enabled };
    if (!twoFa.methods[method] || !isUp[method])
      throw factorErrors.SECOND_FACTOR_METHOD_UNAVAILABLE();
  };

  /** The number that a code by text message proves. A wrong code counts, whatever happens afterwards. */
  const provenPhone = async (caller: UserCaller, code: string): Promise<string> => {
    const grant = await dependencies.smsCodes.use('phone-verify', caller, code);
    if (typeof grant?.data.phone !== 'string') throw factorErrors.CODE_INVALID();
    return grant.data.phone;
  };

  const byPasskey = (caller: UserCaller): Promise<EnablingAnswer> =>
    database.transaction(async (transaction) => {
      const account = await lockChangeable(transaction, caller);
      if (account.hasTwoFA) throw factorErrors.SECOND_FACTOR_EXISTS();
      if ((await passkeysOf(transaction, caller.userId)).length === 0)
        throw factorErrors.SECOND_FACTOR_METHOD_UNAVAILABLE();
      await switchOn(transaction, caller, account, { method: 'passkey', phone: null });
      return { result: '2FA enabled' };
    });

  /** Whoever knows the password alone must not add a factor of their own beside a passkey that could be asked for. */
  const requireNoPasskey = async (caller: UserCaller): Promise<void> => {
    if (caller.complete || !config().passkeys.enabled) return;
    if ((await passkeysOf(database, caller.userId)).length > 0)
      throw factorErrors.PASSKEY_REQUIRED();
  };

  return {
    async enable(caller, { method, phoneNumber }) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      requireMethod(method);
      const account = await database.transaction((transaction) =>
        lockChangeable(transaction, caller),
      );
      if (account.hasTwoFA) return { result: '2FA already enabled' };
      if (method === 'passkey') return byPasskey(caller);
      await requireNoPasskey(caller);
      return method === 'sms' ? begin.bySms(caller, phoneNumber) : begin.byApp(account);
    },
    async confirm(caller, given, origin) {
      forbidImpersonation(caller);
      const code = tidyCode(given);
      const byApp = await authenticator.isPending(database, caller.userId);
      const phone = byApp ? null : await provenPhone(caller, code);
      return signIn.within(async (transaction) => {
        const account = await lockChangeable(transaction, caller);
        if (account.hasTwoFA) throw factorErrors.SECOND_FACTOR_EXISTS();
        if (byApp && !(await authenticator.confirm(transaction, caller.userId, code)))
          throw factorErrors.TOTP_INVALID();
        await switchOn(transaction, caller, account, {
          method: byApp ? 'authenticator' : 'sms',
          phone,
        });
        return caller.complete ? undefined : step.finish(caller, origin, 'second-factor');
      });
    },
  };
}

/** Who needs the second factor of the account may not change it. */
async function lockChangeable(transaction: Transaction, caller: UserCaller): Promise<Credentials> {
  const account = await lockRegistered(transaction, caller);
  if (account.hasTwoFA && !caller.complete) throw authErrors.TOKEN_INVALID();
  return account;
}

/** The first step of each method; what the other method had begun ends. */
function createBeginning({ database, authenticator, smsCodes, config }: Dependencies) {
  return {
    async byApp({ userId, email, username }: Credentials): Promise<EnablingAnswer> {
      const enrolment = await authenticator.enrol(userId, email ?? username ?? userId);
      if (!enrolment) throw factorErrors.SECOND_FACTOR_EXISTS();
      await smsCodes.discard(database, userId);
      const { image, uri, secret } = enrolment;
      return { result: image, secret, uri, qrCode: image };
    },
    async bySms(caller: UserCaller, given: string | undefined): Promise<EnablingAnswer> {
      const { countries } = config().phoneAuthentication;
      const phone =
        given === undefined
          ? await phoneNumberOf(database, caller.userId)
          : await usablePhoneNumber(given, countries, 'phoneNumber');
      if (phone === null)
        throw invalid('phoneNumber', 'required', 'codes by text message need a phone number');
      await authenticator.discardPending(database, caller.userId);
      await smsCodes.send('phone-verify', caller, phone);
      return {
        result: 'A code was sent to the number: send it to /authentication/twoFa/enable/verify',
      };
    },
  };
}

const inWords = {
  authenticator: 'authenticator app',
  sms: 'text message',
  passkey: 'passkey',
} as const;

/** What was proven. `phone`: where codes go; `null` where none go anywhere. */
interface ProvenFactor {
  readonly method: SecondFactorMethod;
  readonly phone: string | null;
}

/** The last step, in the transaction that has proven the factor. */
function createSwitch({ events, sessions, notices }: Dependencies) {
  return async (
    transaction: Transaction,
    caller: UserCaller,
    account: Credentials,
    { method, phone }: ProvenFactor,
  ): Promise<void> => {
    const { userId, sessionId } = caller;
    if (phone !== null && phone !== (await phoneNumberOf(transaction, userId))) {
      await onUniqueViolation(authErrors.PHONE_NUMBER_EXISTS, () =>
        setPhoneNumber(transaction, userId, phone),
      );
    }
    await setSecondFactor(transaction, userId, method);
    await sessions.endAll(caller, [userId], { reason: 'factorsChanged', except: sessionId });
    await events.emit(transaction, caller, userEvent('enableTwofa', [userId], sessionId));
    await notices.send(transaction, account, 'SecondFactorOn', { method: inWords[method] });
  };
}
