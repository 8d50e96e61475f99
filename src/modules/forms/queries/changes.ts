/** What happens to submissions after they were stored: screening, confirmation, deletion. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import type { Forwarded, SubmissionRow, SubmittedFile } from './submissions.ts';

export const noteScreening = (
  database: Queryable,
  id: string,
  { possibleSpam, signals }: Pick<SubmissionRow, 'possibleSpam' | 'signals'>,
): Promise<unknown> =>
  database.query(shortSql`
    update penstock.form_submissions set possible_spam = ${possibleSpam}, signals = ${JSON.stringify(signals)}::jsonb,
      screened_at = now(), updated_at = now() where id = ${id}::uuid`);

/** The link that confirms it was sent. */
export const noteRequest = (
  database: Queryable,
  id: string,
  confirmHash: string,
): Promise<unknown> =>
  database.query(shortSql`
    update penstock.form_submissions set confirm_hash = ${confirmHash}, updated_at = now() where id = ${id}::uuid`);

/** It could not be asked for, since mail is off. */
export const noteNotAsked = (database: Queryable, id: string): Promise<unknown> =>
  database.query(shortSql`
    update penstock.form_submissions set forwarded = 'off', updated_at = now() where id = ${id}::uuid`);

/** Those of the last week whose mails were not written because mail was off: they wait to be delivered again. */
export async function resumeUnsent(database: Queryable, max: number): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    update penstock.form_submissions set forwarded = null, delivered_at = null, updated_at = now() where id in (
      select id from penstock.form_submissions where forwarded = 'off' and created_at > now() - interval '7 days'
      order by created_at limit ${max} for update skip locked)
    returning id`);
  return rows.map(({ id }) => id);
}

export const noteDelivery = (
  database: Queryable,
  id: string,
  forwarded: Forwarded,
): Promise<unknown> =>
  database.query(shortSql`
    update penstock.form_submissions set forwarded = ${forwarded}, delivered_at = now(), updated_at = now() where id = ${id}::uuid`);

/** Confirms one that waits for it; true for the one of many that did. */
export async function confirmSubmission(database: Queryable, id: string): Promise<boolean> {
  const { count } = await database.query(shortSql`
    update penstock.form_submissions set status = 'confirmed', confirmed_at = now(), updated_at = now()
    where id = ${id}::uuid and status = 'unconfirmed'`);
  return count > 0;
}

/** What an operator says about it. One that is no spam any more waits to be delivered. */
export const noteSpam = (
  database: Queryable,
  id: string,
  possibleSpam: boolean,
): Promise<unknown> =>
  database.query(shortSql`
    update penstock.form_submissions set possible_spam = ${possibleSpam}, updated_at = now(),
      delivered_at = case when not ${possibleSpam}::boolean and forwarded = 'spam' then null else delivered_at end
    where id = ${id}::uuid`);

/** What deleting has to see to. */
export type DeletedSubmission = Pick<SubmissionRow, 'id' | 'formId'> & {
  readonly files: readonly SubmittedFile[];
};

const gone = (result: Promise<{ readonly rows: DeletedSubmission[] }>) =>
  result.then(({ rows }) => rows);

export const deleteSubmission = (
  database: Queryable,
  id: string,
): Promise<readonly DeletedSubmission[]> =>
  gone(
    database.query<DeletedSubmission>(
      shortSql`delete from penstock.form_submissions where id = ${id}::uuid returning id, form_id as "formId", files`,
    ),
  );

export const deleteSubmissionsOfForm = (
  database: Queryable,
  formId: string,
  max: number,
): Promise<readonly DeletedSubmission[]> =>
  gone(
    database.query<DeletedSubmission>(sql`
      delete from penstock.form_submissions where id in (
        select id from penstock.form_submissions where form_id = ${formId}::uuid order by created_at limit ${max} for update)
      returning id, form_id as "formId", files`),
  );

/** Of these users, or of this address. */
export const deleteSubmissionsOf = (
  database: Queryable,
  { userIds = [], email = null }: { userIds?: readonly string[]; email?: string | null },
  max: number,
): Promise<readonly DeletedSubmission[]> =>
  gone(
    database.query<DeletedSubmission>(sql`
      delete from penstock.form_submissions where id in (
        select id from penstock.form_submissions where user_id = any(${userIds}::uuid[]) or email = ${email} limit ${max} for update)
      returning id, form_id as "formId", files`),
  );

/** Of users whose accounts went while nobody here could see to it. */
export const deleteOrphaned = (
  database: Queryable,
  max: number,
): Promise<readonly DeletedSubmission[]> =>
  gone(
    database.query<DeletedSubmission>(sql`
      delete from penstock.form_submissions where id in (
        select s.id from penstock.form_submissions s where s.user_id is not null
          and not exists (select from "app"."User" u where u."_id" = s.user_id) limit ${max} for update skip locked)
      returning id, form_id as "formId", files`),
  );

/** Submissions that are older than these days (0: none is), and those that were not confirmed in these hours. */
export const deleteExpired = (
  database: Queryable,
  { days, hours, max }: { days: number; hours: number; max: number },
): Promise<readonly DeletedSubmission[]> =>
  gone(
    database.query<DeletedSubmission>(sql`
      delete from penstock.form_submissions where id in (
        select id from penstock.form_submissions
        where ${days}::integer > 0 and created_at < now() - make_interval(days => ${days}::integer) limit ${max} for update skip locked)
      or id in (
        select id from penstock.form_submissions
        where status = 'unconfirmed' and created_at < now() - make_interval(hours => ${hours}::integer) limit ${max} for update skip locked)
      returning id, form_id as "formId", files`),
  );

export async function deleteOldChallenges(database: Queryable, max: number): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.form_challenges where ctid in (
      select ctid from penstock.form_challenges where ends_at < now() limit ${max})`);
  return count;
}

/* Files that no submission has yet, by the name that they have in their container. */

export const noteUpload = (database: Queryable, name: string): Promise<unknown> =>
  database.query(shortSql`insert into penstock.form_uploads (name) values (${name})`);

/** Files that are nobody's from now on. */
export const noteAbandoned = (database: Queryable, names: readonly string[]): Promise<unknown> =>
  database.query(sql`
    insert into penstock.form_uploads (name, created_at) select unnest(${names}::text[]), now() - interval '1 day' on conflict do nothing`);

/** A submission has them now, or they are gone. False when one of them was given up meanwhile. */
export async function claimUploads(
  database: Queryable,
  names: readonly string[],
): Promise<boolean> {
  if (names.length === 0) return true;
  const { count } = await database.query(
    shortSql`delete from penstock.form_uploads where name = any(${names}::text[])`,
  );
  return count === names.length;
}

/** Those of two hours ago: no request takes that long. */
export async function abandonedUploads(
  database: Queryable,
  max: number,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ name: string }>(sql`
    select name from penstock.form_uploads where created_at < now() - interval '2 hours' order by created_at limit ${max}`);
  return rows.map(({ name }) => name);
}
