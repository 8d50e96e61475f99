/** How people come to accounts and into them, by the names that events, metrics and the audit log use. */
/** The provider under which wallet addresses are linked to accounts; also the name of this way to sign in. */
export const walletProvider = 'metamask';

/**
 * The ways that are the platform's own. Sign-ins at other providers go by the name of the provider, so none may be called
 * like one of these: rules ask by these names, such as that operators register people without an invitation.
 */
export const ownStrategies = [
  'local',
  'username',
  'magic-link',
  'email-code',
  'phone',
  'passkey',
  'device-key',
  'second-factor',
  'recovery-code',
  'anonymous',
  'admin',
  'internal',
  walletProvider,
] as const;

export type OwnStrategy = (typeof ownStrategies)[number];

/** Ways to an account that somebody else than the person has chosen. */
export const decidedByOthers: ReadonlySet<string> = new Set<OwnStrategy>(['admin', 'internal']);
