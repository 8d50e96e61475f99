/** How a mail leaves the platform: the provider that the configuration names, or the sandbox. */
import { isDeepStrictEqual } from 'node:util';
import type { CommunicationsConfig } from '../../config.ts';
import type { MessageContent } from '../content.ts';
import { askInOrder, type Pace, providersOf } from '../providers/in-order.ts';
import { createCaller, type Delivery, type DeliveryError, limitsOf } from '../providers/outcome.ts';
import { createMailersend, createMailgun, createSendgrid } from './http-providers.ts';
import {
  AttachmentGone,
  inOnePiece,
  type MailFiles,
  type MailProvider,
  type OutgoingMail,
} from './mail.ts';
import { createMandrill } from './mandrill.ts';
import { createSes } from './ses.ts';
import { createSmtp, type SmtpSettings } from './smtp.ts';

export interface MailTransport {
  /** `passed` is told of a provider that could not, before the next is asked. */
  deliver(
    id: string,
    to: string,
    mail: {
      readonly content: MessageContent;
      readonly passed: (error: DeliveryError) => Promise<void>;
    },
  ): Promise<Delivery>;
  close(): void;
}

/** True while no provider is set: messages are kept for operators instead of being sent. */
export const isMailSandbox = ({ email }: CommunicationsConfig): boolean =>
  email.transport === 'mock' ||
  (email.transport === 'smtp' && email.transportSettings.smtp.host === '');

export function createMailTransport(
  config: () => CommunicationsConfig,
  { pace, files }: { readonly pace: Pace; readonly files: MailFiles },
): MailTransport {
  const settings = () => config().email.transportSettings;
  const limits = limitsOf(config);
  const callOf = (name: string) => createCaller(name, limits);
  let last: { readonly config: CommunicationsConfig; readonly settings: SmtpSettings } | undefined;
  const smtp = createSmtp(files, () => {
    const current = config();
    if (last?.config !== current) {
      const fresh = {
        server: current.email.transportSettings.smtp,
        dkim: current.email.dkim,
        domain: current.email.sendingDomain,
        timeoutMs: current.orchestration.timeout,
      };
      // A change of anything else leaves the connections as they are.
      const isSame = isDeepStrictEqual(last?.settings, fresh);
      last = { config: current, settings: last && isSame ? last.settings : fresh };
    }
    return last.settings;
  });
  const providers: ReadonlyMap<string, MailProvider> = new Map<string, MailProvider>([
    ['smtp', smtp],
    [
      'mailgun',
      createMailgun(
        () => ({ settings: settings().mailgun, sendingDomain: config().email.sendingDomain }),
        callOf('mailgun'),
      ),
    ],
    ['sendgrid', createSendgrid(() => settings().sendgrid, callOf('sendgrid'))],
    ['amazonSes', createSes(() => settings().amazonSes, callOf('amazonSes'))],
    ['mandrill', createMandrill(() => settings().mandrill, callOf('mandrill'))],
    ['mailersend', createMailersend(() => settings().mailersend, callOf('mailersend'))],
  ]);
  return {
    async deliver(id, to, { content, passed }) {
      if (isMailSandbox(config())) return { outcome: 'captured' };
      const mail = mailOf(id, to, content);
      const sendThrough = async (name: string): Promise<Delivery> => {
        try {
          // A mail server takes files as they are read.
          const whole = name === 'smtp' ? mail : await inOnePiece(files, mail);
          return (await providers.get(name)?.deliver(whole)) ?? { outcome: 'captured' };
        } catch (error) {
          if (!(error instanceof AttachmentGone)) throw error;
          return { outcome: 'refused', provider: name, about: 'content', reason: error.message };
        }
      };
      return askInOrder({
        names: providersOf(config(), 'email'),
        pace,
        passed,
        send: sendThrough,
      });
    },
    close: () => smtp.close(),
  };
}

function mailOf(id: string, to: string, content: MessageContent): OutgoingMail {
  const { from = '', subject = '', html, text, mail = {} } = content;
  return {
    id,
    to,
    from,
    subject,
    html,
    text,
    cc: mail.cc ?? [],
    bcc: mail.bcc ?? [],
    replyTo: mail.replyTo,
    headers: { 'Auto-Submitted': 'auto-generated', ...mail.headers },
    attachments: mail.attachments ?? [],
    tracking: mail.tracking ?? {},
    messageId: `<${id}@${from.slice(from.indexOf('@') + 1)}>`,
  };
}
