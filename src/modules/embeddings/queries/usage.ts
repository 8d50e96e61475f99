/** The SQL of what providers were sent. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';

export async function tokensOfToday(database: Queryable, provider: string): Promise<number> {
  const { rows } = await database.query<{ tokens: string }>(shortSql`
    select tokens from penstock.embeddings_usage
    where day = (now() at time zone 'utc')::date and provider = ${provider}`);
  return Number(rows[0]?.tokens ?? 0);
}

export async function addUsage(
  database: Queryable,
  provider: string,
  { texts, tokens }: { readonly texts: number; readonly tokens: number },
): Promise<void> {
  await database.query(shortSql`
    insert into penstock.embeddings_usage (day, provider, requests, texts, tokens)
    values ((now() at time zone 'utc')::date, ${provider}, 1, ${texts}::bigint, ${tokens}::bigint)
    on conflict (day, provider) do update set requests = penstock.embeddings_usage.requests + 1,
      texts = penstock.embeddings_usage.texts + excluded.texts, tokens = penstock.embeddings_usage.tokens + excluded.tokens`);
}

export interface UsageRow {
  readonly day: string;
  readonly provider: string;
  readonly requests: number;
  readonly texts: number;
  readonly tokens: number;
}

/** Of the last days, the youngest first. */
export async function recentUsage(database: Queryable, days: number): Promise<readonly UsageRow[]> {
  const { rows } = await database.query<UsageRow>(sql`
    select day::text as day, provider, requests::double precision as requests, texts::double precision as texts,
      tokens::double precision as tokens
    from penstock.embeddings_usage where day > (now() at time zone 'utc')::date - ${days}::integer
    order by day desc, provider`);
  return rows;
}
