/** The sandbox of messages as an operator reads it. */
import type { Api } from './api.ts';
import { expectStatus } from './node.ts';
import { waitFor } from './wait-for.ts';

export interface CapturedMail {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  readonly from: string;
  readonly code?: string;
  readonly links: readonly string[];
}

interface Listed {
  readonly _id: string;
  readonly template: string | null;
}

export interface Mailbox {
  /** How many mails of a template this address got. */
  count(recipient: string, template: string): Promise<number>;
  /** Waits for the `nth` mail (the first is 1) of a template to this address. */
  mail(recipient: string, template: string, nth?: number): Promise<CapturedMail>;
  /** The first link of such a mail. */
  link(recipient: string, template: string, nth?: number): Promise<URL>;
}

export function createMailbox(admin: Api): Mailbox {
  const list = async (recipient: string, template: string): Promise<readonly Listed[]> => {
    const query = { recipient, template, status: 'captured', limit: 1000 };
    return expectStatus(
      await admin.get('/communications/messages', { query }),
      200,
      'list messages',
    ).body.messages;
  };
  const mail = async (recipient: string, template: string, nth = 1): Promise<CapturedMail> => {
    const { _id } = await waitFor(async () => (await list(recipient, template)).at(-nth), {
      what: `a mail ${template} to ${recipient}`,
    });
    return (await admin.get(`/communications/messages/${_id}`)).body.content;
  };
  return {
    count: async (recipient, template) => (await list(recipient, template)).length,
    mail,
    async link(recipient, template, nth) {
      const [link = ''] = (await mail(recipient, template, nth)).links;
      return new URL(link);
    },
  };
}
