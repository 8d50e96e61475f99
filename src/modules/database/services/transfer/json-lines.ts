/** JSON lines: one object per line. */

import type { RecordInput } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { automaticFields, shortName } from '../../../../data/schema/language/names.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { invalidValueProblem } from '../../../../kernel/operations/invalid-value.ts';
import { MAX_ROW_BYTES, NotUtf8Error, notRead, notUtf8, type ReadRow, textOf } from './rows.ts';

/** A line that is no object is a row that says so; the others are read on. */
export async function* readJsonLines(
  schema: CompiledSchema,
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<ReadRow> {
  let line = 0;
  try {
    for await (const text of linesOf(chunks)) {
      const row = rowOf(schema, text, ++line);
      if (row) yield row;
    }
  } catch (error) {
    if (error instanceof NotUtf8Error) yield { line: line + 1, bytes: 0, problems: [notUtf8] };
    else if (error instanceof LongLineError)
      yield { line: line + 1, bytes: 0, problems: [tooLong] };
    else throw error;
  }
}

class LongLineError extends Error {}

async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = '';
  for await (const text of textOf(chunks)) {
    const pieces = (rest + text).split('\n');
    rest = pieces.pop() ?? '';
    yield* pieces;
    if (rest.length > MAX_ROW_BYTES) throw new LongLineError();
  }
  yield rest;
}

const tooLong: Problem = {
  path: '',
  rule: 'maxLength',
  message: `is longer than ${MAX_ROW_BYTES} bytes${notRead}`,
};

/** Empty lines are none. */
function rowOf(schema: CompiledSchema, text: string, line: number): ReadRow | undefined {
  const json = line === 1 && text.startsWith('\ufeff') ? text.slice(1) : text;
  if (json.trim() === '') return undefined;
  const bytes = json.length;
  const value = parsed(json);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return {
      line,
      bytes,
      problems: [{ path: '', rule: 'json', message: 'must be a JSON object on one line' }],
    };
  const refused = invalidValueProblem(value, '');
  const problems = refused ? [refused] : unknownFields(schema, value);
  return problems.length > 0
    ? { line, bytes, problems }
    : { line, bytes, input: value as RecordInput };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const unknownFields = ({ tree, name }: CompiledSchema, value: object): Problem[] =>
  Object.keys(value)
    .filter((key) => !tree.fields.has(key) && !automaticFields.has(key))
    .map((key) => ({ path: shortName(key), rule: 'field', message: `is not a field of ${name}` }));
