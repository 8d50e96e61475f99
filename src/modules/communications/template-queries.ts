/** The SQL of templates that the record engine does not express. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

interface StoredTemplate {
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly sender: string | null;
  readonly variables: readonly string[] | null;
  readonly translations: Readonly<Record<string, unknown>> | null;
}

export async function templateByName(
  database: Queryable,
  name: string,
): Promise<StoredTemplate | undefined> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables", "translations" from "app"."EmailTemplate" where "name" = ${name}`,
  );
  return rows[0];
}

/** What operators wrote: their own templates, and those of modules that they changed. */
export async function operatorTemplates(database: Queryable): Promise<readonly StoredTemplate[]> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables", "translations" from "app"."EmailTemplate" where not "builtIn" or "edited"`,
  );
  return rows;
}

export async function countTemplates(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from "app"."EmailTemplate"`,
  );
  return rows[0]?.count ?? 0;
}

export async function countUnifiedTemplates(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from "app"."CommunicationTemplate"`,
  );
  return rows[0]?.count ?? 0;
}

export async function templateIdOf(database: Queryable, name: string): Promise<string | undefined> {
  const { rows } = await database.query<{ id: string }>(
    sql`select "_id" as id from "app"."EmailTemplate" where "name" = ${name} for update`,
  );
  return rows[0]?.id;
}

interface TemplateOrigin {
  readonly name: string;
  readonly builtIn: boolean;
}

export async function templateOrigin(
  database: Queryable,
  id: string,
): Promise<TemplateOrigin | undefined> {
  const { rows } = await database.query<TemplateOrigin>(
    sql`select "name", "builtIn" from "app"."EmailTemplate" where "_id" = ${id}::uuid`,
  );
  return rows[0];
}

/** All that templates of modules, and those of these names, say in every language. There are some dozens. */
export async function textsOfModules(
  database: Queryable,
  names: readonly string[],
): Promise<readonly { readonly name: string; readonly texts: readonly string[] }[]> {
  const { rows } = await database.query<{ name: string; texts: readonly string[] }>(sql`
    select "name", array["subject", "body"] || array(
      select text from jsonb_each(coalesce("translations", '{}')) one, jsonb_each_text(one.value) as part(key, text)) as texts
    from "app"."EmailTemplate" where "builtIn" or "name" = any(${names}::text[])`);
  return rows;
}

interface BuiltInRow {
  readonly id: string;
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly variables: readonly string[];
}

/**
 * Stores what a module brings, in one statement. A row that an operator wrote or changed stays as it is; one that
 * nobody touched follows the module's text. `force` puts the module's text back in any case.
 */
export const storeBuiltIn = (
  database: Queryable,
  rows: readonly BuiltInRow[],
  force = false,
): Promise<unknown> =>
  database.query(sql`
    insert into "app"."EmailTemplate" ("_id", "name", "subject", "body", "variables", "externalManaged", "builtIn", "edited", "createdAt", "updatedAt", "__v")
    select id, name, subject, body, variables, false, true, false, now(), now(), 0
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as brought (id uuid, name text, subject text, body text, variables jsonb)
    on conflict ("name") do update set
      "subject" = excluded."subject", "body" = excluded."body", "variables" = excluded."variables", "edited" = false,
      "sender" = case when ${force}::boolean then null else "EmailTemplate"."sender" end,
      "translations" = case when ${force}::boolean then null else "EmailTemplate"."translations" end,
      "updatedAt" = now(), "__v" = "EmailTemplate"."__v" + 1
    where "EmailTemplate"."builtIn" and (${force}::boolean or not "EmailTemplate"."edited")
      and (${force}::boolean or ("EmailTemplate"."subject", "EmailTemplate"."body") is distinct from (excluded."subject", excluded."body"))`);

/* Templates that a provider holds too. */

/** Where a template is held beside here. */
export interface HeldBy {
  readonly externalId: string;
  /** The transport. */
  readonly provider: string;
}

export const noteExternal = (
  database: Queryable,
  id: string,
  { externalId, provider }: HeldBy,
): Promise<unknown> =>
  database.query(sql`
    update "app"."EmailTemplate" set "externalId" = ${externalId}, "externalProvider" = ${provider}, "externalManaged" = true, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${id}::uuid`);

interface ExternalTemplateRow extends HeldBy {
  readonly id: string;
  readonly name: string;
  readonly subject: string;
  readonly body: string;
}

/** Those that this provider holds. Of templates from before providers were noted, the one that is set. */
export const externalTemplates = async (
  database: Queryable,
  provider: string,
): Promise<readonly ExternalTemplateRow[]> =>
  (
    await database.query<ExternalTemplateRow>(sql`
      select "_id" as id, "name", "externalId", "externalProvider" as provider, "subject", "body" from "app"."EmailTemplate"
      where "externalId" is not null and coalesce("externalProvider", ${provider}) = ${provider} order by "name" limit 500`)
  ).rows;

export async function externalTemplate(
  database: Queryable,
  id: string,
): Promise<ExternalTemplateRow | undefined> {
  const { rows } = await database.query<ExternalTemplateRow>(sql`
    select "_id" as id, "name", "externalId", coalesce("externalProvider", '') as provider, "subject", "body" from "app"."EmailTemplate"
    where "_id" = ${id}::uuid and "externalId" is not null`);
  return rows[0];
}

/* One text for several channels. */

export interface StoredUnified {
  readonly id: string;
  readonly name: string;
  readonly templateDescription: string | null;
  readonly channels: readonly string[];
  readonly email: unknown;
  readonly push: unknown;
  readonly sms: unknown;
  readonly translations: Readonly<Record<string, unknown>> | null;
  readonly variables: readonly string[] | null;
  readonly category: string | null;
  readonly critical: boolean;
}

const unifiedColumns = `"_id" as id, "name", "templateDescription", "channels", "email", "push", "sms", "translations", "variables", "category", "critical"`;

export const unifiedByName = async (
  database: Queryable,
  name: string,
): Promise<StoredUnified | undefined> =>
  (
    await database.query<StoredUnified>({
      text: `select ${unifiedColumns} from "app"."CommunicationTemplate" where "name" = $1`,
      values: [name],
    })
  ).rows[0];

export const allUnified = async (database: Queryable): Promise<readonly StoredUnified[]> =>
  (
    await database.query<StoredUnified>({
      text: `select ${unifiedColumns} from "app"."CommunicationTemplate" order by "name"`,
      values: [],
    })
  ).rows;

/** Held to the end of the transaction: names are free among the templates of both kinds. */
export const lockTemplateNames = (transaction: Queryable): Promise<unknown> =>
  transaction.query(sql`select pg_advisory_xact_lock(hashtextextended('communications:names', 0))`);

/** Whether a template of either kind, other than this one, has the name. */
export const isNameTaken = async (
  database: Queryable,
  name: string,
  except: string | null,
): Promise<boolean> =>
  (
    await database.query(sql`
      select 1 from "app"."EmailTemplate" where "name" = ${name} and "_id" is distinct from ${except}::uuid
      union all
      select 1 from "app"."CommunicationTemplate" where "name" = ${name} and "_id" is distinct from ${except}::uuid`)
  ).count > 0;

/** All names of both kinds. */
export const templateNames = async (database: Queryable): Promise<Set<string>> =>
  new Set(
    (
      await database.query<{ name: string }>(
        sql`select "name" from "app"."EmailTemplate" union all select "name" from "app"."CommunicationTemplate"`,
      )
    ).rows.map(({ name }) => name),
  );

export const allEmailTemplates = async (
  database: Queryable,
  id: string | null,
): Promise<readonly (StoredTemplate & { readonly id: string })[]> =>
  (
    await database.query<StoredTemplate & { readonly id: string }>(sql`
      select "_id" as id, "name", "subject", "body", "sender", "variables", "translations" from "app"."EmailTemplate"
      where not "builtIn" and (${id}::uuid is null or "_id" = ${id}::uuid) order by "name" limit 1000`)
  ).rows;

/* Parts that templates share. */

export interface PartialRow {
  readonly name: string;
  readonly body: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export const listPartials = async (database: Queryable): Promise<readonly PartialRow[]> =>
  (
    await database.query<PartialRow>(
      sql`select name, body, created_at as "createdAt", updated_at as "updatedAt" from penstock.message_partials order by name limit 1000`,
    )
  ).rows;

export const partialsNamed = async (
  database: Queryable,
  names: readonly string[],
): Promise<readonly { readonly name: string; readonly body: string }[]> =>
  (
    await database.query<{ name: string; body: string }>(
      sql`select name, body from penstock.message_partials where name = any(${names}::text[])`,
    )
  ).rows;

export const savePartial = (database: Queryable, name: string, body: string): Promise<unknown> =>
  database.query(sql`
    insert into penstock.message_partials (name, body) values (${name}, ${body})
    on conflict (name) do update set body = excluded.body, updated_at = now()`);

export const deletePartial = async (database: Queryable, name: string): Promise<boolean> =>
  (await database.query(sql`delete from penstock.message_partials where name = ${name}`)).count > 0;
