/** The SQL of one-time tokens. Values are always parameters. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identitySql, sql } from '../../../../kernel/database/sql.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export interface NewTokenRow {
  readonly id: string;
  readonly purpose: string;
  readonly hash: string;
  readonly subjectHash: string | null;
  /** At most one row has it; a later one replaces the earlier one. */
  readonly slot: string | null;
  readonly codeHash: string | null;
  readonly maxAttempts: number;
  readonly userId: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly lifetimeMs: number;
}

export interface OneTimeRow {
  readonly id: string;
  readonly userId: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly usedAt: Date | null;
  readonly expired: boolean;
}

export const insertTokenRow = (database: Queryable, row: NewTokenRow): Promise<unknown> =>
  database.query(sql`
    insert into penstock.one_time_tokens
      (id, purpose, hash, subject_hash, slot, code_hash, max_attempts, user_id, data, expires_at)
    values (${row.id}::uuid, ${row.purpose}, ${row.hash}, ${row.subjectHash}, ${row.slot}, ${row.codeHash}, ${row.maxAttempts}::integer,
      ${row.userId}::uuid, ${JSON.stringify(row.data)}::jsonb, now() + ${row.lifetimeMs}::double precision * interval '1 millisecond')
    on conflict (slot) do update set
      id = excluded.id, hash = excluded.hash, subject_hash = excluded.subject_hash, code_hash = excluded.code_hash,
      attempts = 0, max_attempts = excluded.max_attempts, user_id = excluded.user_id, data = excluded.data,
      created_at = now(), expires_at = excluded.expires_at, used_at = null`);

/** Marks the token as used, if it is there, unused, alive and needs no code. Of parallel callers one gets the row. */
export const consumeTokenRow = (
  database: Queryable,
  purpose: string,
  hash: string,
): Promise<OneTimeRow | undefined> =>
  first(
    database.query<OneTimeRow>(identitySql`
      update penstock.one_time_tokens set used_at = now()
      where hash = ${hash} and purpose = ${purpose} and used_at is null and expires_at > now() and code_hash is null
      returning id, user_id as "userId", data, used_at as "usedAt", false as expired`),
  );

/**
 * Counts an attempt and marks the row as used when the code fits, in one statement: parallel guesses
 * cannot exceed the number of attempts. Answers the row only when the code was right.
 */
export async function consumeCodeRow(
  database: Queryable,
  use: {
    readonly purpose: string;
    readonly keyHash: string;
    readonly byToken: boolean;
    readonly codeHash: string;
  },
): Promise<OneTimeRow | undefined> {
  const { rows } = await database.query<OneTimeRow>({
    text: use.byToken ? useCode.byToken : useCode.bySubject,
    values: [use.purpose, use.keyHash, use.codeHash],
    class: 'identity',
  });
  const found = rows[0];
  return found && found.usedAt !== null ? found : undefined;
}

/** Of several codes for one subject only the newest counts. */
const codeStatement = (key: 'hash' | 'subject_hash'): string => `
  update penstock.one_time_tokens
  set attempts = attempts + 1, used_at = case when code_hash = $3 then now() end
  where used_at is null and expires_at > now() and attempts < max_attempts and id = (
    select id from penstock.one_time_tokens where purpose = $1 and ${key} = $2 and code_hash is not null
    order by created_at desc, id desc limit 1)
  returning id, user_id as "userId", data, used_at as "usedAt", false as expired`;

const useCode = { byToken: codeStatement('hash'), bySubject: codeStatement('subject_hash') };

const columns =
  'id, user_id as "userId", data, used_at as "usedAt", expires_at <= now() as expired';

export const tokenRow = (
  database: Queryable,
  purpose: string,
  hash: string,
): Promise<OneTimeRow | undefined> =>
  first(
    database.query<OneTimeRow>({
      text: `select ${columns} from penstock.one_time_tokens where hash = $1 and purpose = $2 and code_hash is null`,
      values: [hash, purpose],
      class: 'identity',
    }),
  );

/** What was issued last for a subject, if it can be used still and needs no code. */
export const newestTokenRow = (
  database: Queryable,
  purpose: string,
  subjectHash: string,
): Promise<OneTimeRow | undefined> =>
  first(
    database.query<OneTimeRow>({
      text: `select ${columns} from penstock.one_time_tokens
        where purpose = $1 and subject_hash = $2 and used_at is null and expires_at > now() and code_hash is null
        order by created_at desc, id desc limit 1`,
      values: [purpose, subjectHash],
    }),
  );

/** What was issued last for a user, also when it was used or has expired. */
export const latestTokenRowOf = (
  database: Queryable,
  purpose: string,
  userId: string,
): Promise<OneTimeRow | undefined> =>
  first(
    database.query<OneTimeRow>({
      text: `select ${columns} from penstock.one_time_tokens where user_id = $1::uuid and purpose = $2 order by created_at desc, id desc limit 1`,
      values: [userId, purpose],
    }),
  );

export const tokenRowById = (
  database: Queryable,
  purpose: string,
  id: string,
): Promise<OneTimeRow | undefined> =>
  first(
    database.query<OneTimeRow>({
      text: `select ${columns} from penstock.one_time_tokens where id = $1::uuid and purpose = $2`,
      values: [id, purpose],
      class: 'identity',
    }),
  );

export const discardTokenRows = async (
  database: Queryable,
  userId: string,
  purposes: readonly string[],
): Promise<void> =>
  void (await database.query(sql`
    delete from penstock.one_time_tokens where user_id = ${userId}::uuid and purpose = any(${purposes}::text[]) and used_at is null`));

/** The same for those of the token's own owner and purpose that were issued after it. */
export const discardLaterTokenRows = async (
  database: Queryable,
  purpose: string,
  hash: string,
): Promise<void> =>
  void (await database.query(sql`
    delete from penstock.one_time_tokens later using penstock.one_time_tokens token
    where token.hash = ${hash} and token.purpose = ${purpose} and later.purpose = token.purpose and later.user_id = token.user_id
      and later.created_at > token.created_at and later.used_at is null`));

/** Deletes up to `limit` tokens that ended a day ago (until then a repeated click still leads somewhere); answers how many. */
export const purgeTokens = async (database: Queryable, limit: number): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.one_time_tokens where id in (
        select id from penstock.one_time_tokens where expires_at < now() - interval '1 day' limit ${limit}::integer)`)
  ).count;
