/** Failure quotas of the admin surface (spec/core.md 2.4): who guesses is stopped before the guess is looked at. */

import { addressKey } from '../../../kernel/caller.ts';
import {
  createAttemptQuota,
  type DurableLimits,
  requireAllowed,
} from '../../../kernel/limits/durable-limits.ts';
import type { LimitBucket, LimitState } from '../../../kernel/limits/limits.ts';
import type { AdminConfig } from '../config.ts';

export interface FailureQuotas {
  /** Before a password is looked at: takes an attempt of the username, and asks for the address. Throws 429. */
  beforeLogin(usernameKey: string, address: string): Promise<void>;
  loginFailed(address: string): Promise<void>;
  loginSucceeded(usernameKey: string): Promise<void>;
  /** Before a code is looked at: false when this second-factor token is spent. Throws 429 when the admin's quota is. */
  beforeCode(adminId: string, tokenDigest: string): Promise<boolean>;
  /** Before a password or code of somebody who is signed in is looked at. Throws 429. */
  beforeProof(adminId: string): Promise<void>;
  proofSucceeded(adminId: string): Promise<void>;
  /** After a wrong master key. False when the quota of the address is used up. */
  masterKeyFailed(address: string): Promise<LimitState>;
}

/** Wrong codes and old passwords per admin, over all tokens and sessions: 20 in 15 minutes. */
const proofBucket: LimitBucket = { name: 'core.admin-proof', requests: 20, seconds: 900 };
/** Longer than such a token lives. */
const CODE_SECONDS = 120;

export function createFailureQuotas(
  limits: DurableLimits,
  config: () => AdminConfig['rateLimit'],
): FailureQuotas {
  const proofs = createAttemptQuota(limits, () => [proofBucket]);
  const loginBucket = (name: string, requests: number): LimitBucket => ({
    name,
    requests,
    seconds: config().loginSeconds,
  });
  const perUsername = () =>
    loginBucket('core.admin-login-username', config().loginFailuresPerUsername);
  const perAddress = () =>
    loginBucket('core.admin-login-address', config().loginFailuresPerAddress);
  const perCodeToken = (): LimitBucket => ({
    name: 'core.admin-code',
    requests: config().codeFailures,
    seconds: CODE_SECONDS,
  });
  const masterKeys = (): LimitBucket => ({
    name: 'core.master-key',
    requests: config().masterKeyFailures,
    seconds: config().masterKeySeconds,
  });

  return {
    async beforeLogin(usernameKey, address) {
      requireAllowed(await limits.peek(perAddress(), addressKey(address)));
      requireAllowed(await limits.consume(perUsername(), usernameKey));
    },
    loginFailed: async (address) => void (await limits.consume(perAddress(), addressKey(address))),
    loginSucceeded: (usernameKey) => limits.reset({ bucket: perUsername(), key: usernameKey }),
    async beforeCode(adminId, tokenDigest) {
      if (!(await limits.consume(perCodeToken(), tokenDigest)).allowed) return false;
      await proofs.enter(adminId);
      return true;
    },
    beforeProof: proofs.enter,
    proofSucceeded: proofs.succeeded,
    masterKeyFailed: async (address) => limits.consume(masterKeys(), addressKey(address)),
  };
}
