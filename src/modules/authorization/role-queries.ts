/** SQL over roles, rules, and who holds which role. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

export interface RoleRow {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly permissions: readonly string[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface RuleRow {
  readonly id: string;
  readonly resource: string;
  readonly action: string;
  /** Name of the role. */
  readonly role: string;
  readonly conditions: Readonly<Record<string, unknown>>;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const roleColumns =
  'id, name, description, permissions, created_at as "createdAt", updated_at as "updatedAt"';
const ruleColumns =
  'x.id, x.resource, x.action, r.name as role, x.conditions, x.created_at as "createdAt", x.updated_at as "updatedAt"';

/** `undefined` when the name is taken. */
export async function insertRole(
  database: Queryable,
  { id, name, description, permissions }: Omit<RoleRow, 'createdAt' | 'updatedAt'>,
): Promise<RoleRow | undefined> {
  const text = `insert into penstock.roles (id, name, description, permissions) values ($1, $2, $3, $4) on conflict (name) do nothing returning ${roleColumns}`;
  return (await database.query<RoleRow>({ text, values: [id, name, description, permissions] }))
    .rows[0];
}

export interface RoleChange {
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  readonly permissions?: readonly string[] | undefined;
}

/** `undefined` when there is no such role. Fails with 23505 when the name is taken. */
export async function updateRole(
  database: Queryable,
  id: string,
  { name, description, permissions }: RoleChange,
): Promise<RoleRow | undefined> {
  const text = `update penstock.roles set name = coalesce($2, name), description = coalesce($3, description),
    permissions = coalesce($4, permissions), updated_at = now() where id = $1 returning ${roleColumns}`;
  return (
    await database.query<RoleRow>({
      text,
      values: [id, name ?? null, description ?? null, permissions ?? null],
    })
  ).rows[0];
}

/** Answers whether it was there. Its rules go with it. */
export async function deleteRole(database: Queryable, id: string): Promise<boolean> {
  return (await database.query(sql`delete from penstock.roles where id = ${id}`)).count > 0;
}

export async function roleById(database: Queryable, id: string): Promise<RoleRow | undefined> {
  return (
    await database.query<RoleRow>({
      text: `select ${roleColumns} from penstock.roles where id = $1`,
      values: [id],
    })
  ).rows[0];
}

export async function roleByName(database: Queryable, name: string): Promise<RoleRow | undefined> {
  return (
    await database.query<RoleRow>({
      text: `select ${roleColumns} from penstock.roles where name = $1`,
      values: [name],
    })
  ).rows[0];
}

interface Page {
  readonly skip: number;
  readonly limit: number;
  /** A field of the list, `-` in front for descending. */
  readonly sort: string;
}

export interface RoleFilter extends Page {
  /** Part of the name; case does not matter. */
  readonly search?: string | undefined;
}

/** Sortable fields and their columns. */
export const roleOrders: ReadonlyMap<string, string> = new Map([
  ['name', 'name'],
  ['createdAt', 'created_at'],
  ['updatedAt', 'updated_at'],
]);
export const ruleOrders: ReadonlyMap<string, string> = new Map([
  ['createdAt', 'x.created_at'],
  ['updatedAt', 'x.updated_at'],
  ['resource', 'x.resource'],
  ['action', 'x.action'],
  ['role', 'r.name'],
]);

const orderOf = (orders: ReadonlyMap<string, string>, sort: string, last: string): string => {
  const column = orders.get(sort.replace(/^-/, ''));
  return `${column === undefined ? '' : `${column}${sort.startsWith('-') ? ' desc' : ''}, `}${last}`;
};

export async function listRoles(
  database: Queryable,
  { skip, limit, sort, search }: RoleFilter,
): Promise<{ readonly roles: readonly RoleRow[]; readonly count: number }> {
  const where = "($1::text is null or name ilike '%' || $1 || '%')";
  const values = [likeText(search)];
  const counted = {
    text: `select count(*)::int as count from penstock.roles where ${where}`,
    values,
  };
  const text = `select ${roleColumns} from penstock.roles where ${where} order by ${orderOf(roleOrders, sort, 'id')} offset $2 limit $3`;
  const [count, { rows }] = await Promise.all([
    database.query<{ count: number }>(counted),
    database.query<RoleRow>({ text, values: [...values, skip, limit] }),
  ]);
  return { roles: rows, count: count.rows[0]?.count ?? 0 };
}

/** A search text whose own wildcards mean nothing. */
const likeText = (text: string | undefined): string | null =>
  text?.replace(/[\\%_]/g, '\\$&') ?? null;

/** Those of the ids that are roles. */
export async function rolesByIds(
  database: Queryable,
  ids: readonly string[],
): Promise<readonly RoleRow[]> {
  // Most users hold none, and this stands in the way of every request that asks for roles.
  if (ids.length === 0) return [];
  const text = `select ${roleColumns} from penstock.roles where id = any($1::uuid[]) order by name`;
  return (await database.query<RoleRow>({ text, values: [ids] })).rows;
}

/** What decides a question of the 0.16 line: permissions of held roles, and conditions of matching rules. */
export interface RoleAnswer {
  readonly permissions: readonly string[];
  readonly conditions: readonly Readonly<Record<string, unknown>>[];
}

/** `held`: ids of the roles; `everybody` names the one that every user holds. */
export async function roleAnswer(
  database: Queryable,
  question: {
    readonly held: readonly string[];
    readonly everybody: string;
    readonly resource: string;
    readonly action: string;
  },
): Promise<RoleAnswer> {
  const text = `with held as (select id, permissions from penstock.roles where name = $2 or id = any($1::uuid[]))
    select (select array_agg(distinct p) from held, unnest(held.permissions) p) as permissions,
      (select json_agg(x.conditions) from held join penstock.role_rules x on x.role_id = held.id
        where x.resource = $3 and x.action = $4) as conditions`;
  const values = [question.held, question.everybody, question.resource, question.action];
  const { rows } = await database.query<{
    permissions: string[] | null;
    conditions: RoleAnswer['conditions'] | null;
  }>({ text, values });
  return { permissions: rows[0]?.permissions ?? [], conditions: rows[0]?.conditions ?? [] };
}

export interface NewRule {
  readonly id: string;
  readonly roleId: string;
  readonly resource: string;
  readonly action: string;
  readonly conditions: Readonly<Record<string, unknown>>;
}

export async function insertRule(
  database: Queryable,
  { id, roleId, resource, action, conditions }: NewRule,
): Promise<void> {
  await database.query(sql`
    insert into penstock.role_rules (id, role_id, resource, action, conditions)
    values (${id}, ${roleId}, ${resource}, ${action}, ${JSON.stringify(conditions)}::jsonb)`);
}

/** Answers whether it is there. */
export async function updateRule(
  database: Queryable,
  id: string,
  change: Partial<Omit<NewRule, 'id'>>,
): Promise<boolean> {
  const { roleId = null, resource = null, action = null, conditions } = change;
  const { count } = await database.query(sql`
    update penstock.role_rules set role_id = coalesce(${roleId}::uuid, role_id), resource = coalesce(${resource}, resource),
      action = coalesce(${action}, action), conditions = coalesce(${conditions ? JSON.stringify(conditions) : null}::jsonb, conditions),
      updated_at = now()
    where id = ${id}`);
  return count > 0;
}

export async function deleteRule(database: Queryable, id: string): Promise<boolean> {
  return (await database.query(sql`delete from penstock.role_rules where id = ${id}`)).count > 0;
}

export async function ruleById(database: Queryable, id: string): Promise<RuleRow | undefined> {
  const text = `select ${ruleColumns} from penstock.role_rules x join penstock.roles r on r.id = x.role_id where x.id = $1`;
  return (await database.query<RuleRow>({ text, values: [id] })).rows[0];
}

export interface RuleFilter extends Page {
  readonly resource?: string | undefined;
  /** Name of a role. */
  readonly role?: string | undefined;
  /** Part of the resource or the action; case does not matter. */
  readonly search?: string | undefined;
}

export async function listRules(
  database: Queryable,
  { skip, limit, sort, resource, role, search }: RuleFilter,
): Promise<{ readonly rules: readonly RuleRow[]; readonly count: number }> {
  const from = `penstock.role_rules x join penstock.roles r on r.id = x.role_id
    where ($1::text is null or x.resource = $1) and ($2::text is null or r.name = $2)
      and ($3::text is null or x.resource ilike '%' || $3 || '%' or x.action ilike '%' || $3 || '%')`;
  const values = [resource ?? null, role ?? null, likeText(search)];
  const counted = { text: `select count(*)::int as count from ${from}`, values };
  const text = `select ${ruleColumns} from ${from} order by ${orderOf(ruleOrders, sort, 'x.id')} offset $4 limit $5`;
  const [count, { rows }] = await Promise.all([
    database.query<{ count: number }>(counted),
    database.query<RuleRow>({ text, values: [...values, skip, limit] }),
  ]);
  return { rules: rows, count: count.rows[0]?.count ?? 0 };
}

/** Whether another rule says exactly the same. */
export async function hasTwin(database: Queryable, id: string): Promise<boolean> {
  const { rows } = await database.query(sql`
    select 1 from penstock.role_rules x join penstock.role_rules y
      on y.role_id = x.role_id and y.resource = x.resource and y.action = x.action and y.conditions = x.conditions and y.id <> x.id
    where x.id = ${id} limit 1`);
  return rows.length > 0;
}
