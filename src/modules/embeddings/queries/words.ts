/** The SQL of searching words. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { markOf } from './vectors.ts';

/** Records that have the words which are ranked; of more, some are never looked at. */
export const MAX_RANKED = 20_000;

interface WordsQuery {
  readonly generationId: string;
  readonly language: string;
  readonly text: string;
  readonly k: number;
  /** Only these records. */
  readonly within?: readonly string[];
  readonly limitMs?: number;
}

export interface RankedWords {
  readonly id: string;
  /** 0 to 1. */
  readonly score: number;
}

/** The records in which the words weigh most. Hits are found first, then put in order. */
export async function rankedWords(
  database: Queryable,
  { generationId, language, text, k, within }: WordsQuery,
): Promise<readonly RankedWords[]> {
  const statement = sql`
    with q as materialized (select websearch_to_tsquery(${language}::regconfig, ${text}) as words),
    hits as materialized (
      select w.record_id, w.words from penstock.embeddings_words w
      where w.words @@ (select (quote_literal(${markOf(generationId)}::text))::tsquery && q.words from q)
        and w.generation_id = ${generationId}::uuid
        and (${within ?? null}::text[] is null or w.record_id = any(${within ?? null}::text[]))
      limit ${MAX_RANKED}::integer)
    select h.record_id as id, ts_rank_cd(h.words, q.words, 33)::double precision as score from hits h, q
    where numnode(q.words) > 0
    order by score desc, h.record_id limit ${k}::integer`;
  const { rows } = await database.query<RankedWords>(statement);
  return rows;
}
