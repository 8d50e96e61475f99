/**
 * Files that take all of the time that one may (CWE-400): each of them kept the texts of others waiting as long as the
 * first.
 */
import { afterAll, expect, it } from 'vitest';
import { createFileTexts } from './file-texts.ts';

const USUAL_MS = 4_000;
/** A page without text, of so many operators that nobody has read them in seconds, shown on many pages. */
function slowPdf(mark: string): Buffer {
  const operators = `% ${mark}\n${'q 1 0 0 1 0 0 cm Q\n'.repeat(300_000)}`;
  const pages = Array.from({ length: 400 }, (_, at) => at + 4);
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${pages.map((at) => `${at} 0 R`).join(' ')}] /Count ${pages.length} >>`,
    `<< /Length ${operators.length} >>\nstream\n${operators}\nendstream`,
    ...pages.map(() => '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 3 0 R >>'),
  ];
  const body = objects.map((object, at) => `${at + 1} 0 obj\n${object}\nendobj\n`).join('');
  return Buffer.from(`%PDF-1.4\n${body}trailer << /Size 404 /Root 1 0 R >>\n%%EOF`, 'latin1');
}

const owners = new Map([
  ['first', 'User:eve'],
  ['second', 'User:eve'],
  ['third', 'User:eve'],
  ['other', 'User:ann'],
]);
const allowed: (readonly [unknown, unknown])[] = [];

const texts = createFileTexts({
  config: () => ({ files: { maxMegabytes: 25, extractTimeoutMs: USUAL_MS } }) as never,
  measures: { files: { inc: () => undefined } } as never,
  log: {
    warn: ({ file, allowedMs }: { file: string; allowedMs: number }) =>
      allowed.push([file, allowedMs]),
  } as never,
  storage: () =>
    ({
      files: {
        find: async (id: string) => ({
          id,
          name: id,
          size: slowPdf(id).length,
          mimeType: 'application/pdf',
          checksum: id,
          owner: owners.get(id) ?? null,
          withheld: false,
        }),
        read: async (id: string) => [slowPdf(id)],
      },
    }) as never,
});
afterAll(() => texts.close());

it('have half of the time of the one before, and those of others all of it', async () => {
  for (const id of owners.keys()) expect(await texts.of(id)).toBe('');
  expect(allowed).toEqual([
    ['first', USUAL_MS],
    ['second', USUAL_MS / 2],
    ['third', USUAL_MS / 4],
    ['other', USUAL_MS],
  ]);
}, 60_000);
