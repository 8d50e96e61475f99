/**
 * The text that a wallet shows and signs (EIP-4361, "Sign-In with Ethereum"). It names where the person signs in and
 * until when: a page that relays the text of another app has a wallet that warns (W23).
 */

export interface SignInText {
  /** Where the app runs: `https://app.example.com`. */
  readonly origin: string;
  /** With its checksum. */
  readonly address: string;
  readonly chainId: number;
  /** Letters and digits. */
  readonly nonce: string;
  readonly issuedAt: Date;
  readonly lifetimeMs: number;
}

export const signInText = ({ origin, address, chainId, nonce, issuedAt, lifetimeMs }: SignInText): string =>
  [
    `${new URL(origin).host} wants you to sign in with your Ethereum account:`,
    address,
    '',
    'This signs you in. It costs nothing and moves nothing.',
    '',
    `URI: ${origin}`,
    'Version: 1',
    `Chain ID: ${chainId}`,
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt.toISOString()}`,
    `Expiration Time: ${new Date(issuedAt.getTime() + lifetimeMs).toISOString()}`,
  ].join('\n');
