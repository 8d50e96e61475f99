/** Codes of an authenticator app, as a user's second factor. The secret is sealed at rest and shown once. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { describeTotp, newTotpSecret, type TotpEnrolment, totpStep } from '../../../../kernel/security/totp.ts';
import { confirmTotp, pendingTotpSecret, storePendingTotp, takeTotpStep, totpSecret } from '../../factor-queries.ts';

export interface Authenticator {
  /** A new secret, in force after `confirm`; nothing when a confirmed one stands. `label` names the entry in the app. */
  enrol(userId: string, label: string): Promise<TotpEnrolment | undefined>;
  isPending(database: Queryable, userId: string): Promise<boolean>;
  /** Proves the pending secret and uses the code up; false when the code is wrong. */
  confirm(transaction: Queryable, userId: string, code: string): Promise<boolean>;
  /** Uses a code up: true for exactly one of all who try it. */
  use(userId: string, code: string): Promise<boolean>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets'> {
  readonly issuer: () => string;
}

const sealContext = (userId: string): string => `authentication:totp:${userId}`;

export function createAuthenticator({ database, secrets, issuer }: Dependencies): Authenticator {
  const stepOf = (sealed: string, userId: string, code: string) => totpStep(secrets.open(sealed, sealContext(userId)), code);

  return {
    async enrol(userId, label) {
      const secret = await newTotpSecret();
      const stored = await storePendingTotp(database, userId, secrets.seal(secret, sealContext(userId)));
      return stored ? describeTotp(secret, { issuer: issuer(), label }) : undefined;
    },
    isPending: async (queryable, userId) => (await pendingTotpSecret(queryable, userId)) !== undefined,
    async confirm(transaction, userId, code) {
      const sealed = await pendingTotpSecret(transaction, userId);
      const step = sealed === undefined ? undefined : await stepOf(sealed, userId, code);
      return sealed !== undefined && step !== undefined && confirmTotp(transaction, userId, { sealed, step });
    },
    async use(userId, code) {
      const sealed = await totpSecret(database, userId);
      const step = sealed === undefined ? undefined : await stepOf(sealed, userId, code);
      return step !== undefined && takeTotpStep(database, userId, step);
    },
  };
}
