/** Searches of words in a list: what has the words is found first, then put in order. */
import { type RecordDependencies, runRead } from './record-view.ts';
import { filteredStatement, type Selection } from './selection.ts';

/** Records with the words of a search that are found first; of more, an order leads to the first ones sooner. */
const MAX_HITS = 2_000;

/**
 * The selection among the records that have the words it searches for, when these are few. Asked for an order and its
 * first rows, PostgreSQL takes any word for a frequent one and follows the order through all rows, which it does not know
 * to be in vain; the few rows that the index of words leads to are put in order at once.
 */
export async function foundFirst(
  dependencies: RecordDependencies,
  selection: Selection,
): Promise<Selection> {
  const { schema, filter } = selection;
  const { search } = filter;
  if (!search || schema.mapping) return selection;
  const statement = filteredStatement(
    dependencies.plans,
    { schema },
    (parameters) =>
      `select t0."_id"::text as id from ${schema.rows} t0 where ${search.compile('t0', parameters)} limit ${MAX_HITS + 1}`,
  );
  const rows = await runRead<{ readonly id: string }>(dependencies, schema, statement);
  return rows.length > MAX_HITS ? selection : { ...selection, hits: rows.map(({ id }) => id) };
}
