/** Reading: one statement per request, whose answer is the JSON that goes out. */
import type { Caller } from '../caller.ts';
import type { Database, Statement } from '../database/database.ts';
import { identifier } from '../database/sql.ts';
import { invalid } from '../errors.ts';
import { isId } from '../ids.ts';
import type { PermissionPort, RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { shown } from '../schema/names.ts';
import type { SchemaRegistry } from '../schema/registry.ts';
import { isRowAuthorised, rowPredicate } from './access.ts';
import { countText } from './count.ts';
import { recordErrors } from './errors.ts';
import { restriction } from './parameters.ts';
import type { PlanCache } from './plan-cache.ts';
import { isRestricted, noPopulate, type PopulateTree, populateShape, resolvePopulate } from './populate.ts';
import { createRenderContext, selectList } from './render.ts';
import type { ListOptions, ReadOptions, RecordText } from './store.ts';

const DEFAULT_LIMIT = 25;
/** Records of one list. */
export const MAX_LIMIT = 1_000;
const MAX_SORT = 8;

export interface RecordDependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly plans: PlanCache;
}

/** What a read shows, with the rights of the caller worked out. */
export interface View {
  readonly predicate: RowPredicate | undefined;
  readonly populate: PopulateTree;
}

const wholeView: View = { predicate: undefined, populate: noPopulate };

/** Answers without waiting when nothing has to be asked: the common case. */
export function viewOf(
  dependencies: RecordDependencies,
  caller: Caller,
  schema: CompiledSchema,
  { populate = [], scope }: ReadOptions,
): View | Promise<View> {
  const restricted = isRowAuthorised(caller, schema);
  if (!restricted && populate.length === 0) return wholeView;
  return resolveView(dependencies, { caller, schema, paths: populate, scope, restricted });
}

interface ViewRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly paths: readonly string[];
  readonly scope: string | undefined;
  readonly restricted: boolean;
}

async function resolveView(dependencies: RecordDependencies, request: ViewRequest): Promise<View> {
  const { caller, schema, scope, restricted } = request;
  const predicate = restricted ? await rowPredicate(dependencies.permissions, { caller, schema, action: 'read', scope }) : undefined;
  return { predicate, populate: await resolvePopulate(dependencies, request) };
}

export const viewShape = ({ predicate, populate }: View): string => `${predicate?.shape ?? ''}|${populateShape(populate)}`;
export const isDynamic = ({ predicate, populate }: View): boolean => predicate !== undefined || isRestricted(populate);

/** A row of what every statement on records answers; it is the record text as it stands. */
export type RecordRow = RecordText;

/** `row_to_json` over the list: the fastest of five ways that were measured (docs/decisions). */
export const recordColumns = 'x."_id" as id, x."__v" as version, row_to_json(x)::text as json';

export async function getRecord(dependencies: RecordDependencies, schema: CompiledSchema, id: string, view: View): Promise<RecordText> {
  if (!isId(id)) throw recordErrors.RECORD_NOT_FOUND();
  const { rows } = await dependencies.database.query<RecordRow>(getStatement(dependencies.plans, schema, id, view));
  const [row] = rows;
  if (!row) throw recordErrors.RECORD_NOT_FOUND();
  return row;
}

function getStatement(plans: PlanCache, schema: CompiledSchema, id: string, view: View): Statement {
  const shape = view === wholeView ? 'get' : `get|${viewShape(view)}`;
  return plans.statement({ schema, shape, values: [id], dynamic: isDynamic(view) }, (parameters) => {
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters));
    const where = `t0."_id" = $1${restriction(view.predicate, 't0', parameters)}`;
    return `select ${recordColumns} from (select ${list} from ${schema.table} t0 where ${where}) x`;
  });
}

export async function listRecords(
  dependencies: RecordDependencies,
  schema: CompiledSchema,
  options: ListOptions,
  view: View,
): Promise<string> {
  const { skip, limit } = listRange(options);
  const order = orderOf(schema, options.sort ?? []);
  const mode = options.count ?? 'exact';
  const shape = `list|${mode}|${skip > 0}|${limit}|${order}|${view === wholeView ? '' : viewShape(view)}`;
  const values = skip > 0 ? [skip] : [];
  const statement = dependencies.plans.statement({ schema, shape, values, dynamic: isDynamic(view) }, (parameters) => {
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters));
    const where = `true${restriction(view.predicate, 't0', parameters)}`;
    // The rows of the page are found first: what is skipped or sorted away is never rendered.
    const page = `select t0.* from ${schema.table} t0 where ${where} order by ${order} ${rangeText(skip, limit)}`;
    const documents = `select string_agg(row_to_json(x)::text, ',') from (select ${list} from (${page}) t0) x`;
    const counted = countText(schema, mode, view.predicate, parameters);
    return `select '{"documents":[' || coalesce((${documents}), '') || ']' || ${counted} || '}' as json`;
  });
  const { rows } = await dependencies.database.query<{ json: string }>(statement);
  return rows[0]?.json ?? '{"documents":[],"count":0}';
}

/** The part of a list that is asked for. Throws 400. */
export function listRange({ skip = 0, limit = DEFAULT_LIMIT }: ListOptions): { readonly skip: number; readonly limit: number } {
  if (!Number.isSafeInteger(skip) || skip < 0) throw invalid('skip', 'minimum', 'must be a whole number, 0 or more');
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw invalid('limit', 'range', `must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  return { skip, limit };
}

/**
 * With the limit as a number, and the offset where the planner cannot look at it, PostgreSQL finds that
 * a plan for all values is as good as one for these, and plans once instead of for each page.
 */
export const rangeText = (skip: number, limit: number): string =>
  skip > 0 ? `offset (select $1::bigint) limit ${limit}` : `limit ${limit}`;

/** `order by` of checked names; the id decides between equals, so that pages do not overlap. */
export function orderOf(schema: CompiledSchema, sort: readonly string[]): string {
  if (sort.length === 0) return 't0."_id"';
  if (sort.length > MAX_SORT) throw invalid('sort', 'maxItems', `at most ${MAX_SORT} fields`);
  const terms = new Map<string, string>();
  for (const item of sort) {
    const descending = item.startsWith('-');
    const name = descending || item.startsWith('+') ? item.slice(1) : item;
    if (!schema.sortable.has(name)) throw invalid('sort', 'field', `"${shown(name)}" is not a field to sort by`);
    if (!terms.has(name)) terms.set(name, `t0.${identifier(name)}${descending ? ' desc' : ''}`);
  }
  if (!terms.has('_id')) terms.set('_id', 't0."_id"');
  return [...terms.values()].join(', ');
}
