/** From a record to the texts that get vectors. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { AuthorityObject } from '../../../kernel/authority.ts';
import { cutText } from '../../../kernel/text.ts';

/** UTF-16 units of one record that are looked at; what is behind them is not found. */
export const MAX_TEXT = 200_000;

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

/** What of a search is of another module than its schema: what stands in files is as closed as the files themselves. */
export const filesSearched = (
  schema: CompiledSchema | undefined,
  fields: readonly string[],
): readonly AuthorityObject[] =>
  fileFieldsOf(schema, fields).length === 0 ? [] : [{ kind: 'module', module: 'storage' }];

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
