/** What can go wrong with second factors, passkeys, phones and device keys. */
import { defineErrors } from '../../kernel/errors.ts';

export const factorErrors = defineErrors({
  SECOND_FACTOR_METHOD: [400, 'method: this kind of second factor cannot be used here, or you have none of it yet'],
  NOTHING_OWED: [400, 'This session owes no second factor'],
  WRONG_TOTP: [400, 'The code is not right: check that the clock of the device is, and try the next one'],
  PHONE_NOT_USABLE: [400, 'phone: this is not a phone number that can be used here'],
  PASSKEY_REFUSED: [400, 'The passkey could not be added: start again'],
  DEVICE_KEY_REFUSED: [400, 'publicKey: write an RSA (2048 bits or more) or P-256 public key as DER (SPKI) in base64'],
  DEVICE_PROOF_REFUSED: [400, 'The signature does not fit the challenge, or the challenge is over: start again'],
  WRONG_CODE: [401, 'The code is not right, was used already, or is too old'],
  PASSKEY_INVALID: [401, 'This passkey was not accepted: try again, or sign in another way'],
  DEVICE_INVALID: [401, 'This device was not accepted: sign in another way and enrol it again'],
  PASSKEY_DUE: [403, 'This account has a passkey: finish the sign-in with it (POST /authentication/twoFa/passkey/options)'],
  PHONE_IS_SECOND_FACTOR: [403, 'This number is the second factor of the account: sign in another way, and prove the number after that'],
  NO_SECOND_FACTOR: [404, 'There is no second factor to prove: switch one on first'],
  NO_RECOVERY_CODES: [404, 'There are no recovery codes left'],
  PASSKEY_NOT_FOUND: [404, 'You have no such passkey'],
  DEVICE_NOT_FOUND: [404, 'You have no such device'],
  SECOND_FACTOR_ON: [409, 'A second factor is on already: switch it off first'],
  TOO_MANY_KEYS: [409, 'You have as many of these as are allowed: remove one first'],
  PASSKEY_IS_SECOND_FACTOR: [
    409,
    'This passkey is the second factor of the account: add another one, or switch the second factor off first',
  ],
  PASSKEY_EXISTS: [409, 'This passkey was added already'],
});
