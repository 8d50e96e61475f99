/** Mails that tell an account's owner what happened to it (ASVS 6.3.7). They join the transaction of the change. */
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { BuiltInTemplate, Messages } from '../../../communications/index.ts';
import type { Credentials } from '../../queries.ts';

/* The notices about second factors, passkeys, phones and devices. */

const ifNotYou =
  '<p>If this was not you, sign in, look at your sessions and keys, and choose a new password.</p>';

type FactorMailName =
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

const factorTemplates: readonly BuiltInTemplate[] = [
  notice(
    'SecondFactorOn',
    'A second factor was switched on',
    'From now on your account asks for a second factor ({{method}}).',
  ),
  notice(
    'SecondFactorOff',
    'The second factor was switched off',
    'Your account does not ask for a second factor any more.',
  ),
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
  notice(
    'PasskeyAdded',
    'A passkey was added',
    'The passkey "{{passkey}}" can now sign in to your account.',
  ),
  notice(
    'PasskeyRemoved',
    'A passkey was removed',
    'The passkey "{{passkey}}" cannot sign in to your account any more.',
  ),
  notice(
    'PhoneChanged',
    'The phone number of your account was changed',
    'Your account now uses a number that ends in {{ending}}.',
  ),
  notice(
    'DeviceAdded',
    'A device was added',
    'A device can now sign in to your account with its own key.',
  ),
  notice(
    'DeviceRemoved',
    'A device was removed',
    'A device cannot sign in to your account with its key any more.',
  ),
];

/* The mails of this module. Operators change them under /email/templates. */

const ignore = '<p>If this was not you, ignore this mail.</p>';

export const mailTemplates: readonly BuiltInTemplate[] = [
  {
    name: 'EmailVerification',
    subject: 'Verify your e-mail address',
    body: `<p>Somebody registered with this address.</p><p><a href="{{link}}">Verify my address</a></p>${ignore}`,
  },
  {
    name: 'EmailVerificationWithCode',
    subject: 'Your code is {{code}}',
    body: `<p>Somebody registered with this address. The code that verifies it is <b>{{code}}</b>.</p>${ignore}`,
  },
  {
    name: 'ForgotPassword',
    subject: 'Choose a new password',
    body: `<p>Somebody asked for a new password for your account.</p>
{{#if link}}<p><a href="{{link}}">Choose a new password</a></p>{{else}}<p>This is what the app asks you for: <b>{{token}}</b></p>{{/if}}
<p>It works once, for half an hour. If this was not you, ignore this mail: your password stays as it is.</p>`,
  },
  {
    name: 'ChangeEmailVerification',
    subject: 'Confirm your new e-mail address',
    body: `<p>Somebody wants to use this address for an account.</p><p><a href="{{link}}">Use this address</a></p>${ignore}`,
  },
  {
    name: 'MagicLink',
    subject: 'Your link to sign in',
    body: `<p><a href="{{link}}">Sign in</a></p><p>The link works once and for ten minutes.</p>${ignore}`,
  },
  {
    name: 'LoginCode',
    subject: 'Your code is {{code}}',
    body: `<p>The code to sign in is <b>{{code}}</b>. Tell it to nobody.</p>${ignore}`,
  },
  {
    name: 'AccountExists',
    subject: 'You have an account already',
    body: `<p>Somebody, perhaps you, wanted to use this address for an account. There is one already, and it was not changed.</p>
<p>If you cannot sign in, ask the app for a new password.</p>`,
  },
  {
    name: 'PasswordChanged',
    subject: 'Your password was changed',
    body: `<p>The password of your account was changed, and all other sessions were ended.</p>
{{#if devices}}<p>Devices that signed in with keys of their own do so no more: {{devices}}. Add them again after you have signed in.</p>{{/if}}
{{#if ways}}<p>These still open your account: {{ways}}. Sign in and remove what is not yours.</p>{{/if}}
<p>If this was not you, ask the app for a new password now.</p>`,
  },
  {
    name: 'EmailChanged',
    subject: 'The e-mail address of your account was changed',
    body: `<p>Your account now uses the address {{newEmail}}.</p>
<p>If this was not you, take it back: <a href="{{link}}">Use this address again</a>. That signs everybody out.</p>`,
  },
  {
    name: 'IdentityLinked',
    subject: 'You can now sign in with {{provider}}',
    body: `<p>An account at {{provider}} was linked to your account: whoever owns it can sign in.</p>
<p>If this was not you, sign in, remove it, and choose a new password.</p>`,
  },
  {
    name: 'IdentityUnlinked',
    subject: 'You can no longer sign in with {{provider}}',
    body: `<p>An account at {{provider}} was removed from your account.</p>
<p>If this was not you, sign in, look at your sessions, and choose a new password.</p>`,
  },
  {
    name: 'NewDevice',
    subject: 'Somebody signed in from a new device',
    body: `<p>{{device}} signed in to your account at {{time}}, from the address {{address}}. You have not used it here before.</p>
<p>If this was not you, sign in, end that session, and choose a new password.</p>`,
  },
  {
    name: 'ManyFailures',
    subject: 'Somebody tries to guess your password',
    body: `<p>There were many attempts to sign in to your account with wrong passwords, and none of them worked.</p>
<p>For up to a day you can sign in only from where you did before, by mail, or after choosing a new password.</p>`,
  },
  ...factorTemplates,
];

/** How templates are named where mails are sent. */
export type MailName =
  | FactorMailName
  | 'EmailVerification'
  | 'EmailVerificationWithCode'
  | 'ForgotPassword'
  | 'ChangeEmailVerification'
  | 'MagicLink'
  | 'LoginCode'
  | 'AccountExists'
  | 'PasswordChanged'
  | 'EmailChanged'
  | 'IdentityLinked'
  | 'IdentityUnlinked'
  | 'NewDevice'
  | 'ManyFailures';

export interface Notices {
  /** Nothing for accounts that have no address of their own. */
  send(
    transaction: Transaction,
    account: Pick<Credentials, 'userId' | 'email' | 'isAnonymous'>,
    template: MailName,
    variables: Readonly<Record<string, string>>,
  ): Promise<void>;
}

export const createNotices = (messages: Pick<Messages, 'sendEmail'>): Notices => ({
  async send(transaction, { userId, email, isAnonymous }, template, variables) {
    if (email === null || isAnonymous) return;
    await messages.sendEmail(transaction, {
      module: 'authentication',
      to: email,
      userId,
      template,
      variables,
      essential: true,
    });
  },
});
