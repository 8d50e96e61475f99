/** Mail through a mail server. */

import { Readable } from 'node:stream';
import type { Transporter } from 'nodemailer';
import { pemOf } from '../../config/leaves.ts';
import type { CommunicationsConfig } from '../../config.ts';
import { type Delivery, DeliveryError, words } from '../providers/outcome.ts';
import {
  AttachmentGone,
  type MailFiles,
  type MailProvider,
  type OutgoingMail,
  openFile,
} from './mail.ts';

/** Until a connection stands at most. Milliseconds. */
const connectWithinMs = 10_000;

/** Characters of a mail that is written at once: encoding more would keep the loop from others for too long. */
const atOnceAtMost = 64 * 1024;

/**
 * Until a mail is with the server, files and all: so many times as long as it may be silent, and no longer than that. One
 * that says a word now and then would keep the place for ever. Milliseconds.
 */
const wholeAtMost = { silences: 12, ms: 240_000 };

const provider = 'smtp';
/** Mail servers of providers take about as many from one address. */
const maxConnections = 5;

/** Signs what goes out (RFC 6376), with what lets a reader leave a list (RFC 8058). */
const signedFields = [
  'From',
  'Reply-To',
  'Subject',
  'Date',
  'Message-ID',
  'To',
  'Cc',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'In-Reply-To',
  'References',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
].join(':');

export function createSmtp(
  files: MailFiles,
  settings: () => SmtpSettings,
): MailProvider & { close(): void } {
  let open: Opened | undefined;

  const current = (): Opened => {
    const now = settings();
    if (open?.settings !== now) {
      close();
      open = { settings: now, link: connect(now), running: 0, isLeft: false };
    }
    return open;
  };
  const close = (): void => {
    if (open) leave(open);
    open = undefined;
  };

  return {
    close,
    async deliver(mail) {
      const used = current();
      used.running += 1;
      try {
        const link = await used.link;
        return taken((await send(link, files, mail)) as Taken, mail);
      } catch (error) {
        if (error instanceof AttachmentGone || error instanceof DeliveryError) throw error;
        const refusal = permanentRefusal(error);
        if (refusal === undefined) throw laterError(error);
        return { outcome: 'refused', provider, ...refusal };
      } finally {
        used.running -= 1;
        if (used.isLeft) leave(used);
      }
    },
  };
}

/** Connections, and how many mails are to go over them. */
interface Opened {
  readonly settings: unknown;
  readonly link: Promise<Link>;
  running: number;
  isLeft: boolean;
}

/** Closed when the last mail is gone: those that wait for a connection would fail with it, and count as sent perhaps. */
function leave(opened: Opened): void {
  opened.isLeft = true;
  if (opened.running === 0)
    void opened.link.then(({ mailer }) => mailer.close()).catch(() => undefined);
}

/** What the library says of a mail that the server took for at least one of its recipients. */
interface Taken {
  readonly response?: string;
  readonly envelope?: { readonly to: readonly string[] };
  readonly rejectedErrors?: readonly (Error & { readonly recipient?: string })[];
}

/** The recipient decides; who gets a copy is told of. */
function taken(
  { response = '', envelope, rejectedErrors = [] }: Taken,
  { to }: OutgoingMail,
): Delivery {
  // As the library writes it: names of domains in ASCII.
  const [recipient = to] = envelope?.to ?? [];
  const own = rejectedErrors.find((error) => error.recipient === recipient);
  if (own) {
    const said = textOf(own, 'response') ?? '';
    const later = {
      about: 'recipient',
      reason: words(`the mail server took it for the copies alone, and not now for ${to}: ${said}`),
    } as const;
    return { outcome: 'refused', provider, ...(permanentRefusal(own) ?? later) };
  }
  const others = rejectedErrors.map(
    (error) => `not for ${error.recipient}: ${textOf(error, 'response') ?? ''}`,
  );
  return { outcome: 'accepted', provider, detail: words([response, ...others].join('; ')) };
}

interface Link {
  readonly mailer: Transporter;
  readonly sendWritten: (
    transport: Transporter['transporter'],
    mail: OutgoingMail,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly signs: boolean;
  /** Milliseconds. */
  readonly within: number;
}

const plainAddress = /^[\x21-\x3b\x3d\x3f-\x7e]+$/;

/** Without files, no longer than what one turn of the loop has time for, and to addresses that need no translation. */
const isWrittenAtOnce = (mail: OutgoingMail): boolean =>
  mail.attachments.length === 0 &&
  (mail.html ?? '').length + mail.text.length <= atOnceAtMost &&
  [mail.from, mail.to, ...mail.cc, ...mail.bcc].every((address) => plainAddress.test(address));

/** The library composes what it is to sign, and what has files. */
async function send(
  { mailer, sendWritten, signs, within }: Link,
  files: MailFiles,
  mail: OutgoingMail,
): Promise<unknown> {
  const signal = AbortSignal.timeout(within);
  if (!signs && isWrittenAtOnce(mail)) return sendWritten(mailer.transporter, mail, signal);
  return mailer.sendMail({ ...messageOf(mail, await contentsOf(files, mail)), signal });
}

/** Contents of attachments: files of storage are read while they are sent. */
async function contentsOf(
  files: MailFiles,
  { attachments }: OutgoingMail,
): Promise<readonly (string | Readable)[]> {
  const contents: (string | Readable)[] = [];
  for (const one of attachments)
    contents.push(
      one.fileId === undefined ? one.content : Readable.from(await openFile(files, one)),
    );
  return contents;
}

const messageOf = (
  { from, to, cc, bcc, replyTo, html, attachments, ...mail }: OutgoingMail,
  contents: readonly (string | Readable)[],
) => ({
  envelope: { from, to: [to, ...cc, ...bcc] },
  from: { name: '', address: from },
  to: [{ name: '', address: to }],
  cc: cc.map((address) => ({ name: '', address })),
  ...(replyTo === undefined ? {} : { replyTo: { name: '', address: replyTo } }),
  subject: mail.subject,
  text: mail.text,
  ...(html === undefined ? {} : { html }),
  messageId: mail.messageId,
  headers: mail.headers,
  attachments: attachments.map(({ filename, contentType, fileId, contentId }, place) => ({
    filename,
    contentType,
    content: contents[place] ?? '',
    ...(fileId === undefined ? { encoding: 'base64' } : {}),
    ...(contentId === undefined ? {} : { cid: contentId }),
  })),
  disableFileAccess: true,
  disableUrlAccess: true,
});

/** What the connection hangs on; the same object as long as nothing of it changed. */
export interface SmtpSettings {
  readonly server: CommunicationsConfig['email']['transportSettings']['smtp'];
  readonly dkim: CommunicationsConfig['email']['dkim'];
  readonly domain: string;
  /** Milliseconds that the server may be silent. */
  readonly timeoutMs: number;
}

async function connect({ server: smtp, dkim, domain, timeoutMs }: SmtpSettings): Promise<Link> {
  // Loaded when the first mail is sent: most installations start without a mail server.
  const [{ createTransport }, { sendWritten }] = await Promise.all([
    import('nodemailer'),
    import('./written-mail.ts'),
  ]);
  const { username: user, password: pass, method } = smtp.auth;
  const mailer = createTransport({
    host: smtp.host,
    port: smtp.port > 0 ? smtp.port : defaultPort(smtp),
    secure: smtp.secure,
    ignoreTLS: smtp.ignoreTls,
    // A password goes over a protected connection, unless the operator has given that up in words.
    requireTLS: user !== '' && !smtp.secure && !smtp.ignoreTls,
    tls: { rejectUnauthorized: !smtp.allowInvalidCertificates },
    ...(user === '' ? {} : { auth: { user, pass }, authMethod: method }),
    connectionTimeout: Math.min(connectWithinMs, timeoutMs),
    // Before the time of the socket is over: who said nothing has taken nothing.
    greetingTimeout: Math.min(connectWithinMs, timeoutMs * 0.9),
    socketTimeout: timeoutMs,
    pool: true,
    maxConnections,
    maxMessages: 1000,
    ...(dkim.selector === ''
      ? {}
      : {
          dkim: {
            domainName: domain,
            keySelector: dkim.selector,
            privateKey: pemOf(dkim.privateKey),
            headerFieldNames: signedFields,
          },
        }),
  });
  const within = Math.min(timeoutMs * wholeAtMost.silences, wholeAtMost.ms);
  return { mailer, sendWritten, signs: dkim.selector !== '', within };
}

const defaultPort = ({ secure }: SmtpSettings['server']): number => (secure ? 465 : 587);

const textOf = (error: unknown, key: string): string | undefined => {
  const value: unknown = typeof error === 'object' && error !== null && Reflect.get(error, key);
  return typeof value === 'string' ? value : undefined;
};

/** Codes of the library for what failed before a mail began. */
const beforeSending: ReadonlySet<string | undefined> = new Set(['EDNS', 'ETLS', 'ECONFIG']);
const connecting: ReadonlySet<string | undefined> = new Set([
  'CONNECTION_TIMEOUT',
  'GREETING_TIMEOUT',
]);

/**
 * What may go better later. The server answered, or was not there: it did not take the mail. A connection that broke
 * leaves that open: a mail server has no key by which it could tell a second mail from the first.
 */
function laterError(error: unknown): DeliveryError {
  const code = textOf(error, 'code');
  const status: unknown = typeof error === 'object' && error && Reflect.get(error, 'responseCode');
  const said = typeof status === 'number' ? `${status} ${textOf(error, 'response') ?? ''}` : '';
  const reason = words([code, said].filter(Boolean).join(' ')) || 'the delivery failed';
  if (code === 'EAUTH' || status === 530 || status === 535)
    return new DeliveryError('auth', provider, reason);
  const untouched =
    typeof status === 'number' ||
    beforeSending.has(code) ||
    textOf(error, 'syscall') === 'connect' ||
    connecting.has(textOf(error, 'timeoutType')) ||
    (code === 'ECONNECTION' && textOf(error, 'command') === undefined);
  return new DeliveryError(untouched ? 'transient' : 'unknown', provider, reason);
}

/** A 5xx about this recipient or this message; one about us (login, greeting) may go away. */
function permanentRefusal(error: unknown):
  | {
      readonly about: 'recipient' | 'content';
      readonly reason: string;
      readonly gone?: 'bounce' | undefined;
    }
  | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const code: unknown = Reflect.get(error, 'responseCode');
  const command = textOf(error, 'command');
  const response = textOf(error, 'response');
  const about = command !== undefined && ['RCPT TO', 'DATA'].includes(command);
  if (!about || typeof code !== 'number' || code < 500) return undefined;
  return {
    about: command === 'RCPT TO' ? 'recipient' : 'content',
    // Mailbox or domain do not exist (RFC 3463); a 550 alone may be a matter of policy.
    gone: command === 'RCPT TO' && /\b5\.1\.[12]\b/.test(response ?? '') ? 'bounce' : undefined,
    reason: words(
      `the mail server refused the message with ${code}${response === undefined ? '' : `: ${response}`}`,
    ),
  };
}
