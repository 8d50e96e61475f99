/** Six digits by text message, for the second step and for proving the number that they will go to. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { Messages } from '../../../communications/index.ts';
import { authErrors } from '../../errors.ts';
import { type OneTimeGrant, type OneTimeTokens, sixDigits } from '../one-time-tokens.ts';
import type { FactorBudget } from './budget.ts';
import type { SmsSpending } from './sms-spending.ts';

/** `two-factor`: the number that is known; `phone-verify`: a number that is to become the second factor. */
export type SmsPurpose = 'two-factor' | 'phone-verify';

export interface SmsCodes {
  /** Sends a code that works with this session only. Throws 429 when too many were asked for. */
  send(purpose: SmsPurpose, session: SessionKey, phone: string): Promise<void>;
  /** Uses the code up; nothing when it is wrong, too old, or of another session. Wrong ones count, so do not call it in a transaction that may be taken back. */
  use(purpose: SmsPurpose, session: SessionKey, code: string): Promise<OneTimeGrant | undefined>;
  /** Ends codes that are out. */
  discard(transaction: Queryable, userId: string): Promise<void>;
}

/** Whose code, and of which session: nobody else can use up its tries. */
export interface SessionKey {
  readonly userId: string;
  readonly sessionId: string;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendSms'>;
  readonly budget: FactorBudget;
  readonly maySend: SmsSpending;
  readonly lifetimeMs: () => number;
}

const subjectOf = ({ userId, sessionId }: SessionKey): string => `${userId}:${sessionId}`;

export const createSmsCodes = ({ database, tokens, messages, budget, maySend, lifetimeMs }: Dependencies): SmsCodes => ({
  async send(purpose, session, phone) {
    const { userId } = session;
    await budget.sendCode(userId);
    if (purpose === 'phone-verify' && !(await maySend(phone))) throw notNow();
    const sent = await database.transaction(async (transaction) => {
      const request = { purpose, userId, subject: subjectOf(session), data: { phone }, code: sixDigits, lifetimeMs: lifetimeMs() };
      const { code = '' } = await tokens.issue(transaction, request);
      return messages.sendSms(transaction, { to: phone, text: codeText(code), code, userId });
    });
    if (sent === undefined) throw notNow();
  },
  use: (purpose, session, code) => tokens.consumeCode(database, purpose, { subject: subjectOf(session) }, code),
  discard: (transaction, userId) => tokens.discard(transaction, userId, ['two-factor', 'phone-verify']),
});

const notNow = () => authErrors.TOO_SOON({ message: 'No code can be sent to this number now: wait before you ask again' });

/** What messages with a code say. */
export const codeText = (code: string): string => `Your code is ${code}. Tell it to nobody.`;
