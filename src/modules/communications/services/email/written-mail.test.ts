import fc from 'fast-check';
import MailComposer from 'nodemailer/lib/mail-composer';
import { expect, it } from 'vitest';
import type { OutgoingMail } from './mail.ts';
import { writeMail } from './written-mail.ts';

const boundary = 'b';

const mail = (parts: Partial<OutgoingMail>): OutgoingMail => ({
  id: 'n',
  to: 'ada@example.org',
  from: 'shop@example.com',
  subject: 'Hello',
  html: '<p>Hello</p>',
  text: 'Hello',
  cc: [],
  bcc: [],
  replyTo: undefined,
  headers: {},
  tracking: {},
  attachments: [],
  messageId: '<n@example.com>',
  ...parts,
});

/** What the library's own streams make of it. */
async function streamed({ from, to, cc, replyTo, bcc: _bcc, ...rest }: OutgoingMail) {
  const person = (address: string) => ({ name: '', address });
  const built = await new MailComposer({
    ...rest,
    headers: { ...rest.headers },
    attachments: [],
    from: person(from),
    to: [person(to)],
    cc: cc.map(person),
    ...(replyTo === undefined ? {} : { replyTo: person(replyTo) }),
    baseBoundary: boundary,
  })
    .compile()
    .build();
  return built.toString('utf8');
}

/** The library ends a text without a line break with one, and the moment of writing stands in both. */
const same = (text: string): string =>
  text.replace(/^Date: .*\r\n/m, '').replace(/(?:\r?\n|\r)*$/, '');

const texts = fc.oneof(
  fc.string({ minLength: 1 }),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
  fc
    .array(
      fc.constantFrom('a', ' ', '=', '.', '\n', '\r\n', '\r', 'ä', '漢', '🙂', '\t', 'word '),
      {
        maxLength: 400,
      },
    )
    .map((parts) => `${parts.join('')}x`),
);

it('writes byte for byte what the streams of the library make', async () => {
  const parts = fc.record({
    subject: texts,
    text: texts,
    html: fc.option(texts, { nil: undefined }),
    cc: fc.array(fc.constantFrom('eve@example.net', 'bob@bücher.example'), { maxLength: 3 }),
    replyTo: fc.option(fc.constant('help@example.com'), { nil: undefined }),
    headers: fc.dictionary(fc.constantFrom('X-One', 'List-Unsubscribe', 'References'), texts),
  });
  await fc.assert(
    fc.asyncProperty(parts, async (some) => {
      const one = mail(some);
      expect(same(writeMail(one, boundary))).toBe(same(await streamed(one)));
    }),
    { numRuns: 300 },
  );
});

it('keeps a subject and a header to one line each, whatever they hold', () => {
  const hostile = 'Hi\r\nBcc: victim@example.org\r\n\r\nBody';
  const written = writeMail(mail({ subject: hostile, headers: { 'X-Note': hostile } }));
  const [head = ''] = written.split('\r\n\r\n');
  expect(head).not.toMatch(/^bcc:/im);
  expect(head).toMatch(/^X-Note: Hi Bcc: victim@example\.org +Body\r$/m);
});

it('parts two mails by different lines, so that a text cannot end its part', () => {
  const lineOf = (text: string) => /boundary="([^"]+)"/.exec(text)?.[1];
  expect(lineOf(writeMail(mail({})))).not.toBe(lineOf(writeMail(mail({}))));
});
