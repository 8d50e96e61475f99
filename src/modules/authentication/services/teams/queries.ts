/** The SQL of teams and their members: pages that are found, searched, sorted and counted by the database. */

import type { PopulateTree } from '../../../../data/records/read/projection.ts';
import { createRenderContext, selectList } from '../../../../data/records/read/render.ts';
import { createParameters, type Parameters } from '../../../../data/records/sql/prepared-statements.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { identifier, sql } from '../../../../kernel/database/sql.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { countingRelations, uuidOf } from '../../../authorization/index.ts';
import { type TeamRole, teamRoles } from '../../schemas.ts';

/** What permissions and names need to know of a team. */
export interface TeamRow {
  readonly id: string;
  readonly name: string;
  readonly parentTeam: string | null;
  readonly isDefault: boolean;
  /** The user who made it on the client surface; null for an operator's team. */
  readonly madeBy: string | null;
}

const teamColumns = '"_id" as id, "name", "parentTeam", "isDefault", "madeBy"';

/** Reads a team and keeps others from changing it, its members and its invitations until the transaction ends. */
export async function lockTeam(transaction: Transaction, teamId: string): Promise<TeamRow | undefined> {
  const text = `select ${teamColumns} from "app"."Team" where "_id" = $1 for update`;
  return (await transaction.query<TeamRow>({ text, values: [teamId] })).rows[0];
}

/** The default team, kept from going away until the transaction ends; others may join it at the same time. */
export async function holdDefaultTeam(transaction: Transaction): Promise<TeamRow | undefined> {
  return (await transaction.query<TeamRow>({ text: `select ${teamColumns} from "app"."Team" where "isDefault" for key share` })).rows[0];
}

export async function teamById(database: Queryable, teamId: string): Promise<TeamRow | undefined> {
  return (await database.query<TeamRow>({ text: `select ${teamColumns} from "app"."Team" where "_id" = $1`, values: [teamId] })).rows[0];
}

export async function allTeams(database: Queryable): Promise<readonly TeamRow[]> {
  return (await database.query<TeamRow>({ text: `select ${teamColumns} from "app"."Team"` })).rows;
}

/** Only one transaction at a time makes a default team. */
export async function lockDefaultTeam(transaction: Transaction): Promise<void> {
  await transaction.query({ text: "select pg_advisory_xact_lock(hashtext('penstock.default-team'))" });
}

/** Whether an operator's team without a parent has this name. */
export async function isRootName(database: Queryable, name: string): Promise<boolean> {
  const query = sql`select 1 from "app"."Team" where "parentTeam" is null and "madeBy" is null and "name" = ${name}`;
  return (await database.query(query)).count > 0;
}

/** The team and those above it, from itself up; at most `limit`. */
export async function lineage(database: Queryable, teamId: string, limit: number): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    with recursive up(id, parent, level) as (
      select "_id", "parentTeam", 1 from "app"."Team" where "_id" = ${teamId}
      union all
      select t."_id", t."parentTeam", up.level + 1 from up join "app"."Team" t on t."_id" = up.parent where up.level < ${limit}::integer)
    select id from up order by level`);
  return rows.map(({ id }) => id);
}

/** Levels of teams below a team, itself included; counting stops at `limit`. */
export async function heightOf(database: Queryable, teamId: string, limit: number): Promise<number> {
  const { rows } = await database.query<{ height: number }>(sql`
    with recursive down(id, level) as (
      select ${teamId}::uuid, 1
      union all
      select t."_id", down.level + 1 from down join "app"."Team" t on t."parentTeam" = down.id where down.level < ${limit}::integer)
    select max(level)::integer as height from down`);
  return rows[0]?.height ?? 1;
}

/** Sub-teams whose name another team without a parent, of the same maker, has already. */
export async function namesInTheWay(database: Queryable, teamId: string): Promise<readonly string[]> {
  const { rows } = await database.query<{ name: string }>(sql`
    select c."name" from "app"."Team" c join "app"."Team" r on r."name" = c."name" and r."parentTeam" is null
      and r."madeBy" is not distinct from c."madeBy"
    where c."parentTeam" = ${teamId} and r."_id" <> ${teamId} limit 5`);
  return rows.map(({ name }) => name);
}

// --- Pages

export interface TeamPage {
  readonly skip: number;
  readonly limit: number;
  /** Field names, `-` in front for descending. */
  readonly sort: readonly string[];
  /** An id, or a part of the name. */
  readonly search?: string | undefined;
}

/** Which teams: all given parts must hold. */
export interface TeamFilter {
  readonly id?: string;
  /** `null`: teams without one. */
  readonly parent?: string | null;
  /** Teams to which the user has a direct relation. */
  readonly ofUser?: string;
}

/** How teams are shown: the parent as a record where the predicate lets it be read (`all`: always), else as its id. */
export interface TeamView {
  readonly schema: CompiledSchema;
  readonly parent?: RowPredicate | 'all' | undefined;
}

export const teamOrders = ['_id', 'name', 'isDefault', 'createdAt', 'updatedAt'] as const;
const teamOrderNames: ReadonlySet<string> = new Set(teamOrders);

/** `{"teams":[...],"count":n}` as JSON text. */
export function listTeams(database: Queryable, view: TeamView, filter: TeamFilter, page: TeamPage): Promise<string> {
  const parameters = createParameters();
  const where = [...teamConditions(filter, parameters.next), ...searched(['name'], 't', page.search, parameters.next)];
  const source = `"app"."Team" t where ${where.join(' and ')}`;
  const columns = selectList(view.schema, 't', parentTree(view), createRenderContext(parameters));
  return pageOf(database, { name: 'teams', columns, source, orders: teamOrderNames, page, parameters });
}

/** One team as JSON text. */
export async function renderTeam(database: Queryable, view: TeamView, teamId: string): Promise<string | undefined> {
  const parameters = createParameters([teamId]);
  const columns = selectList(view.schema, 't', parentTree(view), createRenderContext(parameters));
  const text = `select row_to_json(x.*)::text as json from (select ${columns} from "app"."Team" t where t."_id" = $1) x`;
  const { rows } = await database.query<{ json: string }>({ text, values: parameters.values });
  return rows[0]?.json;
}

function parentTree({ schema, parent }: TeamView): PopulateTree {
  if (parent === undefined) return new Map();
  const predicate = parent === 'all' ? undefined : parent;
  return new Map([['parentTeam', { target: schema, many: false, predicate, children: new Map() }]]);
}

function teamConditions({ id, parent, ofUser }: TeamFilter, next: Parameters['next']): readonly string[] {
  return [
    'true',
    ...(id === undefined ? [] : [`t."_id" = ${next(id)}`]),
    ...(parent === undefined ? [] : [parent === null ? 't."parentTeam" is null' : `t."parentTeam" = ${next(parent)}`]),
    ...(ofUser === undefined ? [] : [belongs(next(ofUser), next)]),
  ];
}

const belongs = (user: string, next: Parameters['next']): string => `t."_id" in (
  select ${uuidOf('r.resource_id')} from ${countingRelations} r
  where r.subject_type = 'User' and r.subject_id = ${user} and r.resource_type = 'Team' and r.relation = any(${next(teamRoles)}::text[]))`;

export const memberOrders = ['_id', 'email', 'username', 'active', 'createdAt', 'updatedAt', 'role'] as const;
const memberOrderNames: ReadonlySet<string> = new Set(memberOrders);

/** What members see of each other; operators see the whole user. */
const sharedFields = ['email', 'username', 'active', 'isVerified', 'isAnonymous'];

export interface MemberView {
  readonly schema: CompiledSchema;
  /** The whole user instead of what members see of each other. */
  readonly whole: boolean;
}

/** `{"members":[...],"count":n}` as JSON text: each user once, with the highest role that he has directly. */
export function listMembers(database: Queryable, view: MemberView, teamId: string, page: TeamPage): Promise<string> {
  const parameters = createParameters();
  const { next } = parameters;
  const roles = next(teamRoles);
  const shared = `with m as materialized (
    select ${uuidOf('r.subject_id')} as id, max(array_position(${roles}::text[], r.relation)) as rank from ${countingRelations} r
    where r.resource_type = 'Team' and r.resource_id = ${next(teamId)} and r.subject_type = 'User' and r.relation = any(${roles}::text[])
    group by r.subject_id)`;
  const where = ['true', ...searched(['email'], 't', page.search, next)].join(' and ');
  const source = `m join "app"."User" t on t."_id" = m.id where ${where}`;
  const fields = selectList(view.whole ? view.schema : narrowed(view.schema), 't', new Map(), createRenderContext(parameters));
  const columns = `${fields}, (${roles}::text[])[m.rank] as "role"`;
  return pageOf(database, { shared, name: 'members', columns, source, orders: memberOrderNames, page, parameters });
}

const narrowed = (schema: CompiledSchema): CompiledSchema => ({
  ...schema,
  tree: { ...schema.tree, fields: new Map([...schema.tree.fields].filter(([name]) => sharedFields.includes(name))) },
});

interface PageQuery {
  /** A common table expression that page and count share. */
  readonly shared?: string;
  readonly name: string;
  readonly columns: string;
  /** From `from` on, with its conditions. */
  readonly source: string;
  readonly orders: ReadonlySet<string>;
  readonly page: TeamPage;
  readonly parameters: Parameters;
}

async function pageOf(database: Queryable, { shared = '', name, columns, source, orders, page, parameters }: PageQuery): Promise<string> {
  const bounds = `limit ${parameters.next(page.limit)} offset ${parameters.next(page.skip)}`;
  const text = `${shared} select json_build_object(
      '${name}', (select coalesce(json_agg(row_to_json(x.*)), '[]') from (
        select ${columns} from ${source} order by ${ordering(page.sort, orders)} ${bounds}) x),
      'count', (select count(*) from ${source}))::text as json`;
  const { rows } = await database.query<{ json: string }>({ text, values: parameters.values });
  return rows[0]?.json ?? `{"${name}":[],"count":0}`;
}

/** Ties are broken by the id, so that pages do not overlap. */
function ordering(sort: readonly string[], known: ReadonlySet<string>): string {
  const parts = sort.map((entry) => {
    const name = entry.replace(/^-/, '');
    if (!known.has(name)) throw new Error(`there is no order by ${name}`);
    const column = name === 'role' ? 'm.rank' : `t.${identifier(name)}`;
    return `${column}${entry.startsWith('-') ? ' desc' : ''}`;
  });
  return [...parts, 't."_id"'].join(', ');
}

/** An id in full, or a part of one of the columns; its own wildcards mean nothing. */
function searched(columns: readonly string[], alias: string, search: string | undefined, next: Parameters['next']): readonly string[] {
  if (search === undefined || search === '') return [];
  const part = next(`%${search.replace(/[\\%_]/g, '\\$&')}%`);
  const parts = columns.map((column) => `${alias}.${identifier(column)} ilike ${part}`);
  return [`(${alias}."_id"::text = lower(${next(search)}) or ${parts.join(' or ')})`];
}

// --- Members

/** The highest direct role of each of these users on a team; users without one are left out. */
export async function rolesOf(database: Queryable, teamId: string, userIds: readonly string[]): Promise<ReadonlyMap<string, TeamRole>> {
  const text = `
    select subject_id as "userId", max(array_position($3::text[], relation)) as rank from ${countingRelations} r
    where resource_type = 'Team' and resource_id = $1 and subject_type = 'User' and subject_id = any($2::text[]) and relation = any($3::text[])
    group by subject_id`;
  const { rows } = await database.query<{ userId: string; rank: number }>({ text, values: [teamId, userIds, teamRoles] });
  return new Map(rows.flatMap(({ userId, rank }) => (teamRoles[rank - 1] ? [[userId, teamRoles[rank - 1] as TeamRole] as const] : [])));
}

/** Users who own a team directly. */
export async function countOwners(database: Queryable, teamId: string): Promise<number> {
  const text = `select count(distinct subject_id)::integer as count from ${countingRelations} r
    where resource_type = 'Team' and resource_id = $1 and subject_type = 'User' and relation = 'owner'`;
  return (await database.query<{ count: number }>({ text, values: [teamId] })).rows[0]?.count ?? 0;
}

/** Which of these users exist. */
export async function existingUsers(database: Queryable, userIds: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await database.query<{ id: string }>(
    sql`select "_id" as id from "app"."User" where "_id" = any(${userIds}::uuid[]) for key share`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** What team routes need to know about the user who calls. */
export interface Person {
  readonly email: string | null;
  readonly username: string | null;
  readonly isVerified: boolean;
  readonly isAnonymous: boolean;
}

export async function personById(database: Queryable, userId: string): Promise<Person | undefined> {
  const { rows } = await database.query<Person>(
    sql`select "email", "username", "isVerified", "isAnonymous" from "app"."User" where "_id" = ${userId}`,
  );
  return rows[0];
}
