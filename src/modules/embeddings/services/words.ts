/** What somebody searches for in words: read as in a search engine, and made up for where a word is written otherwise. */
import type { Database } from '../../../kernel/database/database.ts';
import type { GenerationRow } from '../queries/configs.ts';
import {
  alikeTerms,
  classes,
  ownTerms,
  textQuery,
  type WordsPart,
  type WordsQuery,
  type WordsRow,
  type WordsText,
} from '../queries/words.ts';
import { contentField, type FieldText, fileSchemaName, joinedText } from './texts.ts';

/** Parts of a search that are looked at. */
const MAX_PARTS = 32;
const tokens = /(-?)(?:"([^"]*)"|([^\s"]+))/gu;
const word = /[\p{L}\p{N}]+/gu;

/** Words, `"phrases"`, `-without`, `this or that`, and `beginnings*`. */
export function parseWords(text: string): WordsQuery {
  const lists: WordsPart[][] = [[]];
  let count = 0;
  for (const [, minus, phrase, plain] of text.matchAll(tokens)) {
    if (plain?.toLowerCase() === 'or' && minus === '') {
      lists.push([]);
      continue;
    }
    const part = partOf(phrase, plain, minus === '-');
    if (!part) continue;
    lists.at(-1)?.push(part);
    count += 1;
    if (count === MAX_PARTS) break;
  }
  return lists;
}

function partOf(
  phrase: string | undefined,
  plain: string | undefined,
  negated: boolean,
): WordsPart | undefined {
  const own = phrase ?? plain ?? '';
  const letters = own.match(word);
  if (!letters) return undefined;
  if (phrase !== undefined) return { kind: 'phrase', words: [phrase], negated };
  const [only] = letters;
  if (own.endsWith('*') && only !== undefined && letters.length === 1)
    return { kind: 'prefix', words: [only], negated };
  return { kind: 'word', words: [own], negated };
}

/** Shorter words are taken as they are; from a length on two letters may be wrong. */
const SHORTEST = 4;
const LONG = 6;
/** Other spellings of one word. */
const MAX_SPELLINGS = 20;

/** Whose words they may be. */
export interface WordsOwner {
  readonly generation: Pick<GenerationRow, 'id'>;
  /** The records that the caller may read, where they are few; nothing where they are many, or all. */
  few(): Promise<readonly string[] | undefined>;
}

/**
 * The same with words that are written nearly so. Nothing when there are none. Who may read few records gets those of
 * them alone: words of other texts could take the place of theirs, and so be known from what is not found.
 */
export async function withSpellings(
  database: Database,
  owner: WordsOwner,
  query: WordsQuery,
): Promise<WordsQuery | undefined> {
  let isOther = false;
  const other: WordsPart[][] = [];
  for (const list of query) {
    const parts: WordsPart[] = [];
    for (const part of list) {
      const words = await spellings(database, owner, part);
      isOther ||= words.length > part.words.length;
      parts.push({ ...part, words });
    }
    other.push(parts);
  }
  return isOther ? other : undefined;
}

async function spellings(
  database: Database,
  { generation: { id }, few }: WordsOwner,
  { kind, words, negated }: WordsPart,
): Promise<readonly string[]> {
  const term = words[0]?.toLowerCase().normalize('NFC') ?? '';
  if (kind !== 'word' || negated || term.length < SHORTEST || term.length > MAX_TERM) return words;
  const distance = term.length < LONG ? 1 : 2;
  const asked = { term, distance };
  const within = await few();
  const alike = within
    ? await ownTerms(database, id, asked, within)
    : await alikeTerms(database, id, asked);
  const near = alike
    .filter((one) => one !== term && one[0] === term[0])
    .map((one) => ({ one, distance: editDistance(one, term) }))
    .filter((one) => one.distance <= distance)
    .sort((a, b) => a.distance - b.distance || (a.one < b.one ? -1 : 1));
  return [...words, ...near.slice(0, MAX_SPELLINGS).map(({ one }) => one)];
}

/** Letters to be changed, added, left out, or to change places with their neighbour. */
export function editDistance(a: string, b: string): number {
  const rows: number[][] = Array.from({ length: a.length + 1 }, (_, i) => [i]);
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let j = 0; j <= b.length; j++) (rows[0] as number[])[j] = j;
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const isSwapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      (rows[i] as number[])[j] = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + same,
        isSwapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  return at(a.length, b.length);
}

/** Characters of a word, and words of one record, that may be written otherwise. */
const MAX_TERM = 32;
const MAX_TERMS = 5_000;
const termPattern = /\p{L}[\p{L}\p{N}]{3,31}/gu;

const optionsOf = ({
  language,
  fieldOptions,
}: Pick<GenerationRow, 'language' | 'fieldOptions'>) => {
  const weights = [...new Set(Object.values(fieldOptions).map(({ weight = 1 }) => weight))]
    .concat(1)
    .sort((a, b) => b - a);
  const distinct = [...new Set(weights)].slice(0, classes.length);
  return {
    distinct,
    of(field: string): Pick<WordsText, 'language' | 'weight'> {
      const own = fieldOptions[field];
      const place = distinct.indexOf(own?.weight ?? 1);
      return { language: own?.language ?? language, weight: classes[place] ?? 'D' };
    },
  };
};

type Searched = Pick<GenerationRow, 'language' | 'fieldOptions' | 'sourceFields'>;

/** How much words count by their class, from the lightest, as PostgreSQL takes them: at most 1. */
export function weightsOf(generation: Searched): readonly number[] {
  const { distinct } = optionsOf(generation);
  const heaviest = distinct[0] ?? 1;
  return classes.map((_, place) => (distinct[place] ?? 1) / heaviest).toReversed();
}

export const languageOf = (generation: Searched, field: string): string =>
  optionsOf(generation).of(field).language;

/** PostgreSQL takes `report-2024.pdf` for one word, and a path too. */
const withNameParts = ({ field, text }: FieldText): FieldText => ({
  field,
  text: field === contentField ? text : `${text} ${text.replaceAll(/[-._/]/g, ' ')}`,
});

interface TextsOfRecord {
  readonly id: string;
  readonly fields: readonly FieldText[];
  readonly content: string | null;
}

/** The words of a record, with texts of one language and weight together. */
export function wordsOf(
  generation: Searched & Pick<GenerationRow, 'schemaName'>,
  { id: recordId, fields, content }: TextsOfRecord,
): WordsRow {
  const options = optionsOf(generation);
  const kinds = new Map<string, FieldText[]>();
  const texts = generation.schemaName === fileSchemaName ? fields.map(withNameParts) : fields;
  for (const name of generation.sourceFields) {
    const key = JSON.stringify(options.of(name));
    const own = texts.filter(({ field }) => field === name);
    kinds.set(key, [...(kinds.get(key) ?? []), ...own]);
  }
  const text = joinedText(fields).toLowerCase();
  const terms = new Set<string>();
  for (const [term] of text.matchAll(termPattern)) {
    terms.add(term);
    if (terms.size === MAX_TERMS) break;
  }
  return {
    recordId,
    texts: [...kinds].map(([key, own]) => ({ ...JSON.parse(key), text: joinedText(own) })),
    terms: [...terms],
    content,
  };
}

/** For the languages of the texts. */
export const keywordQuery = (
  database: Database,
  generation: Searched,
  query: WordsQuery,
): Promise<string> => {
  const languages = generation.sourceFields.map((name) => languageOf(generation, name));
  return textQuery(database, [...new Set(languages)], query);
};
