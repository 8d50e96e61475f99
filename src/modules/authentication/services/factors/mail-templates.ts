/** The notices about second factors, passkeys, phones and devices. */
import type { BuiltInTemplate } from '../../../communications/index.ts';

const ifNotYou = '<p>If this was not you, sign in, look at your sessions and keys, and choose a new password.</p>';

export type FactorMailName =
  | 'SecondFactorOn'
  | 'SecondFactorOff'
  | 'RecoveryCodesMade'
  | 'RecoveryCodeUsed'
  | 'PasskeyAdded'
  | 'PasskeyRemoved'
  | 'PhoneChanged'
  | 'DeviceAdded'
  | 'DeviceRemoved';

const notice = (name: FactorMailName, subject: string, text: string): BuiltInTemplate => ({
  name,
  subject,
  body: `<p>${text}</p>\n${ifNotYou}`,
});

export const factorTemplates: readonly BuiltInTemplate[] = [
  notice('SecondFactorOn', 'A second factor was switched on', 'From now on your account asks for a second factor ({{method}}).'),
  notice('SecondFactorOff', 'The second factor was switched off', 'Your account does not ask for a second factor any more.'),
  notice(
    'RecoveryCodesMade',
    'You have new recovery codes',
    'New recovery codes were made for your account. Earlier ones do not work any more.',
  ),
  notice(
    'RecoveryCodeUsed',
    'A recovery code was used',
    'Somebody signed in to your account with a recovery code instead of the second factor. {{left}} codes are left.',
  ),
  notice('PasskeyAdded', 'A passkey was added', 'The passkey "{{passkey}}" can now sign in to your account.'),
  notice('PasskeyRemoved', 'A passkey was removed', 'The passkey "{{passkey}}" cannot sign in to your account any more.'),
  notice('PhoneChanged', 'The phone number of your account was changed', 'Your account now uses a number that ends in {{ending}}.'),
  notice('DeviceAdded', 'A device was added', 'A device can now sign in to your account with its own key.'),
  notice('DeviceRemoved', 'A device was removed', 'A device cannot sign in to your account with its key any more.'),
];
