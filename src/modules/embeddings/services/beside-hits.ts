/** What is answered beside hits: marked words, and counts by the values of fields. Both of what the caller may see alone. */
import { relocated } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { markEnd, markedContents, markedTexts, markStart } from '../queries/contents.ts';
import { MAX_RANKED, type WordsQuery } from '../queries/words.ts';
import { rankedFor } from './rankings.ts';
import { offeredOf, type SearchParts, type SearchRequest } from './search-request.ts';
import { contentField, fieldTexts, fileFieldsOf, plainFieldsOf } from './texts.ts';
import { keywordQuery, languageOf, parseWords, withSpellings } from './words.ts';

type Document = Readonly<Record<string, unknown>>;
/** By field, HTML. */
export type Highlights = Readonly<Record<string, string>>;

/** Hits that get marks, and characters of a text that are looked at for them. */
const MAX_MARKED = 50;
const MAX_TEXT = 20_000;

/** A hit with its record as the caller sees it. */
interface MarkedHit {
  readonly id: string;
  readonly document: Document;
}

/** For each hit, its fields that have the words; of fields that it shows, which are those that the caller may see. */
export async function highlightsOf(
  { database, schemas }: SearchParts,
  request: SearchRequest,
  hits: readonly MarkedHit[],
): Promise<readonly Highlights[]> {
  const { generation, text, input } = request;
  const parsed = parseWords(text).map((list) => list.filter(({ negated }) => !negated));
  const spelled =
    input.typos === false ? undefined : await withSpellings(database, request, parsed);
  const words = spelled ?? parsed;
  const query = await keywordQuery(database, generation, words);
  if (query === '') return hits.map(() => ({}));
  const schema = schemas.get(input.schemaName);
  const fields = plainFieldsOf(schema, generation.sourceFields);
  const some = hits.slice(0, MAX_MARKED);
  const passages = some.flatMap(({ document }, at) =>
    fieldTexts(document, fields).map(({ field, text: own }) => ({
      at,
      field,
      language: languageOf(generation, field),
      text: cutText(own, MAX_TEXT).replaceAll(marks, ''),
    })),
  );
  const marked = await markedTexts(database, query, passages);
  const highlights: Record<string, string>[] = hits.map(() => ({}));
  passages.forEach(({ at, field }, n) => {
    const own = marked[n];
    const target = highlights[at];
    if (own && target) target[field] = htmlOf(own);
  });
  const [file, ...others] = fileFieldsOf(schema, generation.sourceFields);
  // Of several fields, which file has the words is not known.
  if (file === undefined || others.length > 0) return highlights;
  const contents = await markedContents(database, generation.id, {
    ...{ query, language: languageOf(generation, file) },
    ids: some.map(({ id }) => id),
    beginnings: beginningsOf(words),
  });
  some.forEach(({ id, document }, at) => {
    const own = contents.get(id);
    const target = highlights[at];
    const isVisible =
      input.select === undefined || file === contentField || Object.hasOwn(document, file);
    if (own && target && isVisible) target[file] = htmlOf(own);
  });
  return highlights;
}

/** Characters of a word with which its other forms begin too, at least. */
const SHORTEST_BEGINNING = 3;

const beginningsOf = (query: WordsQuery): readonly string[] =>
  query
    .flat()
    .flatMap(({ words }) => words.flatMap((one) => one.toLowerCase().match(letters) ?? []))
    .map((word) => word.slice(0, Math.max(SHORTEST_BEGINNING, word.length - 3)));

const letters = /[\p{L}\p{N}]+/gu;
const marks = /[\uE000\uE001]/g;
const special = /[&<>"']/g;

const htmlOf = (marked: string): string =>
  marked
    .replaceAll(special, (char) => `&#${char.charCodeAt(0)};`)
    .replaceAll(markStart, '<mark>')
    .replaceAll(markEnd, '</mark>');

export interface FacetValue {
  readonly value: unknown;
  readonly count: number;
}

/** Values of one facet: the most frequent. */
const MAX_VALUES = 50;

/**
 * How many records have which value: of those that have the words, or in an order by meaning, which has all records in it,
 * of all that fit the filter.
 */
export async function facetsOf(
  parts: SearchParts,
  request: SearchRequest,
  byWords: boolean,
): Promise<Readonly<Record<string, readonly FacetValue[]>>> {
  const { caller, input, filter } = request;
  const among = byWords ? await matchingIds(parts, request) : undefined;
  const facets: Record<string, readonly FacetValue[]> = {};
  for (const field of new Set(input.facets)) {
    const options = {
      filter,
      ...(among && { among }),
      groupBy: [field],
      values: [{ as: countName, function: 'count' as const }],
      sort: [`-${countName}`],
      limit: MAX_VALUES,
      ...offeredOf(request.generation),
      ...(input.scope !== undefined && { scope: input.scope }),
    };
    const place = `facets.${input.facets?.indexOf(field)}`;
    const json = await parts.records
      .aggregate(caller, input.schemaName, options)
      .catch((error: unknown) => {
        throw relocated(error, (path) => path.replace(/^aggregate\.groupBy\.0\b/, place));
      });
    const groups = JSON.parse(json) as readonly Document[];
    facets[field] = groups.map((group) => ({
      value: group[field] ?? null,
      count: Number(group[countName]),
    }));
  }
  return facets;
}

const countName = 'recordsWithIt';

/**
 * Records with the words; with words written nearly so when the caller may read none of these. What others may read alone
 * decides nothing: whether a word stands somewhere would follow from the counts.
 */
async function matchingIds(parts: SearchParts, request: SearchRequest): Promise<readonly string[]> {
  const { database } = parts;
  const { generation, text, input, readable } = request;
  const parsed = parseWords(text);
  // Where very many records have a word, not all of them are looked at: those of somebody with few are.
  const within = await request.few();
  const idsOf = async (words: WordsQuery): Promise<readonly string[]> => {
    const query = await keywordQuery(database, generation, words);
    const found = await rankedFor(parts, request, { query, k: MAX_RANKED, within });
    return found.map(({ id }) => id);
  };
  const exact = await idsOf(parsed);
  if (input.typos === false || (await readable.keep(exact, 1)).length > 0) return exact;
  const spelled = await withSpellings(database, request, parsed);
  return spelled ? idsOf(spelled) : exact;
}
