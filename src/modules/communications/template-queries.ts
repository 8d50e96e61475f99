/** The SQL of templates that the record engine does not express. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

export interface StoredTemplate {
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly sender: string | null;
  readonly variables: readonly string[] | null;
}

export async function templateByName(database: Queryable, name: string): Promise<StoredTemplate | undefined> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables" from "app"."EmailTemplate" where "name" = ${name}`,
  );
  return rows[0];
}

/** What operators wrote: their own templates, and those of modules that they changed. */
export async function operatorTemplates(database: Queryable): Promise<readonly StoredTemplate[]> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables" from "app"."EmailTemplate" where not "builtIn" or "edited"`,
  );
  return rows;
}

export async function countTemplates(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`select count(*)::integer as count from "app"."EmailTemplate"`);
  return rows[0]?.count ?? 0;
}

export async function templateIdOf(database: Queryable, name: string): Promise<string | undefined> {
  const { rows } = await database.query<{ id: string }>(
    sql`select "_id" as id from "app"."EmailTemplate" where "name" = ${name} for update`,
  );
  return rows[0]?.id;
}

export interface TemplateOrigin {
  readonly name: string;
  readonly builtIn: boolean;
}

export async function templateOrigin(database: Queryable, id: string): Promise<TemplateOrigin | undefined> {
  const { rows } = await database.query<TemplateOrigin>(sql`select "name", "builtIn" from "app"."EmailTemplate" where "_id" = ${id}::uuid`);
  return rows[0];
}

export interface BuiltInRow {
  readonly id: string;
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly variables: readonly string[];
}

/**
 * Stores what a module brings. A row that an operator wrote or changed stays as it is; one that
 * nobody touched follows the module's text. `force` puts the module's text back in any case.
 */
export const storeBuiltIn = (database: Queryable, row: BuiltInRow, force = false): Promise<unknown> =>
  database.query(sql`
    insert into "app"."EmailTemplate" ("_id", "name", "subject", "body", "variables", "externalManaged", "builtIn", "edited", "createdAt", "updatedAt", "__v")
    values (${row.id}::uuid, ${row.name}, ${row.subject}, ${row.body}, ${JSON.stringify(row.variables)}::jsonb, false, true, false, now(), now(), 0)
    on conflict ("name") do update set
      "subject" = excluded."subject", "body" = excluded."body", "variables" = excluded."variables", "edited" = false,
      "sender" = case when ${force}::boolean then null else "EmailTemplate"."sender" end,
      "updatedAt" = now(), "__v" = "EmailTemplate"."__v" + 1
    where "EmailTemplate"."builtIn" and (${force}::boolean or not "EmailTemplate"."edited")
      and (${force}::boolean or ("EmailTemplate"."subject", "EmailTemplate"."body") is distinct from (excluded."subject", excluded."body"))`);
