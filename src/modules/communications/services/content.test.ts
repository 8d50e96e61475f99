import { expect, test } from 'vitest';
import { oneLine, requireMailbox, requireNumber, senderAddress } from '../recipients.ts';
import { linksOf, plainText } from './content.ts';
import { AttachmentGone, inOnePiece, maxFileBytes, type OutgoingMail } from './email/mail.ts';
import { signedHeaders } from './providers/aws-signature.ts';

test('a mail for readers without HTML: links are written out, nothing else is left of the tags', () => {
  const html = `<style>p{color:red}</style><h1>Hello&nbsp;Ada</h1><p>Please <a class="x" href="https://app.example/?a=1&amp;b=2">open <b>this</b></a>.</p><ul><li>one</li><li>&lt;two&gt;</li></ul>`;
  expect(plainText(html)).toBe(
    'Hello Ada\nPlease open this https://app.example/?a=1&b=2.\none\n<two>',
  );
});

test.each([
  ['a < b', 'a < b'],
  ['<p>1 < 2 and <b>3</b> > 2</p><p>I <3 it</p>', '1 < 2 and 3 > 2\nI <3 it'],
  ['<<i>x</i>><', '<x><'],
  ['<!-- not for you -->for you', 'for you'],
  ['<TITLE>t</TITLE><Style>p{}</STYLE>x<script>y', 'xy'],
  ['\u0130\u0130\u0130<style>x</style>after', '\u0130\u0130\u0130after'],
  ['one<br/>two<BR>three', 'one\ntwo\nthree'],
  ['<a href="https://a.example">https://a.example</a>', 'https://a.example'],
  ["<a id=x href='https://a.example'>here</a>", 'here https://a.example'],
  ['<abbr title="x">a</abbr><a name="here">b</a>', 'ab'],
  ['<a href="https://a.example">never closed', 'never closed'],
])('%s', (html, text) => expect(plainText(html)).toBe(text));

test('the links of a message', () => {
  expect(
    linksOf({
      html: '<a href="https://a.example/?x=1&amp;y=2">a</a><a href="app:b">b</a>',
      text: '',
    }),
  ).toEqual(['https://a.example/?x=1&y=2', 'app:b']);
  expect(linksOf({ html: '<p>1 < 2: <a href="app:c">c</a></p>', text: '' })).toEqual(['app:c']);
  expect(linksOf({ text: 'Go to https://a.example/x now, or http://b.example' })).toEqual([
    'https://a.example/x',
    'http://b.example',
  ]);
});

test('files that have grown since they were attached are not read into memory', async () => {
  const file = { filename: 'a', contentType: 'x/y', content: '', fileId: 'f' };
  const mail = { attachments: [file, file] } as unknown as OutgoingMail;
  const piece = new Uint8Array(1_000_000);
  let read = 0;
  const files = {
    readable: async () => undefined,
    read: async () =>
      (async function* () {
        for (;;) {
          read += piece.length;
          yield piece;
        }
      })(),
  };
  await expect(inOnePiece(files, mail)).rejects.toThrow(AttachmentGone);
  expect(read).toBeLessThanOrEqual(maxFileBytes + piece.length);
});

test.each([
  'ada@example.com',
  "o'brien+news@mail.example.co.uk",
  'x@xn--mnchen-3ya.example',
  'root@localhost',
])('%s is one mailbox', (address) => {
  expect(requireMailbox(address)).toBe(address);
});

/** Injection of headers and recipients into mail: https://cwe.mitre.org/data/definitions/93.html */
test.each([
  '',
  'ada',
  'ada@example.com, eve@evil.example',
  'ada@example.com;eve@evil.example',
  'ada@example.com\r\nBcc: eve@evil.example',
  'ada@example.com\nX: y',
  'ada@example.com\u0000',
  'Ada <ada@example.com>',
  '"ada"@example.com',
  'ada@example.com>',
  'ada@[127.0.0.1]',
  'ada @example.com',
  'ada@exa\u2028mple.com',
  '\u0430da@example.com',
  `${'a'.repeat(250)}@example.com`,
])('%j is not: 400 that names the field', (address) => {
  expect(() => requireMailbox(address)).toThrowError(
    expect.objectContaining({
      status: 400,
      code: 'INVALID_RECIPIENT',
      errors: [expect.objectContaining({ path: 'to' })],
    }),
  );
});

test('numbers, senders and header values', () => {
  expect(requireNumber('+306900000000')).toBe('+306900000000');
  for (const number of ['306900000000', '+0123456789', '+30 690 000 0000', '+30690000000\n']) {
    expect(() => requireNumber(number)).toThrowError(
      expect.objectContaining({ code: 'INVALID_RECIPIENT' }),
    );
  }
  const rules = { sendingDomain: 'example.com', sender: 'no-reply', allowForeignSenders: false };
  expect(senderAddress('no-reply', rules)).toBe('no-reply@example.com');
  expect(() => senderAddress('no reply\r\nBcc: x', rules)).toThrow();
  expect(oneLine(' Hello\r\nBcc: eve@evil.example\u2028there ')).toBe(
    'Hello Bcc: eve@evil.example there',
  );
});

test.each([
  ['shop@example.com', {}, true],
  ['shop@EXAMPLE.com', {}, true],
  ['shop@mail.example.com', {}, true],
  ['shop@badexample.com', {}, false],
  ['shop@example.com.evil.example', {}, false],
  ['shop@other.example', {}, false],
  ['shop@other.example', { allowForeignSenders: true }, true],
  ['shop@other.example', { sender: 'info@Other.example' }, true],
  ['shop@other.example', { sendingDomain: '' }, true],
])('a sender %s with %j: %s', (sender, more, own) => {
  const usual = { sendingDomain: 'example.com', sender: 'no-reply', allowForeignSenders: false };
  const rules = { ...usual, ...more };
  if (own) expect(senderAddress(sender, rules)).toBe(sender);
  else
    expect(() => senderAddress(sender, rules, 'from')).toThrowError(
      expect.objectContaining({
        status: 400,
        code: 'SENDER_NOT_ALLOWED',
        errors: [expect.objectContaining({ path: 'from', rule: 'domain' })],
      }),
    );
});

/** The example of AWS's own test suite: get-vanilla. */
test('signs as the published example is signed', () => {
  const headers = signedHeaders(
    { method: 'GET', url: 'https://example.amazonaws.com/', headers: {}, body: '' },
    {
      accessKeyId: 'AKIDEXAMPLE',
      secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
      region: 'us-east-1',
      service: 'service',
    },
    new Date('2015-08-30T12:36:00Z'),
  );
  expect(headers.authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  );
});

test('requests to AWS whose path has to be encoded are signed as another implementation signs them', async () => {
  const { AwsV4Signer } = await import('aws4fetch');
  const keys = { accessKeyId: 'A', secretAccessKey: 's', region: 'eu-central-1', service: 'ses' };
  const url = 'https://email.eu-central-1.amazonaws.com/v2/email/templates/a%20b%2Fc?PageSize=1';
  const at = new Date('2026-01-02T03:04:05Z');
  const own = signedHeaders({ method: 'GET', url, headers: {}, body: '' }, keys, at);
  const datetime = '20260102T030405Z';
  const signer = new AwsV4Signer({ method: 'GET', url, datetime, ...keys });
  expect(own.authorization).toBe((await signer.sign()).headers.get('authorization'));
});
