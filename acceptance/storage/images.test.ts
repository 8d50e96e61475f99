/** Pictures in other sizes, over HTTP, and pictures that are none or too much (CWE-409, decompression bombs). */
import { deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  ann = await platform.registerUser();
});
afterAll(() => platform?.close());

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#a04020' } });

async function upload(content: Buffer, isPublic = false, type = 'image/jpeg'): Promise<string> {
  const name = `${crypto.randomUUID()}.jpg`;
  const sent = await sendForm(platform, ann, [name, content], {
    fields: { isPublic: String(isPublic) },
    type,
  });
  expect(sent.status).toBe(200);
  return sent.body.id;
}

const read = (id: string, query: string, headers = bearer(ann) as Record<string, string>) =>
  readContent(platform, `/storage/file/${id}/image?${query}`, { headers });

test('a picture comes in the size and format that was asked for, turned and without its places', async () => {
  const camera = await picture(800, 400)
    .jpeg()
    .withExif({ IFD3: { GPSLatitude: '51/1 30/1 0/1' } })
    .withMetadata({ orientation: 6 })
    .toBuffer();
  const id = await upload(camera);
  const made = await read(id, 'w=100&format=webp');
  expect(made.status).toBe(200);
  expect(made.headers.get('content-type')).toBe('image/webp');
  const facts = await sharp(made.bytes).metadata();
  expect(facts).toMatchObject({ format: 'webp', width: 100, height: 200 });
  expect(facts.exif).toBeUndefined();
  const cut = await read(id, 'w=50&h=50&fit=cover&format=png');
  expect(await sharp(cut.bytes).metadata()).toMatchObject({ format: 'png', width: 50, height: 50 });
  const larger = await read(id, 'w=4096&format=jpeg');
  expect(await sharp(larger.bytes).metadata()).toMatchObject({ width: 400, height: 800 });
  expect((await read(id, 'w=10&h=10&fit=contain&format=avif&quality=30')).status).toBe(200);
});

test('what was made once is kept, told by its tag, and gone with its file', async () => {
  const id = await upload(await picture(300, 200).png().toBuffer());
  const all = await Promise.all(Array.from({ length: 8 }, () => read(id, 'w=64')));
  const [first] = all;
  expect(new Set(all.map(({ bytes }) => bytes.toString('base64'))).size).toBe(1);
  const etag = first?.headers.get('etag') ?? '';
  const again = await read(id, 'w=64', { ...bearer(ann), 'if-none-match': etag });
  expect(again.status).toBe(304);
  expect((await read(id, 'w=65')).headers.get('etag')).not.toBe(etag);
  expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
  expect((await read(id, 'w=64')).status).toBe(404);
});

test('visitors get public pictures, in presets alone', async () => {
  const id = await upload(await picture(300, 200).png().toBuffer(), true);
  const hidden = await upload(await picture(30, 20).png().toBuffer());
  const preset = await read(id, 'preset=thumbnail', {});
  expect(preset.status).toBe(200);
  expect(await sharp(preset.bytes).metadata()).toMatchObject({ width: 200, height: 200 });
  expect((await read(id, 'w=480', {})).status).toBe(200);
  expect((await read(id, 'w=481', {})).status).toBe(403);
  expect((await read(id, 'preset=nothing', {})).status).toBe(400);
  expect((await read(hidden, 'preset=small', {})).status).toBe(403);
});

test.each(['w=0', 'w=4097', 'h=x', 'fit=fill', 'format=svg', 'quality=101'])(
  '%s is 400',
  async (query) => {
    expect((await read('00000000-0000-7000-8000-000000000000', query)).status).toBe(400);
  },
);

test('an animated picture comes as it is', async () => {
  const frames = Buffer.alloc(20 * 20 * 3 * 4, 120);
  const gif = await sharp(frames, { raw: { width: 20, height: 80, channels: 3, pageHeight: 20 } })
    .gif({ loop: 0, delay: [10, 10, 10, 10], dither: 0 })
    .toBuffer();
  const animated = (await sharp(gif).metadata()).pages ?? 1;
  const id = await upload(gif);
  const answer = await read(id, 'w=10');
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe(animated > 1 ? 'image/gif' : 'image/webp');
  if (animated > 1) expect(answer.bytes.equals(gif)).toBe(true);
});

/** A PNG of any size that has almost no bytes. */
function bomb(width: number, height: number): Buffer {
  const chunk = (name: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const frame = Buffer.alloc(8);
    frame.writeUInt32BE(data.length);
    frame.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width);
  header.writeUInt32BE(height, 4);
  header[8] = 1;
  const rows = deflateSync(Buffer.alloc(Math.min(height, 3_000) * (Math.ceil(width / 8) + 1)));
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

test('bombs, broken pictures and drawings are 400, and the next picture is made', async () => {
  const before = process.memoryUsage.rss();
  const drawing =
    '<svg xmlns="http://www.w3.org/2000/svg"><image href="http://127.0.0.1:1/"/></svg>';
  const jpeg = await picture(500, 500).jpeg().toBuffer();
  const contents = [
    bomb(40_000, 40_000),
    bomb(3_000, 200_000),
    Buffer.from(drawing),
    Buffer.from('not a picture'),
    jpeg.subarray(0, 300),
    Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(1_000, 7)]),
  ];
  for (const content of contents) {
    const answer = await read(await upload(content), 'w=100');
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.bytes.toString()).code).toBe('IMAGE_UNSUPPORTED');
  }
  const id = await upload(jpeg);
  expect((await read(id, 'w=100')).status).toBe(200);
  expect(process.memoryUsage.rss() - before).toBeLessThan(300 * 1_048_576);
});
