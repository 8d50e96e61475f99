/**
 * The SQL of what stands in files, kept beside the words of their records so that a search can show where it has found
 * them. Places in texts count UTF-16 units, characters of PostgreSQL are code points: behind each one that takes two units
 * stands a filler, so that both count alike.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

/** Private characters: marks around words that were found, and the filler. No text that is kept has them. */
export const markStart = '\uE000';
export const markEnd = '\uE001';
const filler = '\uE002';
const reserved = /[\uE000-\uE002]/g;
const wide = /[\u{10000}-\u{10FFFF}]/gu;

/** A text in which places can be counted by PostgreSQL. */
export const countable = (text: string): string =>
  text.replaceAll(reserved, ' ').replaceAll(wide, `$&${filler}`);

const withoutFiller = (text: string): string => text.replaceAll(filler, '');

/** The beginning of what stands in the files of a record; empty where nothing is kept. */
export async function contentOf(
  database: Queryable,
  generationId: string,
  recordId: string,
  length: number,
): Promise<string> {
  const { rows } = await database.query<{ text: string }>(sql`
    select coalesce(left(content, ${length}::integer), '') as text from penstock.embeddings_words
    where generation_id = ${generationId}::uuid and record_id = ${recordId}`);
  return withoutFiller(rows[0]?.text ?? '');
}

/** A part of what stands in the files of a record, in UTF-16 units. */
export interface Part {
  readonly id: string;
  readonly starts: number;
  readonly length: number;
}

/** Such parts by record; those of which nothing is kept are left out. */
export async function contentParts(
  database: Queryable,
  generationId: string,
  parts: readonly Part[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await database.query<{ id: string; text: string }>(sql`
    select p.id, substring(w.content from p.starts + 1 for p.length) as text
    from unnest(${parts.map(({ id }) => id)}::text[], ${parts.map(({ starts }) => starts)}::integer[],
      ${parts.map(({ length }) => length)}::integer[]) p(id, starts, length)
    join penstock.embeddings_words w on w.generation_id = ${generationId}::uuid and w.record_id = p.id
    where w.content <> ''`);
  return new Map(rows.map(({ id, text }) => [id, withoutFiller(text)]));
}

/** Characters of a text that is shown whole. */
const SHORT_TEXT = 200;
const marks = `StartSel=${markStart}, StopSel=${markEnd}`;
const whole = `${marks}, HighlightAll=true`;
const fragments = `${marks}, MaxFragments=2, MaxWords=30, MinWords=10`;

interface Passage {
  readonly language: string;
  readonly text: string;
}

const ifMarked = (text: string): string => (text.includes(markStart) ? text : '');

/** The parts of texts with the words, marked; for each text one, empty when it has none of them. */
export async function markedTexts(
  database: Queryable,
  query: string,
  passages: readonly Passage[],
): Promise<readonly string[]> {
  const { rows } = await database.query<{ marked: string }>(sql`
    select ts_headline(p.language::regconfig, p.text, ${query}::tsquery,
      case when length(p.text) <= ${SHORT_TEXT}::integer then ${whole} else ${fragments} end) as marked
    from unnest(${passages.map(({ language }) => language)}::text[], ${passages.map(({ text }) => text)}::text[])
      with ordinality p(language, text, n) order by p.n`);
  return rows.map(({ marked }) => ifMarked(marked));
}

/** Characters of a file that are looked at for marks, and how many of them stand before the first word. */
const WINDOW = 20_000;
const BEFORE = 300;

interface MarkedContents {
  readonly query: string;
  readonly language: string;
  readonly ids: readonly string[];
  /** Beginnings of words, in small letters: where the first of them stands, the words are looked for. */
  readonly beginnings: readonly string[];
}

/** The same of what stands in files, by record: around the first place at which one of the words may stand. */
export async function markedContents(
  database: Queryable,
  generationId: string,
  { query, language, ids, beginnings }: MarkedContents,
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await database.query<{ id: string; marked: string }>(sql`
    select f.id, ts_headline(${language}::regconfig, f.part, ${query}::tsquery,
      case when length(f.part) <= ${SHORT_TEXT}::integer then ${whole} else ${fragments} end) as marked
    from (
      select w.record_id as id, replace(substring(w.content from greatest(1, coalesce(b.place, 1) - ${BEFORE}::integer)
        for ${WINDOW}::integer), ${filler}, '') as part
      from penstock.embeddings_words w,
      lateral (select lower(w.content) as small offset 0) l,
      lateral (select min(nullif(strpos(l.small, n.beginning), 0)) as place from unnest(${beginnings}::text[]) n(beginning)) b
      where w.generation_id = ${generationId}::uuid and w.record_id = any(${ids}::text[]) and w.content <> '') f`);
  return new Map(rows.map(({ id, marked }) => [id, ifMarked(marked)]));
}
