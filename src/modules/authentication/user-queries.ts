/** The SQL of the admin list of users: filters that the record engine's lists do not have. */
import type { Queryable } from '../../kernel/database/database.ts';
import { identifier } from '../../kernel/database/sql.ts';
import type { CompiledSchema } from '../../kernel/schema/compiled.ts';
import type { FieldInput, FieldOptions } from '../../kernel/schema/definition.ts';

export interface UserFilter {
  readonly skip: number;
  readonly limit: number;
  /** Names of `sortable`, `-` in front for descending. */
  readonly sort: readonly string[];
  /** An id, or a part of the address, the user name or the phone number. */
  readonly search?: string | undefined;
  readonly isActive?: boolean | undefined;
  readonly isAnonymous?: boolean | undefined;
  /** Only accounts with a password. */
  readonly local?: boolean | undefined;
}

export const sortable = ['_id', 'email', 'username', 'phoneNumber', 'active', 'isVerified', 'createdAt', 'updatedAt'] as const;
const sortableNames: ReadonlySet<string> = new Set(sortable);

/** `{"users":[...],"count":n}` as JSON text; the count is of all that match, not of the page. */
export async function listUsers(database: Queryable, schema: CompiledSchema, filter: UserFilter): Promise<string> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const where = conditions(filter, next);
  const text = `
    select json_build_object(
      'users', (select coalesce(json_agg(row_to_json(page)), '[]') from (
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
  if (filter.local) all.push('u."hashedPassword" is not null');
  return all.join(' and ');
}

function searchCondition(search: string, next: (value: unknown) => string): string {
  const part = next(`%${search.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`);
  return `(u."_id"::text = ${next(search.toLowerCase())} or u."email" like ${part} or u."username" like ${part} or u."phoneNumber" like ${part})`;
}

const ordering = (sort: readonly string[]): string =>
  [...sort.map(orderOf), 'u."_id"'].filter((part, i, parts) => parts.indexOf(part) === i).join(', ');

function orderOf(sort: string): string {
  const name = sort.replace(/^-/, '');
  if (!sortableNames.has(name)) throw new Error(`users cannot be sorted by ${name}`);
  return `u.${identifier(name)}${sort.startsWith('-') ? ' desc' : ''}`;
}

/** Every visible field as the record engine renders it: dates in UTC with milliseconds. */
function columns(schema: CompiledSchema): string {
  const names = Object.entries(schema.compiledFields).filter(([, field]) => optionsOf(field)?.select !== false);
  const present = new Map<string, FieldInput>([['_id', 'String'], ...names]);
  return [...present]
    .map(([name, field]) => column(name, field))
    .concat('u."__v"')
    .join(', ');
}

function column(name: string, field: FieldInput): string {
  const reference = `u.${identifier(name)}`;
  if ((optionsOf(field)?.type ?? field) !== 'Date') return reference;
  return `to_char(${reference} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${identifier(name)}`;
}

/** The options of a field that was written with options; nothing for the short forms. */
function optionsOf(field: FieldInput): FieldOptions | undefined {
  return typeof field === 'object' && !Array.isArray(field) && 'type' in field ? (field as FieldOptions) : undefined;
}
