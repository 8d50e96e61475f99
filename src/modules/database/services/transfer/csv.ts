/** CSV as RFC 4180 has it: CRLF, quotes where they are needed, quotes inside doubled. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { automaticFields, shortName } from '../../../../data/schema/language/names.ts';
import { invalid, type Problem } from '../../../../kernel/errors.ts';
import { type Cell, cellReader, cellWriter, type ReadCell } from './csv-cells.ts';
import { parseCsv } from './csv-parser.ts';
import { type Delimiter, delimiters, type ReadRow } from './rows.ts';

export interface CsvWriter {
  readonly header: string;
  /** Lines of records given as JSON. */
  lines(records: readonly string[]): string;
}

export interface CsvWriteOptions {
  readonly columns: readonly string[];
  readonly delimiter: Delimiter;
  readonly escapeFormulas: boolean;
}

export function createCsvWriter(
  schema: CompiledSchema,
  { columns, delimiter, escapeFormulas }: CsvWriteOptions,
): CsvWriter {
  const between = delimiters[delimiter];
  const quotable = new RegExp(`["\\r\\n${between}]|^\\s|\\s$|^$`);
  const quoted = (text: string | undefined): string => {
    if (text === undefined) return '';
    return quotable.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const cells = columns.map((name) => ({ name, write: cellWriter(schema, name, escapeFormulas) }));
  const line = (json: string): string => {
    const record = JSON.parse(json) as Record<string, unknown>;
    return `${cells.map(({ name, write }) => quoted(write(record[name]))).join(between)}\r\n`;
  };
  return {
    header: `${columns.map(quoted).join(between)}\r\n`,
    lines: (records) => records.map(line).join(''),
  };
}

/** The rows behind the header. A line that is no CSV is a row that says why. Throws 400 for a header that names no fields. */
export async function* readCsv(
  schema: CompiledSchema,
  chunks: AsyncIterable<Buffer>,
  delimiter: Delimiter,
): AsyncGenerator<ReadRow> {
  let columns: readonly Column[] | undefined;
  let empty = true;
  for await (const parsed of parseCsv(chunks, delimiter)) {
    empty = false;
    if (parsed.cells === undefined)
      yield { line: parsed.line, bytes: 0, problems: [parsed.problem] };
    else if (columns) yield rowOf(columns, parsed.cells, parsed.line);
    else columns = columnsOf(schema, parsed.cells);
  }
  if (empty) throw invalid('body', 'header', 'is empty: the first line must name the fields');
}

interface Column {
  readonly name: string;
  readonly read: ReadCell;
}

function columnsOf(schema: CompiledSchema, header: readonly Cell[]): readonly Column[] {
  const seen = new Set<string>();
  return header.map((cell, i) => {
    const name = cell?.trim() ?? '';
    const path = `columns.${i}`;
    if (!schema.tree.fields.has(name) && !automaticFields.has(name))
      throw invalid(
        path,
        'field',
        `"${shortName(name)}" in the first line is not a field of ${schema.name}`,
      );
    if (seen.has(name)) throw invalid(path, 'unique', `"${name}" is there twice`);
    seen.add(name);
    return { name, read: cellReader(schema, name) };
  });
}

function rowOf(columns: readonly Column[], cells: readonly Cell[], line: number): ReadRow {
  const problems: Problem[] = [];
  if (cells.length !== columns.length) {
    problems.push({
      path: '',
      rule: 'columns',
      message: `has ${cells.length} cells, and the first line has ${columns.length}`,
    });
    return { line, bytes: 0, problems };
  }
  let bytes = 0;
  const input: Record<string, unknown> = Object.create(null);
  columns.forEach(({ name, read }, i) => {
    const cell = cells[i] ?? null;
    bytes += cell?.length ?? 0;
    const value = read(cell, name, problems);
    if (value !== undefined) input[name] = value;
  });
  return problems.length > 0 ? { line, bytes, problems } : { line, bytes, input };
}
