/**
 * Our parser beside the maintained library: why it is ours (decision 050), and that it reads what
 * the library reads.
 */
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCsv } from './csv-parser.ts';

async function* inPieces(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const ours = async (text: string, size = 7) =>
  Array.fromAsync(parseCsv(inPieces(text, size), 'comma'));
const library = (text: string): string[][] =>
  parse(text, { relax_column_count: true, skip_empty_lines: true, skip_records_with_error: true });

describe('the CSV parser beside the library', () => {
  it('reads every valid file alike, wherever the pieces are cut', async () => {
    const cell = fc.string({
      unit: fc.constantFrom('a', '"', ',', '\n', '\r\n', ' ', 'é'),
      maxLength: 6,
    });
    const rows = fc.array(fc.array(cell, { minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 5,
    });
    const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
    await fc.assert(
      fc.asyncProperty(rows, fc.integer({ min: 1, max: 9 }), async (table, size) => {
        const text = table.map((row) => row.map(quoted).join(',')).join('\n');
        const read = (await ours(text, size)).map(({ cells }) => cells);
        expect(read).toEqual(library(text));
      }),
      { numRuns: 300 },
    );
  });

  it('keeps the rows behind a stray quote, which the library loses', async () => {
    const text = 'a,b\n"x"y,1\nkept,2\nkept too,3\n';
    const read = await ours(text);
    expect(read.map(({ line, cells }) => [line, cells])).toEqual([
      [1, ['a', 'b']],
      [2, undefined],
      [3, ['kept', '2']],
      [4, ['kept too', '3']],
    ]);
    expect(library(text).flat()).not.toContain('kept');
  });
});
