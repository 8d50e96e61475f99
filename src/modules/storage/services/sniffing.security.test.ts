/** Types by content, not by what a sender says: https://cwe.mitre.org/data/definitions/434.html */
import { expect, test } from 'vitest';
import { openContent } from './content.ts';
import { sniffContentType } from './sniffing.ts';

const png = Buffer.from(
  '89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489',
  'hex',
);
const zip = Buffer.concat([Buffer.from('504b0304140000000800', 'hex'), Buffer.alloc(40, 1)]);
const sniff = (content: string | Uint8Array, name = 'a', hint?: string): Promise<string> =>
  sniffContentType(typeof content === 'string' ? Buffer.from(content) : content, name, hint);

test.each([
  ['a picture', png, 'a.txt', 'text/plain', 'image/png'],
  ['a picture that says it is a page', png, 'a.html', 'text/html', 'image/png'],
  [
    'a page that says it is a picture',
    '<html><script>x</script>',
    'a.png',
    'image/png',
    'text/html',
  ],
  ['a page behind a comment', ' \n<!-- x --><SCRIPT>', 'a.txt', 'text/plain', 'text/html'],
  ['a page behind a byte order mark', '\ufeff<!DOCTYPE html>', 'a', undefined, 'text/html'],
  [
    'a drawing',
    '<?xml version="1.0"?><!-- x --><svg xmlns="x">',
    'a.xml',
    'application/xml',
    'image/svg+xml',
  ],
  [
    'a drawing that says it is a picture',
    '<svg onload="x">',
    'a.png',
    'image/png',
    'image/svg+xml',
  ],
  ['XML', '<?xml version="1.0"?><note/>', 'a', undefined, 'application/xml'],
  ['a feed', '<?xml version="1.0"?><rss/>', 'a', 'application/rss+xml', 'application/rss+xml'],
  ['text', 'hello', 'a', undefined, 'text/plain'],
  ['text that says it is a picture', 'hello', 'a', 'image/png', 'text/plain'],
  ['a table, by its name', 'a,b\n1,2', 'a.CSV', undefined, 'text/csv'],
  ['JSON, by its sender', '{"a":1}', 'a', 'application/json; charset=utf-8', 'application/json'],
  [
    'a document in an archive',
    zip,
    'a.docx',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  ],
  ['an archive that says it is a picture', zip, 'a.png', 'image/png', 'application/zip'],
  [
    'bytes that say they are a picture',
    Buffer.from([0, 1, 2, 3, 0]),
    'a',
    'image/webp',
    'application/octet-stream',
  ],
  [
    'bytes that say they are text',
    Buffer.from([0, 1, 2, 3, 0]),
    'a',
    'text/plain',
    'application/octet-stream',
  ],
  [
    'bytes of a type nobody knows',
    Buffer.from([0, 1, 2, 3, 0]),
    'a',
    'application/x-own',
    'application/x-own',
  ],
  ['nothing yet', '', 'a', 'image/png', 'image/png'],
  ['nothing', '', 'a', undefined, 'application/octet-stream'],
  ['UTF-16', Buffer.from('\ufeff<html>', 'utf16le'), 'a', undefined, 'text/html'],
])('%s', async (...[, content, name, hint, type]) => {
  expect(await sniff(content, name, hint)).toBe(type);
});

test('a character that is cut off at the end leaves text a text', async () => {
  const text = Buffer.from('ä'.repeat(3_000)).subarray(0, 4_097);
  expect(await sniff(text)).toBe('text/plain');
});

test('a hint that is no type is refused', async () => {
  await expect(sniff('x', 'a', 'no type')).rejects.toMatchObject({ code: 'INVALID_MIME' });
});

test('any beginning is answered, in time that does not depend on what it is', async () => {
  for (const text of [
    '<!--'.repeat(2_000),
    '<?'.repeat(3_000),
    ' '.repeat(9_000),
    '<'.repeat(9_000),
  ])
    expect(await sniff(text)).toMatch(/^text\//);
});

test.each([1, 100, 5_000, 65_536])('is known however a long content is cut: %i', async (length) => {
  const content = Buffer.concat([png, Buffer.alloc(300_000, 1)]);
  async function* cut(): AsyncGenerator<Buffer> {
    for (let at = 0; at < content.length; at += length) {
      // The first pieces are short, the rest comes at once.
      const size = at < 8_192 ? length : content.length;
      yield Buffer.from(content.subarray(at, at + size));
      if (size > length) return;
    }
  }
  const { head, body } = await openContent(cut(), 1_000_000);
  expect(head.length).toBeGreaterThanOrEqual(4_096);
  expect(await sniff(head)).toBe('image/png');
  const passed: Buffer[] = [];
  if (body instanceof Uint8Array) passed.push(Buffer.from(body));
  else for await (const piece of body) passed.push(Buffer.from(piece));
  expect(Buffer.concat(passed).equals(content)).toBe(true);
});
