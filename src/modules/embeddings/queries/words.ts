/** The SQL of words: what is kept of texts, and how it is searched. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql, statementName } from '../../../kernel/database/sql.ts';
import type { GenerationRow } from './configs.ts';
import { countable } from './contents.ts';

/** Records that have the words which are ranked; of more, further ones when more are asked for. */
export const MAX_RANKED = 20_000;

/** The mark by which one index serves all generations; no word of a text looks like it. */
const markOf = (generationId: string): string => `#${generationId}`;

/** Classes of weight that PostgreSQL knows, from the heaviest. */
export const classes = ['A', 'B', 'C', 'D'] as const;
type WeightClass = (typeof classes)[number];

/** A text of a record, with what its fields have in common. */
export interface WordsText {
  readonly language: string;
  readonly weight: WeightClass;
  readonly text: string;
}

export interface WordsRow {
  readonly recordId: string;
  readonly texts: readonly WordsText[];
  /** Words as they are written, for those who write them otherwise. */
  readonly terms: readonly string[];
  /** What stands in its files. */
  readonly content: string | null;
}

/** Puts the words of these records in the place of those that they had. Who does holds the generation (`nextVersion`). */
export async function replaceWords(
  database: Queryable,
  generationId: string,
  { gone, rows }: { readonly gone: readonly string[]; readonly rows: readonly WordsRow[] },
): Promise<void> {
  const ids = [...gone, ...rows.map(({ recordId }) => recordId)];
  const { rows: before } = await database.query<{ terms: readonly string[] }>(sql`
    delete from penstock.embeddings_words
    where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) returning terms`);
  if (rows.length > 0) await insertWords(database, generationId, rows);
  await countTerms(
    database,
    generationId,
    differences(
      before.flatMap(({ terms }) => terms),
      rows.flatMap(({ terms }) => terms),
    ),
  );
}

async function insertWords(
  database: Queryable,
  generationId: string,
  rows: readonly WordsRow[],
): Promise<void> {
  // Each row has the same kinds of texts: those of its generation.
  const kinds = rows[0]?.texts ?? [];
  const parts = kinds.map(
    ({ language, weight }, at) =>
      ` || setweight(to_tsvector(${quoted(language)}::regconfig, w.t${at}), ${quoted(weight)})`,
  );
  const columns = kinds.map((_, at) => `t${at}`);
  const arrays = kinds.map((_, at) => `$${at + 6}::text[]`);
  await database.query({
    text: `insert into penstock.embeddings_words (generation_id, record_id, words, terms, content)
      select $1::uuid, w.id, array_to_tsvector(array[$2::text])${parts.join('')},
        array(select jsonb_array_elements_text(w.terms)), w.content
      from unnest(${['$3::text[]', '$4::jsonb[]', '$5::text[]', ...arrays].join()}) w(${['id', 'terms', 'content', ...columns].join()})`,
    values: [
      generationId,
      markOf(generationId),
      rows.map(({ recordId }) => recordId),
      rows.map(({ terms }) => JSON.stringify(terms)),
      rows.map(({ content }) => content && countable(content)),
      ...kinds.map((_, at) => rows.map(({ texts }) => texts[at]?.text ?? '')),
    ],
  });
}

/** How many more, or fewer, have each term; those that as many have as before are left out. */
function differences(
  before: readonly string[],
  after: readonly string[],
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const term of before) counts.set(term, (counts.get(term) ?? 0) - 1);
  for (const term of after) counts.set(term, (counts.get(term) ?? 0) + 1);
  return new Map([...counts].filter(([, count]) => count !== 0));
}

/** Names of languages and weights: from closed lists, never from a request as it came. */
const quoted = (name: string): string => {
  if (!/^[A-Za-z]+$/.test(name)) throw new Error(`${name} is no name of a language`);
  return `'${name}'`;
};

/** Pieces of three letters, by which words that are alike are found. */
export const piecesOf = (term: string): string[] => {
  const padded = `  ${term} `;
  return [
    ...new Set(Array.from({ length: padded.length - 2 }, (_, at) => padded.slice(at, at + 3))),
  ];
};

/** Notes in how many more records a term stands. What stands in none any more is forgotten with the last of them. */
async function countTerms(
  database: Queryable,
  generationId: string,
  changes: ReadonlyMap<string, number>,
): Promise<void> {
  const more = [...changes].filter(([, count]) => count > 0);
  const fewer = [...changes].filter(([, count]) => count < 0);
  if (more.length > 0)
    await database.query(sql`
      insert into penstock.embeddings_terms (generation_id, term, pieces, uses)
      select ${generationId}::uuid, t.term, array(select jsonb_array_elements_text(t.pieces)), t.uses
      from unnest(${more.map(([term]) => term)}::text[], ${more.map(([term]) => JSON.stringify(piecesOf(term)))}::jsonb[],
        ${more.map(([, count]) => count)}::integer[]) t(term, pieces, uses)
      on conflict (generation_id, term) do update set uses = penstock.embeddings_terms.uses + excluded.uses`);
  if (fewer.length === 0) return;
  const terms = fewer.map(([term]) => term);
  const counts = fewer.map(([, count]) => -count);
  await database.query(sql`
    update penstock.embeddings_terms t set uses = t.uses - f.count
    from unnest(${terms}::text[], ${counts}::integer[]) f(term, count)
    where t.generation_id = ${generationId}::uuid and t.term = f.term`);
  await database.query(sql`
    delete from penstock.embeddings_terms
    where generation_id = ${generationId}::uuid and term = any(${terms}::text[]) and uses <= 0`);
}

/** Candidates for a word that was written otherwise: of all texts, and of the texts of some records. */
const MAX_ALIKE = 200;
const MAX_OWN = 5_000;

interface AlikeQuery {
  readonly term: string;
  /** By how many letters it may be longer or shorter. */
  readonly distance: number;
}

/** Words of these records that begin with the same letter and are about as long. */
export async function ownTerms(
  database: Queryable,
  generationId: string,
  { term, distance }: AlikeQuery,
  within: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await database.query<{ term: string }>(sql`
    select distinct t.term from penstock.embeddings_words w cross join unnest(w.terms) t(term)
    where w.generation_id = ${generationId}::uuid and w.record_id = any(${within}::text[])
      and starts_with(t.term, ${term.slice(0, 1)})
      and length(t.term) between ${term.length - distance}::integer and ${term.length + distance}::integer
    order by t.term limit ${MAX_OWN}::integer`);
  return rows.map((row) => row.term);
}

/** Words of the texts that share pieces with one, those that share most first. */
export async function alikeTerms(
  database: Queryable,
  generationId: string,
  { term, distance }: AlikeQuery,
): Promise<readonly string[]> {
  const pieces = piecesOf(term);
  const { rows } = await database.query<{ term: string }>(sql`
    select term from penstock.embeddings_terms
    where generation_id = ${generationId}::uuid and pieces && ${pieces}::text[]
      and length(term) between ${term.length - distance}::integer and ${term.length + distance}::integer
    order by (select count(*) from unnest(pieces) p where p = any(${pieces}::text[])) desc, term
    limit ${MAX_ALIKE}::integer`);
  return rows.map((row) => row.term);
}

/** One part of what somebody searches for; `words`: any of these. */
export interface WordsPart {
  readonly kind: 'word' | 'prefix' | 'phrase';
  readonly words: readonly string[];
  readonly negated: boolean;
}

/** Any of the lists, of which all parts. */
export type WordsQuery = readonly (readonly WordsPart[])[];

const functions = {
  word: 'plainto_tsquery',
  phrase: 'phraseto_tsquery',
  prefix: 'to_tsquery',
} as const;

/** What is searched for as PostgreSQL says it, in each language of the texts; empty when nothing is. */
export async function textQuery(
  database: Queryable,
  languages: readonly string[],
  query: WordsQuery,
): Promise<string> {
  const values: string[] = [];
  const partText = ({ kind, words, negated }: WordsPart): string => {
    const each = words.flatMap((word) => {
      values.push(kind === 'prefix' ? `${word}:*` : word);
      return languages.map(
        (name) => `${functions[kind]}(${quoted(name)}::regconfig, $${values.length})`,
      );
    });
    return `${negated ? '!!' : ''}(${each.join(' || ')})`;
  };
  const lists = query.filter((list) => list.length > 0);
  if (lists.length === 0) return '';
  const text = lists.map((list) => `(${list.map(partText).join(' && ')})`).join(' || ');
  const { rows } = await database.query<{ query: string }>({
    text: `select (${text})::text as query`,
    values,
  });
  return rows[0]?.query ?? '';
}

interface RankedQuery {
  readonly generation: Pick<GenerationRow, 'id'>;
  /** From `textQuery`. */
  readonly query: string;
  /** How much words count, from the lightest class. */
  readonly weights: readonly number[];
  readonly k: number;
  /** Only these records. */
  readonly within?: readonly string[];
}

export interface RankedWord {
  readonly id: string;
  /** 0 to 1. */
  readonly score: number;
}

export interface RankedWords {
  readonly ranked: readonly RankedWord[];
  /** Other records have the words too: which of them were looked at is by chance. */
  readonly more: boolean;
}

/** The records in which the words weigh most. Hits are found first, then put in order. */
export async function rankedWords(
  database: Queryable,
  { generation, query, weights, k, within }: RankedQuery,
): Promise<RankedWords> {
  if (query === '') return { ranked: [], more: false };
  const max = Math.max(MAX_RANKED, k);
  // Two statements: a plan that serves both compares every record that has the words with every id.
  const among = within ? 'and w.record_id = any($7::text[])' : '';
  const text = `with hits as materialized (
      select w.record_id, w.words from penstock.embeddings_words w
      where w.words @@ ((quote_literal($1::text))::tsquery && $2::tsquery) and w.generation_id = $3::uuid ${among}
      limit $4::integer + 1)
    select r.id, r.score, (select count(*) from hits)::integer as hits from (
      select h.record_id as id, ts_rank_cd($5::real[], h.words, $2::tsquery, 33)::double precision as score
      from (select * from hits limit $4::integer) h order by score desc, h.record_id limit $6::integer) r
    order by r.score desc, r.id`;
  const values = [markOf(generation.id), query, generation.id, max, weights, k];
  const { rows } = await database.query<RankedWord & { hits: number }>({
    text,
    name: statementName(text),
    values: within ? [...values, within] : values,
  });
  const ranked = rows.map(({ id, score }) => ({ id, score }));
  return { ranked, more: (rows[0]?.hits ?? 0) > max };
}
