/** From a record to the texts that get vectors. */
import { createHash } from 'node:crypto';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { cutText } from '../../../kernel/text.ts';

/** UTF-16 units of one record that are looked at; what is behind them is not found. */
export const MAX_TEXT = 200_000;

/** A part of a text, in UTF-16 units. */
export interface Passage {
  readonly starts: number;
  readonly ends: number;
  readonly text: string;
}

/** The text of one field. */
export interface FieldText {
  readonly field: string;
  readonly text: string;
}

/** The schema of files, which can be searched like records. */
export const fileSchemaName = 'File';
/** Among the source fields of files: what stands in them. */
export const contentField = 'content';

const isContent = (schemaName: string | undefined, field: string): boolean =>
  schemaName === fileSchemaName && field === contentField;

/** Fields that hold files, of those whose texts are searched; of files themselves, their content. */
export const fileFieldsOf = (
  schema: CompiledSchema | undefined,
  fields: readonly string[],
): readonly string[] =>
  fields.filter(
    (field) =>
      schema?.relations.get(field)?.model === fileSchemaName || isContent(schema?.name, field),
  );

/** Those whose texts stand in the record itself. */
export function plainFieldsOf(
  schema: CompiledSchema | undefined,
  fields: readonly string[],
): readonly string[] {
  const files = fileFieldsOf(schema, fields);
  return fields.filter((field) => !files.includes(field));
}

/** The ids of files that a field holds. */
export const filesIn = (
  schemaName: string,
  record: { readonly _id: string },
  field: string,
): readonly string[] =>
  isContent(schemaName, field) ? [record._id] : [...valuesAt(record, [field])];

/** The values of the fields in order, without markup, a line for each; empty ones are left out. */
export function fieldTexts(record: unknown, fields: readonly string[]): readonly FieldText[] {
  let left = MAX_TEXT;
  return fields.flatMap((field) => {
    const values = [...valuesAt(record, field.split('.'))].map((value) => plainText(value));
    const text = cutText(values.filter((value) => value !== '').join('\n'), Math.max(0, left));
    left -= text.length + 1;
    return text === '' ? [] : [{ field, text }];
  });
}

export const joinedText = (fields: readonly FieldText[]): string =>
  fields.map(({ text }) => text).join('\n');

export const textOf = (record: unknown, fields: readonly string[]): string =>
  joinedText(fieldTexts(record, fields));

/** The texts at a path; lists on the way, and at its end, stand for their elements. */
function* valuesAt(value: unknown, [step, ...rest]: readonly string[]): Generator<string> {
  if (Array.isArray(value)) {
    for (const item of value) yield* valuesAt(item, step === undefined ? [] : [step, ...rest]);
  } else if (step === undefined) {
    if (typeof value === 'string') yield value;
  } else if (typeof value === 'object' && value !== null && Object.hasOwn(value, step)) {
    yield* valuesAt(Reflect.get(value, step), rest);
  }
}

const tags = /<[a-zA-Z/!][^<>]*>/g;
const entities: ReadonlyMap<string, string> = new Map([
  ['&amp;', '&'],
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&quot;', '"'],
  ['&#39;', "'"],
  ['&nbsp;', ' '],
]);

/** One form for all ways to write the same, and words instead of markup. */
function plainText(text: string): string {
  const bare = text.includes('<') ? text.replaceAll(tags, ' ') : text;
  const read = bare.includes('&')
    ? bare.replaceAll(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (entity) => entities.get(entity) ?? entity)
    : bare;
  return read.normalize('NFC').trim();
}

/** Equal for equal texts. */
export const digestOf = (text: string): Buffer =>
  createHash('sha256').update(text).digest().subarray(0, 16);

/** A text as passages of at most `length`, cut between words where there are any; a tenth of each is in the next one too. */
export function passagesOf(text: string, length: number): readonly Passage[] {
  const passages: Passage[] = [];
  const overlap = Math.floor(length / 10);
  for (let starts = 0; starts < text.length; ) {
    const ends = endOf(text, starts, length);
    passages.push({ starts, ends, text: text.slice(starts, ends) });
    if (ends === text.length) break;
    starts = afterSpace(text, ends - overlap, ends);
  }
  return passages.filter((passage) => passage.text.trim() !== '');
}

/** Where a passage that begins at `starts` ends: behind the last space of its second half, if there is one. */
function endOf(text: string, starts: number, length: number): number {
  const most = starts + length;
  if (most >= text.length) return text.length;
  for (let at = most; at > starts + length / 2; at--) if (isSpace(text, at - 1)) return at;
  return starts + cutText(text.slice(starts, most), length - 1).length;
}

/** The first place behind a space between two places, or the first of them. */
function afterSpace(text: string, from: number, to: number): number {
  for (let at = from; at < to; at++) if (isSpace(text, at - 1)) return at;
  return text.slice(0, from).isWellFormed() ? from : from + 1;
}

const isSpace = (text: string, at: number): boolean => {
  const unit = text.charCodeAt(at);
  return unit === 32 || (unit >= 9 && unit <= 13);
};
