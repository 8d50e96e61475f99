/**
 * What a field is in a cell of a CSV file. Nested objects, lists, vectors and free
 * JSON are JSON text; everything else is as in a record. An empty cell is null and
 * a quoted empty one (`""`) is empty text.
 */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Field } from '../../../../data/schema/language/field.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { invalidValueProblem } from '../../../../kernel/operations/invalid-value.ts';

/** The text of a value of a record; `undefined`: the cell is empty. */
export type WriteCell = (value: unknown) => string | undefined;

/** A cell as the parser answers it: null when it is empty and not quoted. */
export type Cell = string | null;

/** The value of a cell; `undefined`: the row says nothing about the field. */
export type ReadCell = (cell: Cell, place: string, problems: Problem[]) => unknown;

const isJson = (field: Field | undefined): boolean =>
  field !== undefined &&
  (field.kind === 'json' ||
    field.kind === 'object' ||
    field.kind === 'array' ||
    field.kind === 'vector');

/** Spreadsheets run what begins like this, also in the wide forms of East Asian keyboards (CWE-1236). */
const formula = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

/** What these hold is never text that somebody wrote; ids and relations of tables of others may be. */
const noTexts: ReadonlySet<string | undefined> = new Set(['number', 'boolean', 'date']);

/** `escapeFormulas` puts an apostrophe in front of text that a spreadsheet would run. */
export function cellWriter(
  { tree }: CompiledSchema,
  name: string,
  escapeFormulas: boolean,
): WriteCell {
  const field = tree.fields.get(name);
  const text: WriteCell = (value) =>
    value === null || value === undefined ? undefined : String(value);
  if (isJson(field))
    return (value) => (value === null || value === undefined ? undefined : JSON.stringify(value));
  if (noTexts.has(field?.kind) || !escapeFormulas) return text;
  return (value) => (typeof value === 'string' && formula.test(value) ? `'${value}` : text(value));
}

/** Where a required field has a cell that says nothing, its default stands in, as if the column was not there. */
export function cellReader({ tree }: CompiledSchema, name: string): ReadCell {
  const field = tree.fields.get(name);
  const nothing = field?.required ? undefined : null;
  const read = readerOf(field);
  return (cell, place, problems) => {
    if (cell === null || (cell === '' && field?.kind !== 'string')) return nothing;
    return read(cell, place, problems);
  };
}

type ReadText = (text: string, place: string, problems: Problem[]) => unknown;

function readerOf(field: Field | undefined): ReadText {
  if (isJson(field)) return readJson;
  if (field?.kind === 'number')
    return (text) => readNumber(text, field.storage === 'bigint' || field.storage === 'numeric');
  return field?.kind === 'boolean' ? readBoolean : (text) => text;
}

const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** What is no number stays text, and the validator says so. Digits that a double would lose stay too, where the column holds them. */
function readNumber(text: string, wide: boolean): unknown {
  const trimmed = text.trim();
  if (!number.test(trimmed)) return text;
  const value = Number(trimmed);
  return wide && String(value) !== trimmed ? trimmed : value;
}

const booleans: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
]);

const readBoolean: ReadText = (text) => booleans.get(text.trim().toLowerCase()) ?? text;

const readJson: ReadText = (text, place, problems) => {
  try {
    const value: unknown = JSON.parse(text);
    const refused = invalidValueProblem(value, place);
    if (!refused) return value;
    problems.push(refused);
  } catch {
    problems.push({ path: place, rule: 'json', message: 'must be JSON text' });
  }
  return undefined;
};
