/**
 * What can go wrong with a sign-in at another provider, or with a wallet. A provider's own failures are never ours (500): what
 * it says about the user's attempt is 400, what cannot be believed 401, what is not there 503.
 */
import { defineErrors } from '../../kernel/errors.ts';

export const externalErrors = defineErrors({
  EXTERNAL_STATE_INVALID: [400, 'This sign-in was not started here, has ended already, or took too long: start it again'],
  EXTERNAL_SIGN_IN_DENIED: [400, 'The sign-in was cancelled at the provider: start it again'],
  EXTERNAL_CODE_REFUSED: [400, 'The provider did not accept the code of this sign-in: start it again'],
  EXTERNAL_TOKEN_INVALID: [401, 'What the provider says about the user could not be verified: start the sign-in again'],
  EXTERNAL_EXCHANGE_INVALID: [400, 'This code was used already, has expired, or its verifier does not fit: start the sign-in again'],
  WALLET_ADDRESS: [400, 'ethPublicAddress: this is not an address of Ethereum'],
  WALLET_REFUSED: [401, 'The signature does not fit this address, or the text was used already or is too old: ask for a new one'],
  EXTERNAL_LINKING_DISABLED: [
    403,
    'An account with this e-mail address exists, and this provider does not join it by itself: sign in to that account and link the provider there',
  ],
  EXTERNAL_EMAIL_UNVERIFIED: [
    409,
    'An account with this e-mail address exists, and the provider does not vouch for the address: sign in to that account and link the provider there',
  ],
  IDENTITY_TAKEN: [409, 'This account of the provider belongs to another user already'],
  IDENTITY_NOT_FOUND: [404, 'You have no such linked account'],
  LAST_SIGN_IN_METHOD: [409, 'This is the last way into the account: set a password or link another provider first'],
  EXTERNAL_PROVIDER_UNAVAILABLE: [503, 'The provider cannot be used now: try again later'],
});
