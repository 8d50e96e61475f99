/** What a sign-in owes after its first proof. */
import { canBeSetUp } from '../../config/factors.ts';
import type { AuthenticationConfig } from '../../config.ts';
import type { Credentials } from '../../queries.ts';

/** How much a sign-in has proven: a passkey with user verification counts for both factors. */
export type Proof = 'oneFactor' | 'bothFactors';

/** `verify`: the second factor of the account; `enrol`: one must be set up before anything else. */
export type OwedStep = 'verify' | 'enrol';

export function owedStep(
  account: Pick<Credentials, 'hasTwoFA' | 'requiresTwoFA' | 'isAnonymous'>,
  config: AuthenticationConfig,
  proof: Proof,
): OwedStep | undefined {
  if (proof === 'bothFactors') return undefined;
  if (account.hasTwoFA) return 'verify';
  // Nobody is asked to set up what cannot be set up.
  const { twoFa } = config;
  const isRequired = twoFa.enabled && canBeSetUp(config) && !account.isAnonymous && (twoFa.required || account.requiresTwoFA);
  return isRequired ? 'enrol' : undefined;
}
