/** Pages of teams and of their members, rendered as clients get them. */
import type { PopulateTree } from '../../../../data/records/read/projection.ts';
import { createRenderContext, selectList } from '../../../../data/records/read/render.ts';
import {
  createParameters,
  type Parameters,
} from '../../../../data/records/sql/prepared-statements.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { type Field, readRuleOf } from '../../../../data/schema/language/field.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { countingRelations, uuidOf } from '../../../authorization/index.ts';
import { teamRoles } from '../../schemas.ts';

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
export function listTeams(
  database: Queryable,
  view: TeamView,
  filter: TeamFilter,
  page: TeamPage,
): Promise<string> {
  const parameters = createParameters();
  const where = [
    ...teamConditions(filter, parameters.next),
    ...searched(['t."name"'], page.search, parameters.next),
  ];
  const source = `"app"."Team" t where ${where.join(' and ')}`;
  const columns = selectList(view.schema, 't', parentTree(view), createRenderContext(parameters));
  return pageOf(database, {
    name: 'teams',
    columns,
    source,
    orders: teamOrderNames,
    page,
    parameters,
  });
}

/** One team as JSON text. */
export async function renderTeam(
  database: Queryable,
  view: TeamView,
  teamId: string,
): Promise<string | undefined> {
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

function teamConditions(
  { id, parent, ofUser }: TeamFilter,
  next: Parameters['next'],
): readonly string[] {
  return [
    'true',
    ...(id === undefined ? [] : [`t."_id" = ${next(id)}`]),
    ...(parent === undefined
      ? []
      : [parent === null ? 't."parentTeam" is null' : `t."parentTeam" = ${next(parent)}`]),
    ...(ofUser === undefined ? [] : [belongs(next(ofUser), next)]),
  ];
}

const belongs = (user: string, next: Parameters['next']): string => `t."_id" in (
  select ${uuidOf('r.resource_id')} from ${countingRelations} r
  where r.subject_type = 'User' and r.subject_id = ${user} and r.resource_type = 'Team' and r.relation = any(${next(teamRoles)}::text[]))`;

export const memberOrders = [
  '_id',
  'email',
  'username',
  'active',
  'createdAt',
  'updatedAt',
  'role',
] as const;

const memberOrderNames: ReadonlySet<string> = new Set(memberOrders);

/** What members see of each other beside the address; operators see the whole user. */
const sharedFields = ['username', 'active', 'isVerified', 'isAnonymous'];
/** Of a member who was added without being asked the others see none, find none and get no order by it. */
const sharedAddress = 'case when a.user_id is null then t."email" end';

interface MemberView {
  readonly schema: CompiledSchema;
  /** The whole user instead of what members see of each other. */
  readonly whole: boolean;
  /** Further fields that users may know of each other. */
  readonly profile: ReadonlySet<string>;
}

/** `{"members":[...],"count":n}` as JSON text: each user once, with the highest role that they have directly. */
export function listMembers(
  database: Queryable,
  view: MemberView,
  teamId: string,
  page: TeamPage,
): Promise<string> {
  const parameters = createParameters();
  const { next } = parameters;
  const [roles, team] = [next(teamRoles), next(teamId)];
  const address = view.whole ? 't."email"' : sharedAddress;
  const shared = `with m as materialized (
    select ${uuidOf('r.subject_id')} as id, max(array_position(${roles}::text[], r.relation)) as rank from ${countingRelations} r
    where r.resource_type = 'Team' and r.resource_id = ${team}::text and r.subject_type = 'User' and r.relation = any(${roles}::text[])
    group by r.subject_id)`;
  const where = ['true', ...searched([address], page.search, next)].join(' and ');
  const source = `m join "app"."User" t on t."_id" = m.id
    left join penstock.team_unasked a on a.team_id = ${team}::text::uuid and a.user_id = m.id where ${where}`;
  const fields = selectList(
    view.whole ? view.schema : narrowed(view),
    't',
    new Map(),
    createRenderContext(parameters),
  );
  const addressColumn = view.whole ? '' : `${address} as "email", `;
  const columns = `${fields}, ${addressColumn}(${roles}::text[])[m.rank] as "role"`;
  return pageOf(database, {
    shared,
    name: 'members',
    columns,
    source,
    orders: memberOrderNames,
    expressions: new Map([
      ['role', 'm.rank'],
      ['email', address],
    ]),
    page,
    parameters,
  });
}

const narrowed = ({ schema, profile }: MemberView): CompiledSchema => {
  const isShared = (name: string, field: Field): boolean =>
    sharedFields.includes(name) || (profile.has(name) && openRules.has(readRuleOf(field).kind));
  const fields = [...schema.tree.fields].filter(([name, field]) => isShared(name, field));
  return { ...schema, tree: { ...schema.tree, fields: new Map(fields) } };
};

/** Rules of fields that every user meets. */
const openRules: ReadonlySet<string> = new Set(['public', 'user']);

interface PageQuery {
  /** A common table expression that page and count share. */
  readonly shared?: string;
  readonly name: string;
  readonly columns: string;
  /** From `from` on, with its conditions. */
  readonly source: string;
  readonly orders: ReadonlySet<string>;
  /** What is ordered by where that is no column of its own. */
  readonly expressions?: ReadonlyMap<string, string>;
  readonly page: TeamPage;
  readonly parameters: Parameters;
}

async function pageOf(
  database: Queryable,
  { shared = '', name, columns, source, orders, expressions, page, parameters }: PageQuery,
): Promise<string> {
  const bounds = `limit ${parameters.next(page.limit)} offset ${parameters.next(page.skip)}`;
  const text = `${shared} select json_build_object(
      '${name}', (select coalesce(json_agg(row_to_json(x.*)), '[]') from (
        select ${columns} from ${source} order by ${ordering(page.sort, orders, expressions)} ${bounds}) x),
      'count', (select count(*) from ${source}))::text as json`;
  const { rows } = await database.query<{ json: string }>({ text, values: parameters.values });
  return rows[0]?.json ?? `{"${name}":[],"count":0}`;
}

/** Ties are broken by the id, so that pages do not overlap. */
function ordering(
  sort: readonly string[],
  known: ReadonlySet<string>,
  expressions: ReadonlyMap<string, string> = new Map(),
): string {
  const parts = sort.map((entry) => {
    const name = entry.replace(/^-/, '');
    if (!known.has(name)) throw new Error(`there is no order by ${name}`);
    const column = expressions.get(name) ?? `t.${identifier(name)}`;
    return `${column}${entry.startsWith('-') ? ' desc' : ''}`;
  });
  return [...parts, 't."_id"'].join(', ');
}

/** An id in full, or a part of one of the texts (SQL); its own wildcards mean nothing. */
function searched(
  texts: readonly string[],
  search: string | undefined,
  next: Parameters['next'],
): readonly string[] {
  if (search === undefined || search === '') return [];
  const part = next(`%${search.replace(/[\\%_]/g, '\\$&')}%`);
  const parts = texts.map((text) => `${text} ilike ${part}`);
  return [`(t."_id"::text = lower(${next(search)}) or ${parts.join(' or ')})`];
}
