/** Lists of the records that fit a filter. */
import { recordErrors } from '../errors.ts';
import { listRange, MAX_LIMIT, orderOf, type RecordDependencies, rangeText } from '../reads.ts';
import { createRenderContext, selectList } from '../render.ts';
import type { SelectOptions } from '../store.ts';
import { filteredStatement, type Selection, selectionText } from './selection.ts';

/** `{"documents":[...],"count":n}`; `count` is of all that fit. */
export async function listSelected(dependencies: RecordDependencies, selection: Selection, options: SelectOptions): Promise<string> {
  const { schema, view } = selection;
  const { skip, limit } = listRange(options);
  const order = orderOf(schema, options.sort ?? []);
  const statement = filteredStatement(dependencies.plans, { schema, values: skip > 0 ? [skip] : [] }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters));
    const page = `select t0.* from ${schema.table} t0 where ${where} order by ${order} ${rangeText(skip, limit)}`;
    const documents = `select string_agg(row_to_json(x)::text, ',') from (select ${list} from (${page}) t0) x`;
    const count = `select count(*) from ${schema.table} t0 where ${where}`;
    return `select '{"documents":[' || coalesce((${documents}), '') || '],"count":' || (${count}) || '}' as json`;
  });
  const { rows } = await dependencies.database.query<{ json: string }>(statement);
  return rows[0]?.json ?? '{"documents":[],"count":0}';
}

/** A bare JSON list of all that fit. Throws 400 when they are more than one list holds. */
export async function findSelected(dependencies: RecordDependencies, selection: Selection, sort: readonly string[]): Promise<string> {
  const { schema, view } = selection;
  const order = orderOf(schema, sort);
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters));
    const page = `select t0.* from ${schema.table} t0 where ${where} order by ${order} ${rangeText(0, MAX_LIMIT + 1)}`;
    return `select '[' || coalesce(string_agg(row_to_json(x)::text, ','), '') || ']' as json, count(*)::integer as found from (select ${list} from (${page}) t0) x`;
  });
  const { rows } = await dependencies.database.query<{ json: string; found: number }>(statement);
  const [row] = rows;
  if ((row?.found ?? 0) > MAX_LIMIT) throw recordErrors.TOO_MANY_RECORDS();
  return row?.json ?? '[]';
}
