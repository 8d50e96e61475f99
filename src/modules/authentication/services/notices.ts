/** Mails that tell an account's owner what happened to it (ASVS 6.3.7). They join the transaction of the change. */
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Messages } from '../../communications/index.ts';
import type { Credentials } from '../queries.ts';
import type { MailName } from './mail-templates.ts';

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
    await messages.sendEmail(transaction, { to: email, userId, template, variables, essential: true });
  },
});
