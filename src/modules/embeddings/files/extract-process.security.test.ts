/**
 * Files that unpack to very much (CWE-409). The heap of a thread is bounded, its buffers are not: they were taken from the
 * platform until the time of a file was over.
 */
import { constants, deflateRawSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { createProcessLink } from '../../../kernel/threads/worker-link.ts';

const file = new URL('extract-process.ts', import.meta.url);
const reader = createProcessLink({ file, idleMs: 60_000, heapMegabytes: 256 });
afterAll(() => reader.close());

/** A page with this content. */
function pdf(content: Buffer, filter = ''): Uint8Array {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} ${filter} >>\nstream\n${content.toString('latin1')}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  const body = objects.map((object, at) => `${at + 1} 0 obj\n${object}\nendobj\n`).join('');
  const text = `%PDF-1.4\n${body}trailer << /Size 6 /Root 1 0 R >>\n%%EOF`;
  return new Uint8Array(Buffer.from(text, 'latin1'));
}

/** So many megabytes of spaces. */
function spaces(megabytes: number): Buffer {
  const one = deflateRawSync(Buffer.alloc(1 << 20, ' '), { finishFlush: constants.Z_FULL_FLUSH });
  const begin = Buffer.from([0x78, 0x9c]);
  return Buffer.concat([begin, ...Array<Buffer>(megabytes).fill(one), Buffer.from([3, 0])]);
}

const textOf = (bytes: Uint8Array): Promise<string> =>
  reader.call('extract', { kind: 'pdf', bytes, length: 1_000, maxMegabytes: 280 });

it('is given up when it takes too much memory, and the next one is read', async () => {
  const line = Buffer.from('BT /F1 12 Tf 72 720 Td (The platypus lays eggs) Tj ET');
  expect(await textOf(pdf(line))).toContain('platypus');
  const bomb = pdf(spaces(1_000), '/Filter /FlateDecode');
  expect(bomb.length).toBeLessThan(3_000_000);
  const error = await textOf(bomb).catch(({ message }: Error) => message);
  expect(error).toBe('It takes more than 280 MB of memory');
  await reader.close();
  expect(await textOf(pdf(line))).toContain('platypus');
}, 60_000);
