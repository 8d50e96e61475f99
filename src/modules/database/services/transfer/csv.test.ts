import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../../test/support/record-kernel.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { system } from '../../../../kernel/caller.ts';
import { createCsvWriter, readCsv } from './csv.ts';
import { readJsonLines } from './import.ts';
import type { ReadRow } from './rows.ts';

describe('rows as text', () => {
  let kernel: RecordKernel;
  let schema: CompiledSchema;
  beforeAll(async () => {
    kernel = await openRecordKernel();
    const fields = {
      text: 'String',
      must: { type: 'String', required: true, default: 'x' },
      number: 'Number',
      big: { type: 'Number', sqlType: 'BIGINT' },
      flag: 'Boolean',
      day: 'Date',
      link: 'ObjectId',
      free: 'JSON',
      tags: ['String'],
      place: { city: 'String' },
    } as const;
    await kernel.schemas.create(system('test'), { name: 'Cell', fields });
    schema = kernel.schemas.get('Cell') as CompiledSchema;
  });
  afterAll(() => kernel.close());

  const plain = { columns: ['text'], delimiter: 'comma', escapeFormulas: false } as const;
  const writer = (columns: readonly string[], more: object = {}) =>
    createCsvWriter(schema, { ...plain, columns, ...more });

  /** In pieces of one byte, so that nothing depends on where they are cut. */
  async function* bytesOf(text: string | Buffer): AsyncGenerator<Buffer> {
    const bytes = Buffer.from(text);
    for (let i = 0; i < bytes.length; i++) yield bytes.subarray(i, i + 1);
  }
  const collect = async (rows: AsyncIterable<ReadRow>): Promise<ReadRow[]> => Array.fromAsync(rows);
  const read = (text: string | Buffer, delimiter: 'comma' | 'semicolon' | 'tab' = 'comma') =>
    collect(readCsv(schema, bytesOf(text), delimiter));
  const linesOf = (text: string | Buffer) => collect(readJsonLines(schema, bytesOf(text)));

  it('come back as they went, whatever they hold', async () => {
    const text = fc.string({
      unit: fc.constantFrom(
        'a',
        '"',
        ',',
        ';',
        '\t',
        '\n',
        '\r',
        ' ',
        'é',
        '\u{1f600}',
        "'",
        '=',
        '\\',
      ),
    });
    const record = fc.record({
      text: fc.option(text),
      must: text,
      number: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0)),
      big: fc.option(
        fc.oneof(
          fc.maxSafeInteger().map((n) => n + 0),
          fc.constant('9223372036854775807'),
        ),
      ),
      flag: fc.option(fc.boolean()),
      day: fc.option(fc.constant('2026-01-31T12:00:00.000Z')),
      link: fc.option(fc.uuid()),
      // A key of this name is refused everywhere: it would be no field but the parent of an object.
      free: fc.option(
        fc
          .jsonValue({ maxDepth: 2 })
          .filter((value) => value !== null && !JSON.stringify(value).includes('__proto__')),
      ),
      tags: fc.option(fc.array(text)),
      place: fc.option(fc.record({ city: fc.option(text) })),
    });
    const columns = [...schema.tree.fields.keys()];
    await fc.assert(
      fc.asyncProperty(
        fc.array(record, { maxLength: 5 }),
        fc.constantFrom('comma', 'semicolon', 'tab'),
        async (records, delimiter) => {
          const csv = writer(columns, { delimiter });
          const rows = await read(
            csv.header + csv.lines(records.map((one) => JSON.stringify(one))),
            delimiter,
          );
          expect(rows.map(({ input }) => JSON.parse(JSON.stringify(input)))).toEqual(
            JSON.parse(JSON.stringify(records)),
          );
        },
      ),
      { numRuns: 100 },
    );
  });

  it('follow RFC 4180: CRLF, quotes only where they are needed, doubled inside', () => {
    const csv = writer(['text', 'number', 'free']);
    const records = [
      { text: 'a "b", c', number: 1.5, free: 'x' },
      { text: '', number: null, free: null },
      { text: 'plain' },
    ];
    expect(csv.header + csv.lines(records.map((one) => JSON.stringify(one)))).toBe(
      'text,number,free\r\n"a ""b"", c",1.5,"""x"""\r\n"",,\r\nplain,,\r\n',
    );
  });

  it('can be made harmless for spreadsheets', () => {
    const csv = writer(['text', 'number'], { escapeFormulas: true });
    expect(
      csv.lines(
        ['=1+1', '@x', '-2', '+3', '\uff1d1+1', 'a=b'].map((text) =>
          JSON.stringify({ text, number: -1 }),
        ),
      ),
    ).toBe("'=1+1,-1\r\n'@x,-1\r\n'-2,-1\r\n'+3,-1\r\n'\uff1d1+1,-1\r\na=b,-1\r\n");
    // Ids of tables of others, and relations to them, are texts as well.
    const ids = writer(['_id', 'link'], { escapeFormulas: true });
    expect(ids.lines([JSON.stringify({ _id: '=1+1', link: '@x' })])).toBe("'=1+1,'@x\r\n");
  });

  it('tell null from empty text, and let defaults stand in where nothing may be null', async () => {
    const [row] = await read('text,must,number,flag,free\r\n,,,,\r\n');
    expect(row?.input).toEqual({ text: null, number: null, flag: null, free: null });
    const [quoted] = await read('text,must,number\n"","",""\n');
    expect(quoted?.input).toEqual({ text: '', must: '', number: null });
  });

  it('are read as people write them: a mark in front, LF, spaces around names, empty lines, words for booleans', async () => {
    const rows = await read('\ufeffmust , flag\nx,TRUE\n\nx,0\n');
    expect(rows.map(({ line, input }) => [line, input?.flag])).toEqual([
      [2, true],
      [4, false],
    ]);
  });

  it('keep digits that a number would lose', async () => {
    const [row] = await read('must,big,number\nx,9007199254740993,1e3\n');
    expect(row?.input).toMatchObject({ big: '9007199254740993', number: 1000 });
  });

  it.each([
    ['must,nonsense\nx,1\n', 'columns.1', 'field'],
    ['must,must\nx,1\n', 'columns.1', 'unique'],
    ['must,\nx,1\n', 'columns.1', 'field'],
    ['__proto__\nx\n', 'columns.0', 'field'],
    ['', 'body', 'header'],
  ])('are refused whole with the header %j', async (text, path, rule) => {
    await expect(read(text)).rejects.toMatchObject({ status: 400, errors: [{ path, rule }] });
  });

  it('end where CSV ends, and lose nothing of what stands before', async () => {
    const rows = await read('must\nx\n"never closed\n');
    expect(
      rows.map(({ line, input, problems }) => [line, input?.must ?? problems?.[0]?.rule]),
    ).toEqual([
      [2, 'x'],
      [3, 'csv'],
    ]);
  });

  it.each([
    ['\n\u00e9\nb\ufffd\nc\nd', [0xff], '\ne\n'],
    ['\na\u20ac\nb', [0xe2, 0x82], '\nc\n'],
    ['\n\u{1f600}\na\n\u{1f600}', [0xf0, 0x9f], '\u{1f600}\n'],
    ['\na', [0xc3], ''],
  ])(
    'are read to the byte that is no UTF-8, wherever the pieces are cut: text%j, then %j',
    async (before, invalid, after) => {
      const bytes = Buffer.concat([
        Buffer.from(`text${before}`),
        Buffer.from(invalid),
        Buffer.from(after),
      ]);
      const lines = before.split('\n').slice(1, -1);
      const expected = [...lines.map((text, i) => [i + 2, text]), [lines.length + 2, 'encoding']];
      for (let size = 1; size <= bytes.length; size++) {
        const pieces = async function* () {
          for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
        };
        const rows = await collect(readCsv(schema, pieces(), 'comma'));
        expect(
          rows.map(({ line, input, problems }) => [line, input?.text ?? problems?.[0]?.rule]),
        ).toEqual(expected);
      }
    },
  );

  it('go on after a quote in the wrong place', async () => {
    const rows = await read('must,text\nx,5" pipe\nx,"5" pipe"\nx,"5"" pipe"\n');
    expect(
      rows.map(({ line, input, problems }) => [line, input?.text ?? problems?.[0]?.rule]),
    ).toEqual([
      [2, 'csv'],
      [3, 'csv'],
      [4, '5" pipe'],
    ]);
  });

  it.each([
    [
      'behind a closing quote',
      'must,text\nx,"5"y\nx,6\nx,"7"\n',
      [
        [2, 'csv'],
        [3, '6'],
        [4, '7'],
      ],
    ],
    [
      'behind a closing quote of the last cell',
      'text\n"a"b\nc',
      [
        [2, 'csv'],
        [3, 'c'],
      ],
    ],
    [
      'of every line',
      'must,text\nx"y,1\n"x"y,2\nx,3',
      [
        [2, 'csv'],
        [3, 'csv'],
        [4, '3'],
      ],
    ],
  ])('a problem %s costs that line only', async (_, text, expected) => {
    const rows = await read(text);
    expect(
      rows.map(({ line, input, problems }) => [line, input?.text ?? problems?.[0]?.rule]),
    ).toEqual(expected);
  });

  it('may have all kinds of line ends in one file, and counts each once', async () => {
    const rows = await read('must,text\r\na,1\nb,"2\r\n2\r2\nx"\rc,3\r\n\r\nd,4');
    expect(rows.map(({ line, input }) => [line, input?.must, input?.text])).toEqual([
      [2, 'a', '1'],
      [6, 'b', '2\r\n2\r2\nx'],
      [7, 'c', '3'],
      [9, 'd', '4'],
    ]);
  });

  it('say where a quote was opened that is never closed', async () => {
    const rows = await read('text\na\n"b\nc\nd\n');
    expect(rows.map(({ line, problems }) => [line, problems?.[0]?.rule])).toEqual([
      [2, undefined],
      [3, 'csv'],
    ]);
  });

  it('name the line that is wrong and go on', async () => {
    const rows = await read('must,free\nx,{\nx,1,2\nx,1\n');
    expect(rows.map(({ line, problems }) => [line, problems?.[0]?.rule])).toEqual([
      [2, 'json'],
      [3, 'columns'],
      [4, undefined],
    ]);
  });

  it('are lines of JSON just as well', async () => {
    const rows = await linesOf(
      '\ufeff{"must":"x"}\r\n\n{"must":\n[1]\n{"nonsense":1}\n{"free":{"__proto__":{}}}\n{"must":"y\\u0000"}\n{"must":"last"}',
    );
    expect(
      rows.map(({ line, input, problems }) => [line, input?.must ?? problems?.[0]?.rule]),
    ).toEqual([
      [1, 'x'],
      [3, 'json'],
      [4, 'json'],
      [5, 'field'],
      [6, 'name'],
      [7, 'text'],
      [8, 'last'],
    ]);
  });

  it('must be UTF-8', async () => {
    const broken = (head: string) => Buffer.concat([Buffer.from(head), Buffer.from([0xff, 0x0a])]);
    expect((await linesOf(broken('{"must":"x"}\n'))).at(-1)).toMatchObject({
      problems: [{ rule: 'encoding' }],
    });
    expect((await read(broken('must\nx\n'))).at(-1)).toMatchObject({
      problems: [{ rule: 'encoding' }],
    });
    // A file comes in large pieces: what stands in front of the problem is read all the same, and its line is named.
    async function* whole(bytes: Buffer): AsyncGenerator<Buffer> {
      yield bytes;
    }
    const csv = await collect(readCsv(schema, whole(broken('must\nx\ny\n')), 'comma'));
    expect(
      csv.map(({ line, input, problems }) => [line, input?.must ?? problems?.[0]?.rule]),
    ).toEqual([
      [2, 'x'],
      [3, 'y'],
      [4, 'encoding'],
    ]);
    const json = await collect(readJsonLines(schema, whole(broken('{"must":"x"}\n'))));
    expect(json.map(({ line, problems }) => [line, problems?.[0]?.rule])).toEqual([
      [1, undefined],
      [2, 'encoding'],
    ]);
  });

  it('have an end, also when one of them has none', async () => {
    async function* endless(head: string): AsyncGenerator<Buffer> {
      yield Buffer.from(head);
      for (;;) yield Buffer.alloc(1_000_000, 'x');
    }
    const lines = await collect(readJsonLines(schema, endless('{"must":"')));
    expect(lines).toMatchObject([{ line: 1, problems: [{ rule: 'maxLength' }] }]);
    const rows = await collect(readCsv(schema, endless('must\n"'), 'comma'));
    expect(rows).toMatchObject([{ line: 2, problems: [{ rule: 'csv' }] }]);
  });
});
