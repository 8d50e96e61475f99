/** Lists of the records that fit a filter. */
import { filteredCountText } from '../count.ts';
import { recordErrors } from '../errors.ts';
import { boundedText, requireWhole } from '../page/bytes.ts';
import { orderOf } from '../page/order.ts';
import { MAX_LIMIT, type PageRow, pageOf, rangeText } from '../page/page.ts';
import { type RecordDependencies, runRead } from '../reads.ts';
import { createRenderContext, recordJson, selectList } from '../render.ts';
import type { SelectOptions } from '../store.ts';
import { filteredStatement, type Selection, selectionText } from './selection.ts';

/** `{"documents":[...],"count":n}`; `count` is of all that fit, made as the options say. */
export async function listSelected(dependencies: RecordDependencies, selection: Selection, options: SelectOptions): Promise<string> {
  const { schema, view } = selection;
  const page = pageOf({ schema, options, cursors: dependencies.cursors, filter: options.filter });
  const statement = filteredStatement(dependencies.plans, { schema, values: page.values }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters, view.conditions));
    const { before, rows, after } = page.text(where);
    const joined = `select string_agg(${recordJson(schema, 'x')}::text, ',') as page from (select ${list} from (${rows}) t0) x`;
    const documents = `select ${boundedText('p.page')} from (${joined}) p`;
    const counted = filteredCountText(schema, options.count ?? 'exact', where);
    return `${before}select '{"documents":[' || coalesce((${documents}), '') || ']' || ${counted} || '}' as json${after}`;
  });
  const [row] = await runRead<PageRow>(dependencies, schema, statement);
  return page.answer(row);
}

/** A bare JSON list of all that fit. Throws 400 when they are more than one list holds. */
export async function findSelected(dependencies: RecordDependencies, selection: Selection, sort: readonly string[]): Promise<string> {
  const { schema, view } = selection;
  const order = orderOf(schema, sort);
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(schema, 't0', view.populate, createRenderContext(parameters, view.conditions));
    const page = `select t0.* from ${schema.rows} t0 where ${where} order by ${order} ${rangeText(0, MAX_LIMIT + 1)}`;
    const joined = `select string_agg(${recordJson(schema, 'x')}::text, ',') as page, count(*)::integer as found from (select ${list} from (${page}) t0) x`;
    return `select '[' || coalesce(${boundedText('p.page')}, '') || ']' as json, p.found from (${joined}) p`;
  });
  const [row] = await runRead<{ json: string; found: number }>(dependencies, schema, statement);
  if ((row?.found ?? 0) > MAX_LIMIT) throw recordErrors.TOO_MANY_RECORDS();
  return requireWhole(row?.json ?? '[]');
}
