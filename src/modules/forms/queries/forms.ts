/** The SQL of forms. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import type { FormDefinition } from '../definition/definition.ts';

export interface FormRow {
  readonly id: string;
  readonly definition: FormDefinition;
  /** Counts up with each change of the fields. */
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export const formById = (database: Queryable, id: string): Promise<FormRow | undefined> =>
  first(
    database.query<FormRow>(shortSql`
      select id, definition, version, created_at as "createdAt", updated_at as "updatedAt"
      from penstock.forms where id = ${id}::uuid`),
  );

export const lockForm = (database: Queryable, id: string): Promise<FormRow | undefined> =>
  first(
    database.query<FormRow>(shortSql`
      select id, definition, version, created_at as "createdAt", updated_at as "updatedAt"
      from penstock.forms where id = ${id}::uuid for update`),
  );

export const formIdOf = async (database: Queryable, name: string): Promise<string | undefined> =>
  (
    await first(
      database.query<{ id: string }>(shortSql`select id from penstock.forms where name = ${name}`),
    )
  )?.id;

export interface FormFilter {
  readonly skip: number;
  readonly limit: number;
  readonly sort: 'name' | '-name' | 'createdAt' | '-createdAt' | 'updatedAt' | '-updatedAt';
  /** A part of the name, in any case. */
  readonly search?: string | undefined;
}

/** `%` and `_` as they are. */
export const containing = (text: string | undefined): string | null =>
  text === undefined ? null : `%${text.replace(/[\\%_]/g, '\\$&')}%`;

export async function listForms(
  database: Queryable,
  { skip, limit, sort, search }: FormFilter,
): Promise<{ readonly forms: readonly FormRow[]; readonly count: number }> {
  const pattern = containing(search);
  const [by, down] = sort.startsWith('-') ? [sort.slice(1), true] : [sort, false];
  const { rows: forms } = await database.query<FormRow>(sql`
    select id, definition, version, created_at as "createdAt", updated_at as "updatedAt" from penstock.forms
    where ${pattern}::text is null or name ilike ${pattern}
    order by
      case when ${by} = 'name' and not ${down}::boolean then name end,
      case when ${by} = 'name' and ${down}::boolean then name end desc,
      case when ${by} = 'createdAt' and not ${down}::boolean then created_at end,
      case when ${by} = 'createdAt' and ${down}::boolean then created_at end desc,
      case when ${by} = 'updatedAt' and not ${down}::boolean then updated_at end,
      case when ${by} = 'updatedAt' and ${down}::boolean then updated_at end desc, id
    offset ${skip} limit ${limit}`);
  const counted = await database.query<{ count: number }>(sql`
    select count(*)::integer as count from penstock.forms where ${pattern}::text is null or name ilike ${pattern}`);
  return { forms, count: counted.rows[0]?.count ?? 0 };
}

export async function allForms(database: Queryable): Promise<readonly FormDefinition[]> {
  const { rows } = await database.query<{ definition: FormDefinition }>(
    sql`select definition from penstock.forms order by name`,
  );
  return rows.map(({ definition }) => definition);
}

export async function countForms(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from penstock.forms`,
  );
  return rows[0]?.count ?? 0;
}

/** Throws a unique violation where the name is taken. */
export async function insertForm(
  database: Queryable,
  id: string,
  definition: FormDefinition,
): Promise<FormRow | undefined> {
  return first(
    database.query<FormRow>(sql`
      insert into penstock.forms (id, name, definition, enabled)
      values (${id}::uuid, ${definition.name}, ${JSON.stringify(definition)}::jsonb, ${definition.enabled})
      returning id, definition, version, created_at as "createdAt", updated_at as "updatedAt"`),
  );
}

/** What was sent so far is counted anew where only so many submissions are taken. */
export async function updateForm(
  database: Queryable,
  id: string,
  definition: FormDefinition,
): Promise<FormRow | undefined> {
  return first(
    database.query<FormRow>(sql`
      update penstock.forms set name = ${definition.name}, definition = ${JSON.stringify(definition)}::jsonb, enabled = ${definition.enabled},
        version = version + case when definition->'fields' is distinct from ${JSON.stringify(definition.fields)}::jsonb then 1 else 0 end,
        accepted = case when ${definition.maxSubmissions !== null}::boolean
          then (select count(*) from penstock.form_submissions where form_id = ${id}::uuid and not possible_spam) else 0 end,
        updated_at = now()
      where id = ${id}::uuid returning id, definition, version, created_at as "createdAt", updated_at as "updatedAt"`),
  );
}

export const deleteForm = (database: Queryable, id: string): Promise<unknown> =>
  database.query(sql`delete from penstock.forms where id = ${id}::uuid`);

/**
 * Keeps the form from being changed until the transaction ends, and counts one submission more where it takes a bounded
 * number: spam takes no place of others. False when it is gone, switched off or full.
 */
export async function admitSubmission(
  database: Queryable,
  id: string,
  { maxSubmissions, isSpam }: { readonly maxSubmissions: number | null; readonly isSpam: boolean },
): Promise<boolean> {
  const { count } =
    maxSubmissions === null || isSpam
      ? await database.query(shortSql`
          select 1 from penstock.forms where id = ${id}::uuid and enabled
            and (${maxSubmissions}::bigint is null or accepted < ${maxSubmissions}::bigint) for key share`)
      : await database.query(shortSql`
          update penstock.forms set accepted = accepted + 1
          where id = ${id}::uuid and enabled and accepted < ${maxSubmissions}::bigint`);
  return count > 0;
}

/** Names of the templates that forms forward by, beside the usual one. */
export const usedTemplates = async (database: Queryable): Promise<readonly string[]> =>
  (
    await database.query<{ name: string }>(sql`
      select distinct definition->>'template' as name from penstock.forms
      where definition->>'template' is not null`)
  ).rows.map(({ name }) => name);
