/** What can go wrong with second factors, passkeys, phones and device keys. */
import { defineErrors } from '../../kernel/errors.ts';
import { identityErrors } from '../../kernel/security/identity-errors.ts';

/*
 * What can go wrong with a sign-in at another provider, or with a wallet. A provider's own failures are never ours (500): what
 * it says about the user's attempt is 400, what cannot be believed 401, what is not there 503.
 */

export const externalErrors = defineErrors({
  EXTERNAL_STATE_INVALID: [
    400,
    'This sign-in was not started here, has ended already, or took too long: start it again',
  ],
  EXTERNAL_SIGN_IN_DENIED: [400, 'The sign-in was cancelled at the provider: start it again'],
  EXTERNAL_CODE_REFUSED: [
    400,
    'The provider did not accept the code of this sign-in: start it again',
  ],
  EXTERNAL_TOKEN_INVALID: [
    401,
    'What the provider says about the user could not be verified: start the sign-in again',
  ],
  EXTERNAL_EXCHANGE_INVALID: [
    400,
    'This code was used already, has expired, or its verifier does not match: start the sign-in again',
  ],
  WALLET_ADDRESS_INVALID: [400, 'ethPublicAddress: this is not an address of Ethereum'],
  WALLET_REFUSED: [
    401,
    'The signature does not match this address, or the message was used already or has expired: ask for a new one',
  ],
  EXTERNAL_LINKING_DISABLED: [
    403,
    'An account with this e-mail address exists, and this provider does not join it by itself: sign in to that account and link the provider there',
  ],
  EXTERNAL_EMAIL_UNVERIFIED: [
    409,
    'An account with this e-mail address exists, and the provider has not verified the address: sign in to that account and link the provider there',
  ],
  IDENTITY_EXISTS: [409, 'This account of the provider belongs to another user already'],
  IDENTITY_NOT_FOUND: [404, 'You have no such linked account'],
  LAST_SIGN_IN_METHOD_PROTECTED: [
    409,
    'This is the last way into the account: set a password or link another provider first',
  ],
  EXTERNAL_PROVIDER_UNAVAILABLE: [503, 'The provider cannot be used now: try again later'],
});

const ownFactorErrors = defineErrors({
  SECOND_FACTOR_METHOD_UNAVAILABLE: [
    400,
    'method: this kind of second factor cannot be used here, or you have none of it yet',
  ],
  SECOND_FACTOR_NOT_PENDING: [400, 'This session needs no second factor'],
  TOTP_INVALID: [400, 'The code is wrong: check the clock of the device, and try the next code'],
  PHONE_INVALID: [400, 'phone: this is not a phone number that can be used here'],
  PASSKEY_REFUSED: [400, 'The passkey could not be added: start again'],
  DEVICE_KEY_REFUSED: [
    400,
    'publicKey: write an RSA (2048 bits or more) or P-256 public key as DER (SPKI) in base64',
  ],
  DEVICE_PROOF_REFUSED: [
    400,
    'The signature does not match the challenge, or the challenge has expired: start again',
  ],
  PASSKEY_INVALID: [401, 'This passkey was not accepted: try again, or sign in another way'],
  DEVICE_INVALID: [401, 'This device was not accepted: sign in another way and enrol it again'],
  PASSKEY_REQUIRED: [
    403,
    'This account has a passkey: finish the sign-in with it (POST /authentication/twoFa/passkey/options)',
  ],
  PHONE_IN_USE: [
    403,
    'This number is the second factor of the account: sign in another way, and prove the number after that',
  ],
  RECOVERY_CODES_MISSING: [404, 'There are no recovery codes left'],
  PASSKEY_NOT_FOUND: [404, 'You have no such passkey'],
  DEVICE_NOT_FOUND: [404, 'You have no such device'],
  SECOND_FACTOR_EXISTS: [409, 'A second factor is on already: switch it off first'],
  KEY_LIMIT_EXCEEDED: [409, 'You have as many of these as are allowed: remove one first'],
  PASSKEY_IN_USE: [
    409,
    'This passkey is the second factor of the account: add another one, or switch the second factor off first',
  ],
  PASSKEY_EXISTS: [409, 'This passkey was added already'],
});

export const factorErrors = { ...ownFactorErrors, ...identityErrors };

/* What can go wrong while the platform is the provider for other apps, beside what the protocol itself answers. */

export const openidProviderErrors = defineErrors({
  OPENID_INTERACTION_INVALID: [
    400,
    'This sign-in has ended, took too long, or belongs to another browser: start it again in the app',
  ],
  OPENID_LOGIN_REQUIRED: [
    403,
    'The app wants you to prove who you are now: sign in again, and try once more',
  ],
  OPENID_CLIENT_NOT_FOUND: [404, 'There is no such app'],
  OPENID_CLIENT_EXISTS: [409, 'clientId: another app has this id already'],
});
