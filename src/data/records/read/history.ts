/** Earlier versions of records, read through the same select list as the records themselves: what hides a field now hides it there. */
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../../../kernel/caller.ts';
import type { Statement } from '../../../kernel/database/database.ts';
import { instantText } from '../../../kernel/database/sql.ts';
import { isId } from '../../../kernel/ids.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { AccessRule } from '../../schema/language/field.ts';
import { historyTable } from '../../schema/migrations.ts';
import { isTrusted, requireOffered } from '../access/operation-access.ts';
import { recordErrors } from '../errors.ts';
import { listRange } from '../page/page.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import type { HistoryOptions, VersionOptions } from '../store.ts';
import type { RowConditions } from './projection.ts';
import { isDynamic, type RecordDependencies, type View, viewOf, viewShape } from './record-view.ts';
import { createRenderContext, recordJson, selectList } from './render.ts';

/** Whose history is asked for, by whom. */
export interface HistoryRequest {
  readonly dependencies: RecordDependencies;
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly id: string;
  readonly scope: string | undefined;
}

/** Throws 404 for a schema that keeps no history. */
export function requireHistory({ history, name }: CompiledSchema): void {
  if (!history)
    throw recordErrors.HISTORY_DISABLED({
      message: `${name} does not keep earlier versions of its records: switch history on`,
    });
}

/** What the caller may see, after it is sure that they may read the record as it is now. Throws 401, 404 or 503. */
async function viewOfHistory({
  dependencies,
  caller,
  schema,
  id,
  scope,
}: HistoryRequest): Promise<View> {
  requireHistory(schema);
  requireOffered(caller, schema, 'read');
  if (!isId(id)) throw recordErrors.RECORD_NOT_FOUND();
  const view = await viewOf(dependencies, caller, schema, {
    ...(scope !== undefined && { scope }),
    ids: [id],
  });
  // Operators see the history also of records that are gone.
  if (isTrusted(caller)) return view;
  const rules = [...(schema.fieldVisibility?.conditional.values() ?? [])];
  const request = {
    schema,
    shape: `seen now|${viewShape(view)}`,
    values: [id],
    dynamic: isDynamic(view),
  };
  const statement = dependencies.plans.statement(request, (parameters) => {
    const tests = rules.map(
      (rule) => view.conditions?.test(schema, rule, { alias: 't0', parameters }) ?? 'false',
    );
    const where = `t0."_id" = $1${restriction(view.predicate, 't0', parameters)}`;
    return `select array[${tests.join(', ')}]::boolean[] as holds from ${schema.rows} t0 where ${where}`;
  });
  const [now] = (
    await dependencies.database.query<{ holds: readonly (boolean | null)[] }>(statement)
  ).rows;
  if (!now) throw recordErrors.RECORD_NOT_FOUND();
  const holding = new Set(rules.filter((_, i) => now.holds[i]));
  return { ...view, conditions: rules.length > 0 ? resolved(now.holds, holding) : undefined };
}

/** What depends on the record depends on the record as it is now: whoever owned it before sees no more of it than others. */
const resolved = (
  holds: readonly (boolean | null)[],
  holding: ReadonlySet<AccessRule>,
): RowConditions => ({
  shape: `resolved:${holds.join()}`,
  test: (_, rule) => String(holding.has(rule)),
});

/** Clients learn which user changed a record, but not which operator. */
const actorText = (caller: Caller): string =>
  isTrusted(caller)
    ? 'h.actor'
    : `case when h.actor like 'user:%' then h.actor else split_part(h.actor, ':', 1) end`;

/** `{"versions":[{version,operation,at,by}],"count":n}`, the youngest first. */
export async function listVersions(
  request: HistoryRequest,
  options: HistoryOptions,
): Promise<string> {
  const { dependencies, caller, schema, id } = request;
  const { skip, limit } = listRange(options);
  await viewOfHistory(request);
  const of = 'h.schema = $1 and h.record_id = $2';
  const entry = `json_build_object('version', h.version, 'operation', h.operation, 'at', ${instantText('h.at')}, 'by', ${actorText(caller)})::text as entry`;
  const page = `select ${entry} from ${historyTable} h where ${of} order by h.version desc, h.id desc offset $3 limit $4`;
  const text =
    `select '{"versions":[' || coalesce((select string_agg(v.entry, ',') from (${page}) v), '') || '],"count":' ` +
    `|| (select count(*) from ${historyTable} h where ${of}) || '}' as json`;
  const { rows } = await dependencies.database.query<{ json: string }>({
    text,
    values: [schema.name, id.toLowerCase(), skip, limit],
  });
  return rows[0]?.json ?? '{"versions":[],"count":0}';
}

interface StoredVersion {
  readonly version: number;
  readonly operation: string;
  readonly at: string;
  readonly by: string;
  readonly json: string;
}

/** One version, with what changed between it and the one that it is compared with. */
export async function readVersion(
  request: HistoryRequest,
  version: number,
  { compare = 'next' }: VersionOptions,
): Promise<string> {
  const view = await viewOfHistory(request);
  const stored = await storedVersion(request, view, {
    where: 'h.version = $3',
    order: 'h.id desc',
    version,
  });
  if (!stored) throw recordErrors.VERSION_NOT_FOUND();
  const { json, ...facts } = stored;
  const next =
    compare === 'next'
      ? await storedVersion(request, view, {
          where: 'h.version > $3',
          order: 'h.version, h.id desc',
          version,
        })
      : undefined;
  const other = next?.json ?? (await currentRecord(request, view));
  const changes = other === undefined ? 'null' : JSON.stringify(differences(json, other));
  return `${JSON.stringify(facts).slice(0, -1)},"document":${json},"changes":${changes}}`;
}

interface VersionQuestion {
  /** About the row `h`; `$3` is the version. */
  readonly where: string;
  readonly order: string;
  readonly version: number;
}

async function storedVersion(
  { dependencies, caller, schema, id }: HistoryRequest,
  view: View,
  { where, order, version }: VersionQuestion,
): Promise<StoredVersion | undefined> {
  const values = [schema.name, id.toLowerCase(), version];
  const shape = `version|${where}|${isTrusted(caller)}|${viewShape(view)}`;
  const statement = dependencies.plans.statement(
    { schema, shape, values, dynamic: isDynamic(view) },
    (parameters) => {
      const old = `jsonb_populate_record(null::${schema.table}, h.data) t0`;
      const json = `(select ${recordJson(schema, 'x')}::text from (select ${listOf(schema, view, parameters)} from ${old}) x) as json`;
      const facts = `h.version, h.operation, ${instantText('h.at')} as at, ${actorText(caller)} as by`;
      return (
        `select ${facts}, ${json} from ${historyTable} h ` +
        `where h.schema = $1 and h.record_id = $2 and ${where} order by ${order} limit 1`
      );
    },
  );
  const { rows } = await dependencies.database.query<StoredVersion>(statement);
  return rows[0];
}

const listOf = (schema: CompiledSchema, { conditions }: View, parameters: Parameters): string =>
  selectList(schema, 't0', new Map(), createRenderContext(parameters, conditions));

/** The record as it is; for operators also when it is in the trash. */
async function currentRecord(
  { dependencies, caller, schema, id }: HistoryRequest,
  view: View,
): Promise<string | undefined> {
  const from = isTrusted(caller) ? schema.table : schema.rows;
  const shape = `now|${isTrusted(caller)}|${viewShape(view)}`;
  const statement: Statement = dependencies.plans.statement(
    { schema, shape, values: [id], dynamic: isDynamic(view) },
    (parameters) => {
      const list = listOf(schema, view, parameters);
      const where = `t0."_id" = $1${restriction(view.predicate, 't0', parameters)}`;
      return `select ${recordJson(schema, 'x')}::text as json from (select ${list} from ${from} t0 where ${where}) x`;
    },
  );
  const { rows } = await dependencies.database.query<{ json: string }>(statement);
  return rows[0]?.json;
}

interface Difference {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

/** Kept by the platform: they differ in every version. */
const automatic: ReadonlySet<string> = new Set(['_id', '__v', 'createdAt', 'updatedAt']);

function differences(before: string, after: string): readonly Difference[] {
  const [from, to] = [before, after].map((json) => JSON.parse(json) as Record<string, unknown>);
  if (!from || !to) return [];
  const fields = [...new Set([...Object.keys(from), ...Object.keys(to)])].filter(
    (field) => !automatic.has(field),
  );
  return fields
    .filter((field) => !isDeepStrictEqual(from[field], to[field]))
    .map((field) => ({ field, from: from[field] ?? null, to: to[field] ?? null }));
}

/** Versions that one statement lets go of. */
const PRUNE_BATCH = 5_000;

/** Answers how many versions were older than the schema keeps them. */
export async function pruneHistory(
  { database }: RecordDependencies,
  schema: CompiledSchema,
  signal: AbortSignal,
): Promise<number> {
  const days = schema.history?.retainDays;
  if (days === undefined) return 0;
  const old = `select id from ${historyTable} where schema = $1 and at < now() - make_interval(days => $2::integer) order by at limit ${PRUNE_BATCH}`;
  let pruned = 0;
  for (;;) {
    signal.throwIfAborted();
    const { count } = await database.query({
      text: `delete from ${historyTable} where id in (${old})`,
      values: [schema.name, days],
    });
    pruned += count;
    if (count < PRUNE_BATCH) return pruned;
  }
}
