/** What a search asks for, checked and filled in. */
import { all, type Condition, equals, not } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import type { Cursors } from '../../../data/records/page/keyset.ts';
import type { RankedOptions } from '../../../data/records/store.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { shortName } from '../../../data/schema/language/names.ts';
import { isRecordId } from '../../../data/schema/language/record-key.ts';
import { requireAuthority } from '../../../kernel/authority.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import { cutText, isStorable } from '../../../kernel/text.ts';
import { ofNoModule } from '../../storage/index.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { embeddingErrors } from '../errors.ts';
import { allConfigs, type ConfigRow, type GenerationRow } from '../queries/configs.ts';
import { contentOf } from '../queries/contents.ts';
import { MAX_RANKED } from '../queries/words.ts';
import type { VectorIndex } from '../scan/vector-index.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { type DepthHint, fewOf, type Readable } from './permitted.ts';
import { contentField, fileSchemaName, filesSearched, plainFieldsOf, textOf } from './texts.ts';

export type SearchMode = 'vector' | 'keyword' | 'hybrid';

export interface SearchInput {
  /** Who asks in the name of a user. */
  readonly operator?: Caller | undefined;
  readonly schemaName: string;
  readonly text?: string | undefined;
  /** Id of a record of the same schema: what is like it. */
  readonly documentId?: string | undefined;
  readonly targetField?: string | undefined;
  /** In the operator language. */
  readonly filter?: unknown;
  readonly limit?: number | undefined;
  /** More are not answered, whoever asks. */
  readonly maxHits?: number | undefined;
  readonly mode?: SearchMode | undefined;
  /** Where the model cannot be asked: search for words instead. */
  readonly fallback?: 'keyword' | undefined;
  readonly minScore?: number | undefined;
  /** False: words are searched as they are written. */
  readonly typos?: boolean | undefined;
  /** Marks the words that were found. */
  readonly highlight?: boolean | undefined;
  /** Fields whose values are counted. */
  readonly facets?: readonly string[] | undefined;
  readonly select?: readonly string[] | undefined;
  readonly populate?: readonly string[] | undefined;
  readonly scope?: string | undefined;
  /** Where an earlier page of the same search ended. */
  readonly cursor?: string | undefined;
  /** Of each value of this field the best record alone. */
  readonly groupBy?: string | undefined;
}

export interface IndexParts extends EmbeddingParts {
  readonly index: VectorIndex;
  readonly cursors: Cursors;
}

export interface SearchParts extends IndexParts {
  readonly hints: (key: string) => DepthHint;
}

/** A search with everything about it found out. */
export interface SearchRequest {
  readonly caller: Caller;
  readonly input: SearchInput;
  readonly generation: GenerationRow;
  readonly text: string;
  readonly limit: number;
  /** Hits with less are left out. */
  readonly minScore: number;
  readonly readable: Readable;
  /** The records that may be shown, where they are few; nothing where they are many, or everybody reads them. Asked once. */
  few(): Promise<readonly string[] | undefined>;
  /** The same for a search by words that very many records have: with a filter also where everybody reads them, and more are few. */
  own(): Promise<readonly string[] | undefined>;
  readonly hint: DepthHint;
  readonly filter: Condition;
  readonly usage: SearchUsage;
  /** Records that were read when they were found, as JSON. */
  readonly documents: ReadonlyMap<string, string>;
}

/** What a search has asked of the model: noted while it goes on. */
export interface SearchUsage {
  /** The vector of its text was known. */
  cachedQuery: boolean;
  tokens: number;
}

/** Throws 400, 401, 403, 404 and 412. */
export async function requestOf(
  parts: SearchParts,
  caller: Caller,
  input: SearchInput,
): Promise<SearchRequest> {
  const config = parts.config();
  if (!config.enabled) throw embeddingErrors.EMBEDDINGS_DISABLED();
  const limit = limitOf(config, input);
  const filter = filterOf(input);
  const { configs, reads } = await readableConfigs(parts, caller, input);
  const { current } = chosenConfig(configs, input);
  requireFileAuthority(parts, caller, input, current);
  requireGroup(parts, input);
  const documents = new Map<string, string>();
  const readable = readableBy(parts, { caller, input, filter, generation: current, documents });
  const text = await textToSearch(parts, { caller, input, generation: current });
  const like = [current.id, callerKey(caller), input.scope ?? '', input.filter ?? {}];
  const hint = parts.hints(JSON.stringify(like));
  const usage = { cachedQuery: false, tokens: 0 };
  // Only scores of meaning can be compared from search to search.
  const usual = (input.mode ?? 'vector') === 'vector' ? config.search.minScore : 0;
  const { minScore = usual } = input;
  return {
    ...{ caller, input, generation: current, text, limit, minScore },
    ...{ readable, hint, filter, usage, documents },
    few: once(async () => (reads === 'all' ? undefined : fewOf(readable))),
    own: once(async () =>
      reads === 'all' && input.filter === undefined ? undefined : fewOf(readable, MAX_RANKED),
    ),
  };
}

/** Throws 403 for an operator whose credential does not reach the files whose texts would be searched. */
function requireFileAuthority(
  { schemas }: Pick<SearchParts, 'schemas'>,
  caller: Caller,
  { operator = caller, schemaName }: SearchInput,
  { sourceFields }: GenerationRow,
): void {
  if (operator.kind !== 'admin') return;
  requireAuthority(operator, ...filesSearched(schemas.get(schemaName), sourceFields));
}

function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined;
  return () => {
    asked ??= ask();
    return asked;
  };
}

/** Throws 400 for more than are answered at most. */
function limitOf(
  { search: { defaultLimit, clampLimit } }: EmbeddingsConfig,
  { limit = defaultLimit, maxHits = limit }: SearchInput,
): number {
  if (limit <= maxHits) return limit;
  if (clampLimit) return maxHits;
  throw invalid('limit', 'maximum', `must be between 1 and ${maxHits}`);
}

/** Throws 400 for a group by something that has no values to compare, or together with a cursor. */
function requireGroup(
  { schemas }: Pick<SearchParts, 'schemas'>,
  { schemaName, groupBy, cursor }: SearchInput,
): void {
  if (groupBy === undefined) return;
  if (cursor !== undefined) throw invalid('cursor', 'groupBy', 'goes through records, not groups');
  if (!schemas.get(schemaName)?.sortable.has(groupBy))
    throw invalid('groupBy', 'field', 'must be a field that holds one text, number, date or flag');
}

/** What is like a record is not that record; and what modules keep for themselves are no files for anybody else. */
function filterOf({ schemaName, filter = {}, documentId }: SearchInput): Condition {
  const conditions = [
    parseFilter(filter, 'filter'),
    ...(documentId === undefined ? [] : [not(equals('_id', documentId, 'documentId'))]),
    ...(schemaName === fileSchemaName ? [ofNoModule] : []),
  ];
  const [only, ...more] = conditions;
  return only && more.length === 0 ? only : all(...conditions);
}

/** Files are offered to everybody who has signed in, each by its own permissions; with what stands in them, by those of contents. */
export const offeredOf = ({
  schemaName,
  sourceFields,
}: Pick<GenerationRow, 'schemaName' | 'sourceFields'>): Pick<RankedOptions, 'offered'> =>
  schemaName === fileSchemaName
    ? { offered: sourceFields.includes(contentField) ? 'content' : 'read' }
    : {};

/** The configurations of the schema, when the caller may read it at all: what there is to search is told to nobody else. */
async function readableConfigs(
  { records, schemas, database, files }: SearchParts,
  caller: Caller,
  { schemaName }: SearchInput,
): Promise<{ readonly configs: readonly ConfigRow[]; readonly reads: 'all' | 'some' }> {
  if (!schemas.get(schemaName)) throw schemaErrors.SCHEMA_NOT_FOUND();
  const areFiles = schemaName === fileSchemaName;
  if (areFiles && !files.areThere()) throw embeddingErrors.SCHEMA_NOT_SEARCHABLE();
  // An operator whose credential is for other modules is told so here.
  const isOffered = areFiles && caller.kind === 'user';
  const reads = isOffered ? 'some' : await records.readable(caller, schemaName);
  const configs = await allConfigs(database);
  return { configs: configs.filter((one) => one.schemaName === schemaName), reads };
}

function chosenConfig(configs: readonly ConfigRow[], { targetField }: SearchInput): ConfigRow {
  if (targetField !== undefined) {
    const named = configs.find((one) => one.targetField === targetField);
    if (!named && configs.length > 0)
      throw invalid(
        'targetField',
        'oneOf',
        `"${shortName(targetField)}" is not one of ${namesOf(configs)}`,
      );
    if (!named) throw embeddingErrors.SCHEMA_NOT_SEARCHABLE();
    if (!named.enabled) throw embeddingErrors.CONFIG_DISABLED();
    return named;
  }
  const enabled = configs.filter((one) => one.enabled);
  const [only] = enabled;
  if (!only) throw embeddingErrors.SCHEMA_NOT_SEARCHABLE();
  if (enabled.length > 1)
    throw invalid('targetField', 'required', `name one of ${namesOf(enabled)}`);
  return only;
}

const namesOf = (configs: readonly ConfigRow[]): string =>
  configs.map(({ targetField }) => targetField).join(', ');

interface ReadableParts {
  readonly caller: Caller;
  readonly input: SearchInput;
  readonly filter: Condition;
  readonly generation: GenerationRow;
  /** Records that are read with the look at whether they may be shown. */
  readonly documents: Map<string, string>;
}

/** Which records a search is about. */
export const rowsOf = (
  { scope }: SearchInput,
  filter: Condition,
  generation: GenerationRow,
): Pick<RankedOptions, 'filter' | 'looksInto' | 'scope' | 'offered'> => ({
  filter,
  looksInto: recordFieldsOf(generation),
  ...offeredOf(generation),
  ...(scope !== undefined && { scope }),
});

/** What is in a file is no field of its record. */
const recordFieldsOf = ({ schemaName, sourceFields }: GenerationRow): readonly string[] =>
  schemaName === fileSchemaName
    ? sourceFields.filter((field) => field !== contentField)
    : sourceFields;

/** What of them is answered. */
export const viewOf = ({
  select,
  populate,
}: SearchInput): Pick<RankedOptions, 'select' | 'populate'> => ({
  ...(select && { select }),
  ...(populate && { populate }),
});

/** More records than this are read when it is known which of them are answered. */
const MAX_READ_ALONG = 60;

/** The records that are found are those that are answered. */
const isPlain = ({ mode, groupBy, cursor }: SearchInput): boolean =>
  mode !== 'hybrid' && groupBy === undefined && cursor === undefined;

function readableBy(
  { records }: SearchParts,
  { caller, input, filter, generation, documents }: ReadableParts,
): Readable {
  const { schemaName } = input;
  const rows = rowsOf(input, filter, generation);
  return {
    async keep(ids, limit) {
      const readsAlong = isPlain(input) && limit <= MAX_READ_ALONG;
      const view = readsAlong ? viewOf(input) : { idsOnly: true };
      const kept = await records.ranked(caller, schemaName, { ...rows, ...view, ids, limit });
      if (readsAlong) for (const { id, json } of kept) documents.set(id, json);
      return kept.map(({ id }) => id);
    },
    some: async (limit) => records.matching(caller, schemaName, { ...rows, limit }),
  };
}

/** Throws 400 for a text that is missing or too long, and 404 for a record that the caller may not read. */
async function textToSearch(
  parts: SearchParts,
  { caller, input, generation }: Pick<ReadableParts, 'caller' | 'input' | 'generation'>,
): Promise<string> {
  const { config, schemas } = parts;
  const max = config().security.maxEmbedInputBytes;
  if (input.documentId !== undefined) {
    const fields = plainFieldsOf(schemas.get(input.schemaName), generation.sourceFields);
    const text = textOf(await documentOf(parts, { caller, input, generation }), fields);
    const length = Math.floor(max / 4);
    const content =
      fields.length < generation.sourceFields.length
        ? await contentOf(parts.database, generation.id, input.documentId, length)
        : '';
    return cutText([text, content].filter((one) => one !== '').join('\n'), length);
  }
  const text = (input.text ?? '').normalize('NFC').trim();
  if (text === '') throw invalid('text', 'required', 'must say what to search for');
  if (!isStorable(text)) throw invalid('text', 'format', 'must be text');
  if (Buffer.byteLength(text) > max)
    throw invalid('text', 'maxLength', `must be at most ${max} bytes`);
  return text;
}

/** The record that others are to be like. Throws 404. */
async function documentOf(
  { records, schemas }: SearchParts,
  { caller, input, generation }: Pick<ReadableParts, 'caller' | 'input' | 'generation'>,
): Promise<unknown> {
  const { schemaName, documentId = '', scope } = input;
  if (schemaName !== fileSchemaName) {
    const options = scope === undefined ? {} : { scope };
    return JSON.parse((await records.get(caller, schemaName, documentId, options)).json);
  }
  const rows = rowsOf(input, ofNoModule, generation);
  const isId = isRecordId(schemas.get(schemaName)?.key ?? [], documentId);
  const ids = isId ? [documentId] : [];
  const [found] = await records.ranked(caller, schemaName, { ...rows, ids, limit: 1 });
  if (!found) throw recordErrors.RECORD_NOT_FOUND();
  return JSON.parse(found.json);
}
