/** How a mail leaves the platform: through a mail server, or into the sandbox when there is none. */
import type { Transporter } from 'nodemailer';
import type { CommunicationsConfig } from '../config.ts';
import type { MessageContent } from './content.ts';

export interface OutgoingMail {
  readonly id: string;
  readonly to: string;
  readonly content: MessageContent;
}

/**
 * How a delivery ended: `sent`, `captured` (kept for operators), or `refused` for good by the server.
 * Everything that may go better later is thrown.
 */
export type Delivery =
  | { readonly outcome: 'sent' }
  | { readonly outcome: 'captured' }
  | { readonly outcome: 'refused'; readonly reason: string };

export interface MailTransport {
  deliver(mail: OutgoingMail): Promise<Delivery>;
  close(): void;
}

/** Milliseconds. */
const timeouts = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 30_000 };

export function createMailTransport(config: () => CommunicationsConfig): MailTransport {
  let open: { readonly settings: unknown; readonly transporter: Promise<Transporter> } | undefined;

  const transporter = (): Promise<Transporter> => {
    const { smtp } = config().email.transportSettings;
    if (open?.settings !== smtp) {
      close();
      open = { settings: smtp, transporter: connect(smtp) };
    }
    return open.transporter;
  };
  const close = (): void => {
    void open?.transporter.then((mailer) => mailer.close()).catch(() => undefined);
    open = undefined;
  };

  return {
    close,
    async deliver({ id, to, content }) {
      if (isSandbox(config())) return { outcome: 'captured' };
      const { from = '', subject = '', html, text } = content;
      const domain = from.slice(from.indexOf('@') + 1);
      const mailer = await transporter();
      try {
        await mailer.sendMail({
          envelope: { from, to: [to] },
          from: { name: '', address: from },
          to: [{ name: '', address: to }],
          subject,
          text,
          ...(html === undefined ? {} : { html }),
          // The same at every attempt, so that a receiver can tell a repetition.
          messageId: `<${id}@${domain}>`,
          headers: { 'Auto-Submitted': 'auto-generated' },
          disableFileAccess: true,
          disableUrlAccess: true,
        });
        return { outcome: 'sent' };
      } catch (error) {
        const reason = permanentRefusal(error);
        if (reason === undefined) throw error;
        return { outcome: 'refused', reason };
      }
    },
  };
}

/** True while no provider is set: messages are kept for operators instead of being sent. */
export const isSandbox = ({ email }: CommunicationsConfig): boolean =>
  email.transport === 'mock' || email.transportSettings.smtp.host === '';

type SmtpSettings = CommunicationsConfig['email']['transportSettings']['smtp'];

async function connect(smtp: SmtpSettings): Promise<Transporter> {
  // Loaded when the first mail is sent: most installations start without a mail server.
  const { createTransport } = await import('nodemailer');
  const { username: user, password: pass, method } = smtp.auth;
  return createTransport({
    host: smtp.host,
    port: smtp.port > 0 ? smtp.port : defaultPort(smtp),
    secure: smtp.secure,
    ignoreTLS: smtp.ignoreTls,
    // A password goes over a protected connection, unless the operator has given that up in words.
    requireTLS: user !== '' && !smtp.secure && !smtp.ignoreTls,
    tls: { rejectUnauthorized: !smtp.allowInvalidCertificates },
    ...(user === '' ? {} : { auth: { user, pass }, authMethod: method }),
    ...timeouts,
    pool: true,
    maxConnections: 2,
  });
}

const defaultPort = ({ secure }: SmtpSettings): number => (secure ? 465 : 587);

/** A 5xx about this recipient or this message; one about us (login, greeting) may go away. */
function permanentRefusal(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const code: unknown = Reflect.get(error, 'responseCode');
  const command: unknown = Reflect.get(error, 'command');
  const about = typeof command === 'string' && ['RCPT TO', 'DATA'].includes(command);
  return about && typeof code === 'number' && code >= 500 ? `the mail server refused the message with ${code}` : undefined;
}
