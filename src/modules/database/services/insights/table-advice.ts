/** Tables that are read whole, or that the server has not cleaned up. */
import { identifier } from '../../../../kernel/database/sql.ts';
import type { TableFacts } from '../../insight-queries.ts';
import { type Advice, about, type Looked, number } from './advice.ts';
import { isPlatformTable, tableKey } from './known-tables.ts';

/** Share of a table's rows that are dead from which on cleaning is due. */
const DEAD_SHARE = 0.2;
/** Rows of a table from which on reading all of it is worth a word, and how often that must have happened. */
const LARGE = 10_000;
const OFTEN = 50;
/** Half of what PostgreSQL can count; at that of all it stops taking writes. */
const OLD = 1_000_000_000;

export const tableAdvice = (looked: Looked): readonly Advice[] => looked.tables.flatMap((table) => adviceOf(looked, table));

function adviceOf({ known, minRows }: Looked, table: TableFacts): readonly Advice[] {
  const key = tableKey(table.schema, table.name);
  const schema = known.get(key);
  const facts = about(key, schema);
  const vacuum = `vacuum (analyze) ${identifier(table.schema)}.${identifier(table.name)}`;
  const advice: Advice[] = [];
  if (!isPlatformTable(key) && isReadWhole(table)) {
    const message =
      `All ${number(table.rows)} rows were read ${number(table.scans)} times. Exact counts of lists do that (ask with count=estimated ` +
      'or page with a cursor and count=none), and filters and orders without an index: see the other advice, and POST /database/insights/explain';
    advice.push({ kind: 'full-reads', severity: 'info', ...facts, message });
  }
  if (table.deadRows >= Math.max(minRows, 1) && table.deadRows > DEAD_SHARE * (table.rows + table.deadRows)) {
    const message = `${number(table.deadRows)} dead rows beside ${number(table.rows)} live ones: reads go through them until autovacuum comes, or somebody runs vacuum`;
    advice.push({ kind: 'dead-rows', severity: 'warning', ...facts, message, sql: vacuum });
  }
  if (table.rows >= Math.max(minRows, 1) && table.analyzedAt === null) {
    const message = `The planner knows nothing about these ${number(table.rows)} rows yet and guesses; autovacuum analyses tables some time after they were filled`;
    advice.push({ kind: 'no-statistics', severity: 'info', ...facts, message, sql: vacuum });
  }
  if (table.age > OLD) {
    const message = `${number(table.age)} transactions since its oldest row was frozen: let autovacuum run, and end transactions and replication slots that hold it up`;
    advice.push({ kind: 'old-transactions', severity: 'critical', ...facts, message, sql: vacuum });
  }
  return advice;
}

const isReadWhole = ({ rows, scans, scannedRows }: TableFacts): boolean =>
  rows >= LARGE && scans >= OFTEN && scannedRows / scans > rows / 2;
