/**
 * Users without a name: made by the app at first sight, registered later in place (`AccountCreation.create`
 * with `upgrades`), deleted when nobody has used them for long.
 */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { AuthenticationConfig } from '../config.ts';
import { idleAnonymousUsers } from '../user-queries.ts';
import type { AccountCreation } from './account-creation.ts';
import type { AccountErasure } from './account-erasure.ts';
import { anonymousDomain } from './email-restrictions.ts';
import type { Origin } from './origin.ts';
import type { SecurityLog } from './security-log.ts';
import type { LoginAnswer, SignIn } from './sign-in.ts';
import type { OwnStrategy } from './strategies.ts';

export interface AnonymousUsers {
  /** Makes one and signs him in. Throws 400 for wrong userData. */
  create(caller: Caller, userData: Readonly<Record<string, unknown>>, origin: Origin): Promise<LoginAnswer>;
  /** Deletes up to `limit` whose last sign of life is longer ago than the configuration allows; answers how many. */
  expire(limit: number): Promise<number>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly creation: Pick<AccountCreation, 'create'>;
  readonly erasure: Pick<AccountErasure, 'erase'>;
  readonly signIn: SignIn;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

const strategy: OwnStrategy = 'anonymous';

export function createAnonymousUsers({ database, creation, erasure, signIn, securityLog, config }: Dependencies): AnonymousUsers {
  return {
    create: (caller, userData, origin) =>
      signIn.within(async () => {
        const email = `${crypto.randomUUID()}@${anonymousDomain}`;
        const { id } = await creation.create(caller, { strategy, email, isAnonymous: true, userData });
        await securityLog.note({ action: 'register', userId: id, origin, facts: { strategy } });
        return signIn.openById(id, origin, strategy);
      }),
    expire: (limit) =>
      database.transaction(async (transaction) => {
        const userIds = await idleAnonymousUsers(transaction, config().anonymousUsers.expiry, limit);
        if (userIds.length > 0) await erasure.erase(transaction, system('authentication'), userIds);
        return userIds.length;
      }),
  };
}
