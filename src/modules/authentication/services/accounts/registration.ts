/** Registration with e-mail and password. */

import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { credentialsByEmail } from '../../queries.ts';
import { allowedRedirect } from '../../redirects.ts';
import type { MailRequests } from '../mail/mail-requests.ts';
import type { Origin } from '../origin.ts';
import type { NewPassword } from '../passwords.ts';
import type { SecurityLog } from '../security-log.ts';
import { pendingFactorOf } from '../sessions/session-opening.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { withRollback } from '../transactions.ts';
import type { AccountCreation, NewAccount } from './account-lifecycle.ts';
import { canonicalEmail, type EmailGate } from './identifiers.ts';
import { userView } from './user-data.ts';

export interface Registration {
  readonly email: string;
  readonly password: string;
  readonly userData?: Readonly<Record<string, unknown>>;
  readonly invitationToken?: string;
  /** Where the verification link ends. */
  readonly redirectUri?: string;
}

/**
 * Creates an account with a password (or turns the anonymous caller into one); no session. Answers the
 * user as JSON. A taken address is 409, unless addresses must be verified: then the answer is the same as
 * for a new one, and the owner is told by mail.
 */
export type Register = (caller: Caller, input: Registration, origin: Origin) => Promise<string>;

interface Dependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly creation: AccountCreation;
  readonly requests: MailRequests;
  readonly newPassword: NewPassword;
  readonly requireAllowedEmail: EmailGate;
  readonly securityLog: SecurityLog;
  readonly sessions: Pick<Sessions, 'endAll'>;
  readonly messages: Pick<Messages, 'available'>;
  readonly config: () => AuthenticationConfig;
}

/** An account that passed every check but the one for its address. */
interface Candidate {
  readonly account: NewAccount & { readonly email: string };
  readonly redirectUri: string | undefined;
  readonly origin: Origin;
}

export function createRegistration(dependencies: Dependencies): Register {
  const { database, newPassword, requireAllowedEmail, messages, config } = dependencies;
  const maker = createMaker(dependencies);

  /** Whether a taken address is answered like a new one: only where its owner can be told by mail. */
  const answersUniformly = (): boolean =>
    config().local.verification.required && messages.available('email');

  return async (
    caller,
    { email: presented, password, userData = {}, invitationToken, redirectUri },
    origin,
  ) => {
    const email = canonicalEmail(presented);
    const page =
      redirectUri === undefined ? undefined : allowedRedirect(redirectUri, config().redirectUris);
    requireAllowedEmail(email);
    const uniformly = answersUniformly();
    if (!uniformly && (await credentialsByEmail(database, email))) throw authErrors.USER_EXISTS();
    const hashedPassword = await newPassword(password, [email]);
    const account = {
      strategy: 'local',
      email,
      hashedPassword,
      userData,
      ...(invitationToken === undefined ? {} : { invitationToken }),
      ...(caller.kind === 'user' ? { upgrades: caller.userId } : {}),
    };
    const candidate = { account, redirectUri: page, origin };
    if (!uniformly) return maker.make(caller, candidate);
    if (await credentialsByEmail(database, email)) return maker.pretend(caller, candidate);
    return maker.make(caller, candidate).catch((error: unknown) => {
      // Somebody else took the address at the same moment.
      if (error instanceof PenstockError && error.code === authErrors.USER_EXISTS.code)
        return maker.pretend(caller, candidate);
      throw error;
    });
  };
}

/**
 * Makes an account, or only seems to. Both are one transaction with the same steps, and what else costs time (the
 * mail) is left to a job, so that time does not tell the one from the other.
 */
function createMaker({
  database,
  schemas,
  creation,
  requests,
  securityLog,
  sessions,
  config,
}: Dependencies) {
  /**
   * The sessions of an anonymous caller must not carry on where a sign-in with the account would ask for more: for
   * a proven address or a second factor. They end for a taken address too, so that this tells nothing about it.
   */
  const endAnonymous = async (caller: Caller): Promise<void> => {
    const asksForMore =
      config().local.verification.required ||
      pendingFactorOf(newAccount, config(), 'oneFactor') !== undefined;
    if (caller.kind === 'user' && asksForMore)
      await sessions.endAll(caller, [caller.userId], { reason: 'revoked' });
  };

  return {
    make: (caller: Caller, { account, redirectUri, origin }: Candidate): Promise<string> =>
      database.transaction(async () => {
        const { id, json } = await database.part(() => creation.create(caller, account));
        const { isVerified } = JSON.parse(json) as { isVerified: boolean };
        if (config().local.verification.send_email && !isVerified) {
          await requests.request(
            'verification',
            account.email,
            redirectUri === undefined ? {} : { redirectUri },
          );
        }
        await endAnonymous(caller);
        await securityLog.note({
          action: 'register',
          userId: id,
          origin,
          facts: { strategy: account.strategy },
        });
        return userView(schemas, json);
      }),
    /**
     * The answer that a new account would have got. The account is made and taken back, so that the work,
     * the shape and every other refusal are those of a real registration.
     */
    pretend: (caller: Caller, { account, origin }: Candidate): Promise<string> =>
      database.transaction(async () => {
        const { email: presentedEmail } = account;
        const pretended = { ...account, email: unusedAddress(), presentedEmail };
        const { json } = await withRollback(database, () =>
          creation.create(system('authentication'), pretended),
        );
        await requests.request('accountExists', account.email);
        await endAnonymous(caller);
        await securityLog.note({
          action: 'register',
          origin,
          outcome: 'refused',
          facts: { strategy: account.strategy, reason: 'taken' },
        });
        const view = JSON.parse(userView(schemas, json)) as object;
        return JSON.stringify({ ...view, email: presentedEmail });
      }),
  };
}

/** What decides about the second factor of an account that has just been made. */
const newAccount = { hasTwoFA: false, requiresTwoFA: false, isAnonymous: false } as const;

/** An address that nobody has and nobody can register. */
const unusedAddress = (): string => `${newId()}@unused.invalid`;
