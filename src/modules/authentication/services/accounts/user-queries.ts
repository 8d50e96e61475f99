/** The SQL of the admin list of users: filters that the record engine's lists do not have. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { FieldInput, FieldOptions } from '../../../../data/schema/language/definition.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identifier, instantText, sql } from '../../../../kernel/database/sql.ts';

export interface UserFilter {
  readonly skip: number;
  readonly limit: number;
  /** Names of `sortable`, `-` in front for descending. */
  readonly sort: readonly string[];
  /** An id, or a part of the address, the user name or the phone number. */
  readonly search?: string | undefined;
  readonly isActive?: boolean | undefined;
  readonly isAnonymous?: boolean | undefined;
  /** `local`: only accounts with a password; else those linked to an account at this provider. */
  readonly provider?: string | undefined;
}

export const sortable = [
  '_id',
  'email',
  'username',
  'phoneNumber',
  'active',
  'isVerified',
  'createdAt',
  'updatedAt',
] as const;
const sortableNames: ReadonlySet<string> = new Set(sortable);

/** `{"users":[...],"count":n}` as JSON text; the count is of all that match, not of the page. */
export async function listUsers(
  database: Queryable,
  schema: CompiledSchema,
  filter: UserFilter,
): Promise<string> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const where = conditions(filter, next);
  const text = `
    select json_build_object(
      'users', (select coalesce(json_agg(row_to_json(page.*)), '[]') from (
        select ${columns(schema)} from "app"."User" u where ${where}
        order by ${ordering(filter.sort)} limit ${next(filter.limit)} offset ${next(filter.skip)}) page),
      'count', (select count(*) from "app"."User" u where ${where}))::text as json`;
  const { rows } = await database.query<{ json: string }>({ text, values });
  return rows[0]?.json ?? '{"users":[],"count":0}';
}

function conditions(filter: UserFilter, next: (value: unknown) => string): string {
  const all = ['true'];
  if (filter.search !== undefined) all.push(searchCondition(filter.search, next));
  if (filter.isActive !== undefined) all.push(`u."active" = ${next(filter.isActive)}`);
  if (filter.isAnonymous !== undefined) all.push(`u."isAnonymous" = ${next(filter.isAnonymous)}`);
  if (filter.provider !== undefined) all.push(providerCondition(filter.provider, next));
  return all.join(' and ');
}

const providerCondition = (provider: string, next: (value: unknown) => string): string =>
  provider === 'local'
    ? 'u."hashedPassword" is not null'
    : `exists (select from penstock.identities i where i.user_id = u."_id" and i.provider = ${next(provider)})`;

function searchCondition(search: string, next: (value: unknown) => string): string {
  const part = next(`%${search.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`);
  return `(u."_id"::text = ${next(search.toLowerCase())} or u."email" like ${part} or u."username" like ${part} or u."phoneNumber" like ${part})`;
}

const ordering = (sort: readonly string[]): string =>
  [...sort.map(orderOf), 'u."_id"']
    .filter((part, i, parts) => parts.indexOf(part) === i)
    .join(', ');

function orderOf(sort: string): string {
  const name = sort.replace(/^-/, '');
  if (!sortableNames.has(name)) throw new Error(`users cannot be sorted by ${name}`);
  return `u.${identifier(name)}${sort.startsWith('-') ? ' desc' : ''}`;
}

/** Every visible field as the record engine renders it: dates in UTC with milliseconds. */
function columns(schema: CompiledSchema): string {
  const names = Object.entries(schema.compiledFields).filter(
    ([, field]) => optionsOf(field)?.select !== false,
  );
  const present = new Map<string, FieldInput>([['_id', 'String'], ...names]);
  return [...present]
    .map(([name, field]) => column(name, field))
    .concat('u."__v"')
    .join(', ');
}

function column(name: string, field: FieldInput): string {
  const reference = `u.${identifier(name)}`;
  if ((optionsOf(field)?.type ?? field) !== 'Date') return reference;
  return `${instantText(reference)} as ${identifier(name)}`;
}

/** The options of a field that was written with options; nothing for the short forms. */
function optionsOf(field: FieldInput): FieldOptions | undefined {
  return typeof field === 'object' && !Array.isArray(field) && 'type' in field
    ? (field as FieldOptions)
    : undefined;
}

/**
 * Anonymous users who were made longer ago than `idleMs` and have no session that goes on or was used since. Their
 * rows stay locked until the transaction ends; those that somebody else holds are left for the next time.
 */
export const idleAnonymousUsers = async (
  transaction: Queryable,
  idleMs: number,
  limit: number,
): Promise<readonly string[]> =>
  (
    await transaction.query<{ id: string }>(sql`
      select u."_id" as id from "app"."User" u
      where u."isAnonymous" and u."createdAt" < now() - ${idleMs}::double precision * interval '1 millisecond'
        and not exists (
          select from penstock.sessions s where s.user_id = u."_id"
            and (s.ends_at > now() and s.revoked_at is null or s.last_used_at > now() - ${idleMs}::double precision * interval '1 millisecond'))
      order by u."createdAt" limit ${limit}::integer for update skip locked`)
  ).rows.map((row) => row.id);
