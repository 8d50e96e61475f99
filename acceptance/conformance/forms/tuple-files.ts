/** Tuples of OpenFGA in files of their own, as its command line takes them: YAML, JSON, JSON lines and CSV. */
import { readFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { parse as parseCsv } from 'csv-parse/sync';
import { parse as parseYaml } from 'yaml';

export interface OpenfgaTuple {
  readonly user: string;
  readonly relation: string;
  readonly object: string;
  readonly condition?: { readonly name: string; readonly context?: Record<string, unknown> };
}

/** Tuples that stand in the store, or in one of its tests, and in files that it names. */
export interface TupleSources {
  readonly tuples?: readonly OpenfgaTuple[] | null;
  readonly tuple_file?: string;
  readonly tuple_files?: readonly string[];
}

/** `file`: the store; the files that it names are found from there. */
export async function tuplesOf(
  { tuples, tuple_file, tuple_files = [] }: TupleSources,
  file: string,
): Promise<readonly OpenfgaTuple[]> {
  const files = [...(tuple_file === undefined ? [] : [tuple_file]), ...tuple_files];
  const read = await Promise.all(files.map((named) => tuplesIn(join(dirname(file), named))));
  return [...(tuples ?? []), ...read.flat()];
}

async function tuplesIn(file: string): Promise<readonly OpenfgaTuple[]> {
  const text = await readFile(file, 'utf8');
  switch (extname(file)) {
    case '.csv':
      return (parseCsv(text, { columns: true, skip_empty_lines: true, trim: true }) as Row[]).map(
        rowTuple,
      );
    case '.jsonl':
      return text
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map((line) => JSON.parse(line) as OpenfgaTuple);
    default:
      // JSON is YAML.
      return parseYaml(text) as readonly OpenfgaTuple[];
  }
}

type Row = Readonly<Record<string, string | undefined>>;

const rowTuple = (row: Row): OpenfgaTuple => ({
  user: `${row.user_type}:${row.user_id}${row.user_relation ? `#${row.user_relation}` : ''}`,
  relation: row.relation ?? '',
  object: `${row.object_type}:${row.object_id}`,
  ...(row.condition_name && {
    condition: {
      name: row.condition_name,
      ...(row.condition_context && { context: JSON.parse(row.condition_context) }),
    },
  }),
});
