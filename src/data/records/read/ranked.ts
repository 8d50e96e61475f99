/** Records in an order that was made elsewhere, such as by a search index: only those that the caller may read. */

import { errors } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Field } from '../../schema/language/field.ts';
import { boundedRows, requireWholeRows } from '../answer-bytes.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { MatchingOptions, RankedOptions, RankedRecord } from '../store.ts';
import { type RecordDependencies, runRead } from './record-view.ts';
import { createRenderContext, recordJson, selectList } from './render.ts';
import { chosen, filteredStatement, type Selection, selectionText } from './selection.ts';

/** Permission, filter, order and records in one statement. */
export async function rankedSelected(
  dependencies: RecordDependencies,
  selection: Selection,
  options: RankedOptions,
): Promise<readonly RankedRecord[]> {
  const { schema, view } = selection;
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const first = firstRanked(selection, options, parameters);
    const named = `p as materialized (${first})`;
    if (options.idsOnly)
      return `with ${named} select p.id::text as id, p.n::integer - 1 as place, '' as json from p order by p.n`;
    const context = createRenderContext(parameters, view.conditions);
    const list = selectList(schema, 't0', view.populate, context);
    const record = chosen(schema, recordJson(schema, 'x'), options.select);
    const rows = `select p.id::text as id, p.n::integer - 1 as place, (${record})::text as t from p join (select ${list} from ${schema.rows} t0 where t0."_id" in (select id from p)) x on x."_id" = p.id order by p.n`;
    return `with ${named} ${boundedRows('w.id, w.place', rows)} order by w.place`;
  });
  return requireWholeRows(await runRead<RankedRecord>(dependencies, schema, statement));
}

/** Of so many records each is asked for by itself: finding all that the caller may read takes longer. */
const MAX_ASKED = 1_000;

/** The first rows, in the given order, that fit; ids that lead nowhere are passed over. */
function firstRanked(
  selection: Selection,
  { ids, limit }: RankedOptions,
  parameters: Parameters,
): string {
  const { schema } = selection;
  const given = `unnest(${parameters.next(ids)}::${idType(schema)}[]) with ordinality c(id, n)`;
  const use = ids.length <= MAX_ASKED ? 'row' : 'rows';
  const where = selectionText(selection, parameters, use);
  return (
    `select c.n, t0."_id" as id from ${given} join ${schema.rows} t0 on ${idTest(schema, 't0', 'c.id')} ` +
    `where ${where} order by c.n limit ${parameters.next(limit)}::integer`
  );
}

const idType = ({ mapping }: CompiledSchema): 'uuid' | 'text' => (mapping ? 'text' : 'uuid');

/** Ids of records that fit, in no order. */
export async function matchingSelected(
  dependencies: RecordDependencies,
  selection: Selection,
  { limit }: MatchingOptions,
): Promise<readonly string[]> {
  const { schema } = selection;
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = selectionText(selection, parameters);
    const found = `select t0."_id"::text as id from ${schema.rows} t0 where ${where} limit ${parameters.next(limit)}::integer`;
    // One row with all of them: thousands of rows cost more than finding them.
    return `select coalesce(json_agg(f.id), '[]')::text as ids from (${found}) f`;
  });
  const [row] = await runRead<{ readonly ids: string }>(dependencies, schema, statement);
  return JSON.parse(row?.ids ?? '[]') as readonly string[];
}

/** Throws 403 when the caller does not see one of the fields, or what it stands in: an order tells what is in them. */
export function requireVisible({ tree }: CompiledSchema, paths: readonly string[]): void {
  for (const path of paths) {
    let inside: Field = tree;
    for (const step of path.split('.')) {
      const next: Field | undefined = fieldsIn(inside)?.get(step);
      if (!next || next.hidden) throw errors.FORBIDDEN();
      inside = next;
    }
  }
}

/** Of an object, and of those in a list. */
function fieldsIn(field: Field): ReadonlyMap<string, Field> | undefined {
  if (field.kind === 'array') return fieldsIn(field.items);
  return field.kind === 'object' ? field.fields : undefined;
}
