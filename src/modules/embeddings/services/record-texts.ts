/** What of records is searched: the texts of their fields, and behind them those of their files. */
import { parseFilter } from '../../../data/conditions/parse.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { cutText } from '../../../kernel/text.ts';
import { isModuleContainer } from '../../storage/index.ts';
import { digestOf } from '../passages.ts';
import type { GenerationRow } from '../queries/configs.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import {
  type FieldText,
  fieldTexts,
  fileFieldsOf,
  fileSchemaName,
  filesIn,
  joinedText,
  MAX_TEXT,
  plainFieldsOf,
} from './texts.ts';

/** Files of one field that are read. */
const MAX_FILES = 10;

export interface RecordTexts {
  readonly id: string;
  readonly text: string;
  readonly fields: readonly FieldText[];
  /** What stands in its files; nothing where none are searched. */
  readonly content: string | null;
  readonly hash: Buffer;
}

/** Texts of those records that are there. Of a schema that is gone, or whose fields are, nothing is left to be found. */
export async function readTexts(
  { records, schemas, files }: EmbeddingParts,
  reader: Caller,
  { schemaName, sourceFields }: GenerationRow,
  ids: readonly string[],
): Promise<readonly RecordTexts[]> {
  const schema = schemas.get(schemaName);
  if (!schema) return [];
  const fileFields = fileFieldsOf(schema, sourceFields);
  const plainFields = plainFieldsOf(schema, sourceFields);
  const found = JSON.parse(
    await records.find(reader, schemaName, {
      filter: parseFilter({ _id: { $in: ids } }),
    }),
  ) as readonly SourceRecord[];
  const texts: RecordTexts[] = [];
  for (const record of found) {
    const fields: FieldText[] = [];
    const contents: FieldText[] = [];
    if (isSearched(schemaName, record)) {
      fields.push(...fieldTexts(record, plainFields));
      for (const field of fileFields)
        for (const id of filesIn(schemaName, record, field).slice(0, MAX_FILES))
          contents.push(...fieldTexts({ [field]: await files.of(id) }, [field]));
    }
    // Behind the others, whose places in the text of a record are told.
    const all = [...fields, ...contents];
    const text = cutText(joinedText(all), MAX_TEXT);
    const content = fileFields.length > 0 ? cutText(joinedText(contents), MAX_TEXT) : null;
    texts.push({ id: record._id, fields: all, content, text, hash: digestOf(text) });
  }
  return texts;
}

interface SourceRecord {
  readonly _id: string;
  /** Of files. */
  readonly container?: string;
}

/** What a module keeps for itself, such as the files of a conversation, is searched by nobody and sent to no provider. */
const isSearched = (schemaName: string, { container = '' }: SourceRecord): boolean =>
  schemaName !== fileSchemaName || !isModuleContainer(container);
