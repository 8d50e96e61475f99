/**
 * Registration and sign-in by a code to a phone. A request is answered, and does, the same for numbers that
 * are known and for others: every number gets a code, and who it belongs to is looked at once the code came
 * back. What is sent is bounded per number and per range of numbers, since somebody earns on each message.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { randomToken } from '../../../../kernel/security/tokens.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { factorErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import {
  type Credentials,
  credentialsById,
  credentialsByPhone,
  lockCredentials,
} from '../../queries.ts';
import type { OwnStrategy } from '../../strategies.ts';
import type { AccountCreation } from '../accounts/account-lifecycle.ts';
import { registeredCaller, requireRecentLogin } from '../caller-checks.ts';
import { setPhoneNumber } from '../credentials/queries.ts';
import type { MailGuard } from '../mail/mail-requests.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import { codeText, type SmsQuota, usablePhoneNumber } from '../second-factor/sms-codes.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import { type OneTimeGrant, type OneTimeTokens, sixDigits } from '../tokens/one-time-tokens.ts';
import { onUniqueViolation } from '../transactions.ts';

export interface PhoneProof {
  readonly token: string;
  readonly code: string;
  /** For a new account. */
  readonly userData?: Readonly<Record<string, unknown>> | undefined;
}

export interface PhoneSignIn {
  /** Sends a code; answers the token that it works with. Throws 400 for a number that cannot be used, 429. */
  request(phone: string, invitationToken: string | undefined, origin: Origin): Promise<string>;
  /**
   * Signs in whoever has the number, else makes an account (or registers the anonymous caller). For a registered
   * caller the number becomes theirs, after a fresh sign-in. Throws 401 for a wrong code, PHONE_IN_USE, and what account creation throws.
   */
  verify(caller: Caller, proof: PhoneProof, origin: Origin): Promise<LoginAnswer>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'secrets'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendSms'>;
  readonly guard: MailGuard;
  readonly maySend: SmsQuota;
  readonly creation: Pick<AccountCreation, 'create'>;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly notices: Notices;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

const strategy: OwnStrategy = 'phone';
const sealContext = 'authentication:phone-invitation';

export function createPhoneSignIn(dependencies: Dependencies): PhoneSignIn {
  const { database, secrets, tokens, signIn, config } = dependencies;
  const { attach, ownerOf } = createPhoneOwners(dependencies);

  /** Uses the code up and does what it is good for, all or nothing; a wrong code counts in any case. */
  const redeem = (
    proof: PhoneProof,
    use: (transaction: Transaction, grant: OneTimeGrant) => Promise<string>,
  ): Promise<string | undefined> =>
    database.transaction(async (transaction) => {
      const grant = await tokens.consumeCode(
        transaction,
        'phone-login',
        { token: proof.token },
        proof.code,
      );
      return grant && use(transaction, grant);
    });

  return {
    request: (phone, invitationToken, origin) =>
      request(dependencies, phone, invitationToken, origin),
    async verify(caller, proof, origin) {
      const registered = await registeredCaller(database, caller);
      if (registered) requireRecentLogin(registered, config().sessions.sudoMaxAge);
      const userId = await redeem(proof, (transaction, { data }) => {
        const invitationToken =
          typeof data.invitation === 'string'
            ? secrets.open(data.invitation, sealContext)
            : undefined;
        const phone = String(data.phone);
        if (registered) return attach(transaction, registered, phone, origin);
        return ownerOf(
          transaction,
          caller,
          { phone, invitationToken, userData: proof.userData },
          origin,
        );
      });
      if (userId === undefined) {
        await signIn.refused({ strategy, outcome: 'wrong', origin });
        throw authErrors.CREDENTIALS_INVALID({
          message: 'The code is not valid: ask for a new one',
        });
      }
      if (registered) return signIn.openById(userId, origin, strategy, 'bothFactors');
      const account = await credentialsById(database, userId);
      if (account && isItsOwnSecondFactor(account, config())) {
        await signIn.refused({ strategy, outcome: 'wrong', origin, userId });
        throw factorErrors.PHONE_IN_USE();
      }
      return signIn.openById(userId, origin, strategy);
    },
  };
}

async function request(
  { config, guard, maySend, secrets, database, tokens, messages }: Dependencies,
  presented: string,
  invitationToken: string | undefined,
  { address }: Origin,
): Promise<string> {
  const { countries, codeLifetime } = config().phoneAuthentication;
  const phone = await usablePhoneNumber(presented, countries);
  await guard.enter('phone', phone, address);
  if (!(await maySend(phone))) return randomToken();
  const invitation =
    invitationToken === undefined ? {} : { invitation: secrets.seal(invitationToken, sealContext) };
  return database.transaction(async (transaction) => {
    const request = {
      purpose: 'phone-login',
      data: { phone, ...invitation },
      code: sixDigits,
      lifetimeMs: codeLifetime,
    } as const;
    const { token, code = '' } = await tokens.issue(transaction, request);
    const sms = { to: phone, text: codeText(code), code };
    await messages.sendSms(transaction, { module: 'authentication', ...sms });
    return token;
  });
}

/** One phone must not prove both factors (CWE-308). Whoever has no other way in would be locked out, so that one may. */
const isItsOwnSecondFactor = (
  account: Credentials,
  { local, magic_link, email_code }: AuthenticationConfig,
): boolean => {
  const byPassword =
    account.hashedPassword !== null && (local.enabled || local.username_auth_enabled);
  const byMail =
    account.email !== null && (local.enabled || magic_link.enabled || email_code.enabled);
  return account.hasTwoFA && account.twoFaMethod === 'sms' && (byPassword || byMail);
};

interface Arrival {
  readonly phone: string;
  readonly invitationToken: string | undefined;
  readonly userData: Readonly<Record<string, unknown>> | undefined;
}

/** Whose a number is, or becomes. Both work in the transaction that uses the code up. */
function createPhoneOwners(dependencies: Dependencies) {
  const { database, events, sessions, notices, securityLog } = dependencies;
  const ownerNow = async (transaction: Transaction, phone: string): Promise<string | undefined> =>
    (await credentialsByPhone(transaction, phone))?.userId;

  return {
    async ownerOf(
      transaction: Transaction,
      caller: Caller,
      arrival: Arrival,
      origin: Origin,
    ): Promise<string> {
      const known = await ownerNow(transaction, arrival.phone);
      if (known !== undefined) return known;
      return database
        .part(() => create(dependencies, caller, arrival, origin))
        .catch(async (error: unknown) => {
          // Somebody else registered the number at the same moment: it can only be its owner.
          const taken =
            error instanceof PenstockError && error.code === authErrors.PHONE_NUMBER_EXISTS.code;
          const owner = taken ? await ownerNow(transaction, arrival.phone) : undefined;
          if (owner === undefined) throw error;
          return owner;
        });
    },
    async attach(
      transaction: Transaction,
      caller: UserCaller,
      phone: string,
      origin: Origin,
    ): Promise<string> {
      const account = await lockCredentials(transaction, caller.userId);
      if (!account) throw authErrors.TOKEN_INVALID();
      await onUniqueViolation(authErrors.PHONE_NUMBER_EXISTS, () =>
        setPhoneNumber(transaction, caller.userId, phone),
      );
      await sessions.endAll(caller, [caller.userId], { reason: 'factorsChanged' });
      await events.emit(
        transaction,
        caller,
        userEvent('changePhone', [caller.userId], caller.sessionId),
      );
      await securityLog.note({ action: 'changePhone', userId: caller.userId, origin });
      await notices.send(transaction, account, 'PhoneChanged', { ending: phone.slice(-2) });
      return caller.userId;
    },
  };
}

async function create(
  { creation, sessions, securityLog }: Dependencies,
  caller: Caller,
  { phone, invitationToken, userData }: Arrival,
  origin: Origin,
): Promise<string> {
  const { id } = await creation.create(caller, {
    strategy,
    phoneNumber: phone,
    ...(invitationToken === undefined ? {} : { invitationToken }),
    ...(userData === undefined ? {} : { userData }),
    ...(caller.kind === 'user' ? { upgrades: caller.userId } : {}),
  });
  // Whoever began as this anonymous user may be somebody else than the owner of the phone.
  if (caller.kind === 'user') await sessions.endAll(caller, [id], { reason: 'revoked' });
  await securityLog.note({ action: 'register', userId: id, origin, facts: { strategy } });
  return id;
}
