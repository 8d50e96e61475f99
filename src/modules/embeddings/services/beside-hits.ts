/** What is answered beside hits: marked words, and counts by the values of fields. Both of what the caller may see alone. */
import { all, type Condition, fieldTest, literal } from '../../../data/conditions/condition.ts';
import { cutText } from '../../../kernel/text.ts';
import { MAX_RANKED, markEnd, markedTexts, markStart, rankedWords } from '../queries/words.ts';
import type { SearchParts, SearchRequest } from './search-request.ts';
import { fieldTexts, fileFieldsOf } from './texts.ts';
import { languageOf, parseWords, sayQuery, weightsOf, withSpellings } from './words.ts';

type Document = Readonly<Record<string, unknown>>;
/** By field, HTML. */
export type Highlights = Readonly<Record<string, string>>;

/** Hits that get marks, and characters of a text that are looked at for them. */
const MAX_MARKED = 50;
const MAX_TEXT = 20_000;

/** For each document, its fields that have the words; of fields that it shows, which are those that the caller may see. */
export async function highlightsOf(
  { database, schemas }: SearchParts,
  { generation, text, input }: SearchRequest,
  documents: readonly Document[],
): Promise<readonly Highlights[]> {
  const parsed = parseWords(text).map((list) => list.filter(({ negated }) => !negated));
  const spelled =
    input.typos === false ? undefined : await withSpellings(database, generation.id, parsed);
  const query = await sayQuery(database, generation, spelled ?? parsed);
  if (query === '') return documents.map(() => ({}));
  const files = fileFieldsOf(schemas.get(input.schemaName), generation.sourceFields);
  const fields = generation.sourceFields.filter((field) => !files.includes(field));
  const passages = documents.slice(0, MAX_MARKED).flatMap((document, at) =>
    fieldTexts(document, fields).map(({ field, text: own }) => ({
      at,
      field,
      language: languageOf(generation, field),
      text: cutText(own, MAX_TEXT).replaceAll(marks, ''),
    })),
  );
  const marked = await markedTexts(database, query, passages);
  const highlights: Record<string, string>[] = documents.map(() => ({}));
  passages.forEach(({ at, field }, n) => {
    const own = marked[n];
    const target = highlights[at];
    if (own && target) target[field] = htmlOf(own);
  });
  return highlights;
}

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
  const counted = byWords ? all(filter, amongIds(await matchingIds(parts, request))) : filter;
  const facets: Record<string, readonly FacetValue[]> = {};
  for (const field of new Set(input.facets)) {
    const json = await parts.records.aggregate(caller, input.schemaName, {
      filter: counted,
      groupBy: [field],
      values: [{ as: countName, function: 'count' }],
      sort: [`-${countName}`],
      limit: MAX_VALUES,
      ...(input.scope !== undefined && { scope: input.scope }),
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

const amongIds = (ids: readonly string[]): Condition =>
  fieldTest('_id', { kind: 'in', right: literal(ids) }, 'text');

/**
 * Records with the words; with words written nearly so when the caller may read none of these. What others may read alone
 * decides nothing: whether a word stands somewhere would follow from the counts.
 */
async function matchingIds(
  { database }: SearchParts,
  { generation, text, input, readable }: SearchRequest,
): Promise<readonly string[]> {
  const parsed = parseWords(text);
  const options = { generation, weights: weightsOf(generation), k: MAX_RANKED };
  const query = await sayQuery(database, generation, parsed);
  const exact = (await rankedWords(database, { ...options, query })).map(({ id }) => id);
  if (input.typos === false || (await readable.keep(exact, 1)).length > 0) return exact;
  const spelled = await withSpellings(database, generation.id, parsed);
  if (!spelled) return exact;
  const wider = await sayQuery(database, generation, spelled);
  return (await rankedWords(database, { ...options, query: wider })).map(({ id }) => id);
}
