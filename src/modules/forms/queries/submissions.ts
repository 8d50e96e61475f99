/** The SQL of submissions. Values are always parameters. */
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { shortSql } from '../../../kernel/database/sql.ts';
import { containing } from './forms.ts';

/** `unconfirmed`: whoever sent it has not said so by mail yet. */
export type SubmissionStatus = 'received' | 'unconfirmed' | 'confirmed';

/** What became of forwarding: nobody to forward to, mails are stored to be sent, or why not. */
export type Forwarded = 'none' | 'queued' | 'spam' | 'limited' | 'off' | 'failed';

/** A file that came with a submission. */
export interface SubmittedFile {
  readonly field: string;
  readonly file: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string | null;
  /** Its name in the container of forms: it goes with the submission. Null: it was there before, and stays. */
  readonly stored: string | null;
}

export interface SubmissionRow {
  readonly id: string;
  readonly formId: string;
  readonly formName: string;
  readonly formVersion: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly files: readonly SubmittedFile[];
  readonly possibleSpam: boolean;
  /** Why it counts as spam, and what could not be found out. */
  readonly signals: readonly string[];
  readonly status: SubmissionStatus;
  readonly userId: string | null;
  readonly email: string | null;
  readonly ipHash: string;
  readonly userAgent: string | null;
  readonly forwarded: Forwarded | null;
  /** Of the link that was sent to whoever has to confirm it. */
  readonly confirmHash: string | null;
  readonly confirmedAt: Date | null;
  readonly screenedAt: Date | null;
  readonly deliveredAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `id, form_id as "formId", form_name as "formName", form_version as "formVersion", data, files,
  possible_spam as "possibleSpam", signals, status, user_id as "userId", email, ip_hash as "ipHash", user_agent as "userAgent",
  forwarded, confirm_hash as "confirmHash", confirmed_at as "confirmedAt", screened_at as "screenedAt", delivered_at as "deliveredAt",
  created_at as "createdAt", updated_at as "updatedAt"`;

const rowBy = (condition: string, value: string, name: string): Statement => ({
  text: `select ${columns} from penstock.form_submissions where ${condition}`,
  values: [value],
  name,
  class: 'short',
});

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export const submissionById = (
  database: Queryable,
  id: string,
): Promise<SubmissionRow | undefined> =>
  first(database.query<SubmissionRow>(rowBy('id = $1::uuid', id, 'form_submission')));

export const lockSubmission = (
  database: Queryable,
  id: string,
): Promise<SubmissionRow | undefined> =>
  first(
    database.query<SubmissionRow>(rowBy('id = $1::uuid for update', id, 'form_submission_lock')),
  );

export const submissionByConfirmation = (
  database: Queryable,
  hash: string,
): Promise<SubmissionRow | undefined> =>
  first(database.query<SubmissionRow>(rowBy('confirm_hash = $1', hash, 'form_submission_hash')));

export interface NewSubmission
  extends Pick<
    SubmissionRow,
    | 'id'
    | 'formId'
    | 'formName'
    | 'formVersion'
    | 'data'
    | 'files'
    | 'signals'
    | 'status'
    | 'userId'
    | 'email'
    | 'ipHash'
    | 'userAgent'
  > {
  readonly contentHash: string;
  readonly idempotencyHash: string | null;
  readonly requestHash: string | null;
}

/** False when one was stored under the same key. */
export async function insertSubmission(
  database: Queryable,
  row: NewSubmission,
  possibleSpam: boolean,
): Promise<boolean> {
  const { count } = await database.query(shortSql`
    insert into penstock.form_submissions (id, form_id, form_name, form_version, data, files, possible_spam, signals, status,
      user_id, email, ip_hash, user_agent, content_hash, idempotency_hash, request_hash)
    values (${row.id}::uuid, ${row.formId}::uuid, ${row.formName}, ${row.formVersion}, ${JSON.stringify(row.data)}::jsonb,
      ${JSON.stringify(row.files)}::jsonb, ${possibleSpam}, ${JSON.stringify(row.signals)}::jsonb, ${row.status},
      ${row.userId}::uuid, ${row.email}, ${row.ipHash}, ${row.userAgent}, ${row.contentHash}, ${row.idempotencyHash}, ${row.requestHash})
    on conflict (idempotency_hash) where idempotency_hash is not null do nothing`);
  return count > 0;
}

export interface EarlierSubmission {
  readonly id: string;
  readonly requestHash: string;
}

export const submissionByKey = (
  database: Queryable,
  idempotencyHash: string,
): Promise<EarlierSubmission | undefined> =>
  first(
    database.query<EarlierSubmission>(shortSql`
      select id, request_hash as "requestHash" from penstock.form_submissions where idempotency_hash = ${idempotencyHash}`),
  );

/** How often a form got this content in the last day; counts to `max` at most. */
export async function countRepeats(
  database: Queryable,
  { formId, contentHash }: Pick<NewSubmission, 'formId' | 'contentHash'>,
  max: number,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(shortSql`
    select count(*)::integer as count from (
      select 1 from penstock.form_submissions
      where form_id = ${formId}::uuid and content_hash = ${contentHash} and created_at > now() - interval '1 day' limit ${max}) as seen`);
  return rows[0]?.count ?? 0;
}

/** Takes the one use of a challenge; false when it is taken. */
export async function takeChallenge(
  database: Queryable,
  nonce: string,
  endsAt: Date,
): Promise<boolean> {
  const { count } = await database.query(shortSql`
    insert into penstock.form_challenges (nonce, ends_at) values (${nonce}, ${endsAt}) on conflict do nothing`);
  return count > 0;
}

export interface SubmissionFilter {
  readonly formId: string;
  readonly possibleSpam?: boolean | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** A part of a value, in any case. */
  readonly search?: string | undefined;
}

export interface SubmissionPage extends SubmissionFilter {
  readonly skip: number;
  readonly limit: number;
  readonly newestFirst: boolean;
}

const filtered = `form_id = $1::uuid and ($2::boolean is null or possible_spam = $2::boolean)
  and ($3::timestamptz is null or created_at >= $3::timestamptz) and ($4::timestamptz is null or created_at < $4::timestamptz)
  and ($5::text is null or exists (select 1 from jsonb_path_query(data, 'strict $.**') as held(value)
    where jsonb_typeof(value) in ('string', 'number') and value #>> '{}' ilike $5::text))`;

const filterValues = ({ formId, possibleSpam, from, to, search }: SubmissionFilter) => [
  formId,
  possibleSpam ?? null,
  from ?? null,
  to ?? null,
  containing(search),
];

export async function listSubmissions(
  database: Queryable,
  { skip, limit, newestFirst, ...filter }: SubmissionPage,
): Promise<{ readonly submissions: readonly SubmissionRow[]; readonly count: number }> {
  const order = newestFirst ? 'created_at desc, id desc' : 'created_at, id';
  const { rows: submissions } = await database.query<SubmissionRow>({
    text: `select ${columns} from penstock.form_submissions where ${filtered} order by ${order} offset $6 limit $7`,
    values: [...filterValues(filter), skip, limit],
  });
  const { rows } = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.form_submissions where ${filtered}`,
    values: filterValues(filter),
  });
  return { submissions, count: rows[0]?.count ?? 0 };
}

/** All that fit, for reading them in pieces. */
export const exportSubmissions = (filter: SubmissionFilter): Statement => ({
  text: `select ${columns} from penstock.form_submissions where ${filtered} order by created_at, id`,
  values: filterValues(filter),
});
