/**
 * Contents that mean to run in a browser, at every door by which contents leave; and requests that ask for parts of them in
 * ways that are none. Nothing of it is ever a 5xx, and no part is anything but those bytes.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
});
afterAll(() => platform?.close());

const send = async (
  content: string | Buffer,
  { name = 'x', type = '', isPublic = false } = {},
): Promise<{ readonly id: string; readonly url: string }> => {
  const fields = { name: `${randomUUID()}-${name}`, isPublic: String(isPublic) };
  const { status, body } = await sendForm(platform, ann, [name, content], { fields, type });
  expect(status, JSON.stringify(body)).toBe(200);
  return body as { id: string; url: string };
};
const newLink = async (id: string): Promise<string> => {
  const made = await ann.api.post(`/storage/file/${id}/links`, { expiresIn: 3_600 });
  expect(made.status, made.text).toBe(200);
  return made.body.url;
};

/* https://cwe.mitre.org/data/definitions/79.html */

const script = '<script>alert(1)</script>';
const svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>';
const xhtml = `<html xmlns="http://www.w3.org/1999/xhtml"><head>${script}</head></html>`;
const xslt = '<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="#x"?><a/>';
const gif = Buffer.concat([Buffer.from('GIF89a/*'), Buffer.from(`*/=1;alert(1)${script}`)]);
const png = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.from(script)]);
const jpeg = Buffer.concat([Buffer.from('ffd8ffe0', 'hex'), Buffer.from(script)]);
const pdf = Buffer.from(`%PDF-1.4\n${script}`);
/** What is said of the type, the name, the content. */
const corpus: readonly (readonly [type: string, name: string, content: string | Buffer])[] = [
  ...['text/html', 'TEXT/HTML', 'text/html;charset=utf-7', 'text/html; x', 'image/png', ''].map(
    (type) => [type, 'page.html', script] as const,
  ),
  ...['image/svg+xml', 'image/svg+xml;x=', 'image/svg', 'image/png', 'text/plain', ''].map(
    (type) => [type, 'drawing.svg', svg] as const,
  ),
  ...['application/xhtml+xml', 'application/xml', 'text/xml', 'image/jpeg'].map(
    (type) => [type, 'page.xhtml', xhtml] as const,
  ),
  ...['text/xsl', 'application/xslt+xml', 'application/rss+xml', 'image/gif'].map(
    (type) => [type, 'style.xsl', xslt] as const,
  ),
  ...['page.htm', 'page.shtml', 'page.svgz', 'page.mht', 'page.php', 'page.png', 'page'].map(
    (name) => ['', name, script] as const,
  ),
  ...['text/javascript', 'application/javascript', 'application/wasm', 'text/css'].map(
    (type) => [type, 'code.mjs', 'alert(1)'] as const,
  ),
  ['application/x-shockwave-flash', 'x.swf', Buffer.from('FWS\u0009\0\0')],
  ['text/cache-manifest', 'x.appcache', 'CACHE MANIFEST\n*'],
  ['multipart/x-mixed-replace', 'x', script],
  ['message/rfc822', 'x.eml', `Content-Type: text/html\r\n\r\n${script}`],
  ['image/png', 'utf16.png', Buffer.from(`\ufeff${script}`, 'utf16le')],
  ['image/gif', 'polyglot.gif', gif],
  ['image/png', 'polyglot.png', png],
  ['image/jpeg', 'polyglot.jpg', jpeg],
  ['application/pdf', 'polyglot.pdf', pdf],
];
/** What a browser may show in its place: nothing in these runs. */
const shown = /^(?:image\/(?:png|jpeg|gif)|application\/pdf|text\/plain; charset=utf-8)$/;

describe('contents that mean to run', () => {
  it('are forty', () => expect(corpus.length).toBeGreaterThanOrEqual(40));

  it.each(corpus)('%s %s leaves every door harmless', async (type, name, content) => {
    const { id, url } = await send(content, { name, type, isPublic: true });
    const signed = (await ann.api.get(`/storage/getFileUrl/${id}`)).body.result;
    const doors = [
      url,
      signed,
      await newLink(id),
      `/storage/download/${id}`,
      `/storage/blob/${id}`,
    ];
    for (const door of doors) {
      const { status, headers } = await readContent(platform, door, { headers: bearer(ann) });
      expect([door, status]).toEqual([door, 200]);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
      if (headers.get('content-disposition')?.startsWith('attachment;')) continue;
      expect(headers.get('content-type')).toMatch(shown);
    }
    const image = await readContent(platform, `/storage/file/${id}/image?w=8&h=8`, {
      headers: bearer(ann),
    });
    // Nothing of it is a picture that can be drawn: those that are shown as they are stay what they are.
    expect(image.status).toBeLessThan(500);
    expect(image.status).toBeGreaterThanOrEqual(400);
  });
});

/* https://www.rfc-editor.org/rfc/rfc9110#section-14 */

const digits = '0123456789';
const flood = `bytes=${Array.from({ length: 40 }, (_, at) => `${at}-`).join()}`;

describe('parts that are asked for in hostile ways', () => {
  let path: string;
  beforeAll(async () => {
    path = `/storage/download/${(await send(digits)).id}`;
  });
  const ask = (headers: Record<string, string>) =>
    readContent(platform, path, { headers: { ...bearer(ann), ...headers } });

  it.each([
    flood,
    'bytes=0-0,-1',
    'bytes=0-,0-,0-,0-,0-',
    'bytes=-',
    'bytes=--1',
    'bytes=1--1',
    'bytes=0x0-0x1',
    'bytes=1e1-2',
    'bytes=0-1-2',
    'bytes 0-1',
    'bytes=٠-١',
    'bytes=0-1;q=1',
    'octets=0-1',
    '=0-1',
    ',',
  ])('%s is the whole, once', async (range) => {
    const encoded = Buffer.from(range).toString('latin1');
    const { status, bytes } = await ask({ range: encoded });
    expect([status, bytes.toString()]).toEqual([200, digits]);
  });

  it('ten thousand parts are refused, or the whole, and never more than that', async () => {
    const { status, bytes } = await ask({ range: `bytes=${'0-,'.repeat(10_000)}0-` });
    expect([200, 400]).toContain(status);
    expect(bytes.length).toBeLessThan(2_000);
  });

  it.each(['bytes=999999999999999-', 'bytes=10-10', 'bytes=-0'])('%s is 416', async (range) => {
    const { status, headers } = await ask({ range });
    expect([status, headers.get('content-range')]).toEqual([416, 'bytes */10']);
  });

  it('a part of a content that was replaced is never joined to the old one', async () => {
    const { id } = await send(digits);
    const part = (condition: string) =>
      readContent(platform, `/storage/download/${id}`, {
        headers: { ...bearer(ann), range: 'bytes=5-', 'if-range': condition },
      });
    const { headers } = await readContent(platform, `/storage/download/${id}`, {
      headers: bearer(ann),
    });
    const etag = headers.get('etag') ?? '';
    expect((await part(etag)).status).toBe(206);
    const data = Buffer.from('abcdefghij').toString('base64');
    expect((await ann.api.patch(`/storage/file/${id}`, { data })).status).toBe(200);
    for (const condition of [
      etag,
      `W/${etag}`,
      '*',
      `${etag}, "x"`,
      'Thu, 01 Jan 1970 00:00:00 GMT',
    ]) {
      const { status, bytes } = await part(condition);
      expect([condition, status, bytes.toString()]).toEqual([condition, 200, 'abcdefghij']);
    }
  });
});

/* https://cwe.mitre.org/data/definitions/639.html */

describe('addresses that were given out', () => {
  it('open one file, in one way, and no other', async () => {
    const [one, other] = [await send('one'), await send('other')];
    const { result } = (await ann.api.get(`/storage/getFileUrl/${one.id}`)).body;
    expect((await readContent(platform, result)).bytes.toString()).toBe('one');
    const changed = (change: (url: URL) => void): string => {
      const url = new URL(result, platform.addresses.client);
      change(url);
      return url.href;
    };
    const attempts = [
      changed((url) => {
        url.pathname = url.pathname.replace(one.id, other.id);
      }),
      changed((url) => url.searchParams.set('expires', '99999999999')),
      changed((url) => url.searchParams.set('download', 'true')),
      changed((url) => url.searchParams.set('sig', '')),
      changed((url) => url.searchParams.delete('sig')),
      changed((url) => url.searchParams.set('sig', `${url.searchParams.get('sig')?.slice(1)}0`)),
    ];
    for (const attempt of attempts) {
      const { status } = await readContent(platform, attempt);
      expect([403, 404]).toContain(status);
    }
    const written = await fetch(new URL(result, platform.addresses.client), {
      method: 'PUT',
      body: 'changed',
    });
    expect(written.status).toBeGreaterThanOrEqual(400);
    expect((await readContent(platform, result)).bytes.toString()).toBe('one');
  });

  it('end for a private file with the file, whoever has them', async () => {
    const { id } = await send('gone');
    const [signed, link] = [
      (await ann.api.get(`/storage/getFileUrl/${id}`)).body.result,
      await newLink(id),
    ];
    expect((await bob.api.delete(`/storage/file/${id}`)).status).toBe(403);
    expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
    for (const address of [signed, link]) {
      expect((await readContent(platform, address)).status).toBe(404);
    }
  });
});
