/** Whom passkeys are made for: a domain, and the pages of it that may use them. */
import type { AuthenticationConfig } from '../../config.ts';

export interface RelyingParty {
  /** The domain (RP ID). */
  readonly id: string;
  readonly name: string;
  readonly origins: string[];
}

/** What is not configured comes from the public address of the platform. */
export function relyingParty({ passkeys }: Pick<AuthenticationConfig, 'passkeys'>, publicUrl: string): RelyingParty {
  const { hostname, origin } = new URL(publicUrl);
  return {
    id: passkeys.rpId === '' ? hostname : passkeys.rpId,
    name: passkeys.rpName,
    origins: passkeys.origins.length === 0 ? [origin] : [...passkeys.origins],
  };
}
