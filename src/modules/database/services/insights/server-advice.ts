/** The server as a whole: memory, connections, transactions that stay open, and what is slow. */

import type { Database } from '../../../../kernel/database/database.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import { withoutValues } from '../../../../kernel/database/statement-text.ts';
import { cutText } from '../../../../kernel/text.ts';
import {
  type Advice,
  about,
  type CollectedStatistics,
  isPlatformTable,
  number,
  tableKey,
} from './advice.ts';
import { readServerStatements, type ServerStatement, type TableFacts } from './queries.ts';

/* The server's own statistics of statements, where the extension pg_stat_statements is installed. */

const MAX_TEXT = 500;

/** `undefined` where the extension is missing, or not loaded into the server. */
export async function serverStatements(
  database: Database,
  schema: string | null,
): Promise<readonly ServerStatement[] | undefined> {
  if (schema === null) return undefined;
  try {
    const found = await database.part((part) => readServerStatements(part, schema));
    return found.map((statement) => ({
      ...statement,
      // The extension puts placeholders for values, but for some that it saw too late, and leaves comments.
      text: cutText(withoutValues(statement.text), MAX_TEXT),
    }));
  } catch {
    return undefined;
  }
}

/* Tables that are read whole, or that the server has not cleaned up. */

/** Share of a table's rows that are dead from which on cleaning is due. */
const DEAD_SHARE = 0.2;
/** Rows of a table from which on reading all of it is worth a word, and how often that must have happened. */
const LARGE = 10_000;
const OFTEN = 50;
/** Half of what PostgreSQL can count; at that of all it stops taking writes. */
const OLD = 1_000_000_000;

export const tableAdvice = (statistics: CollectedStatistics): readonly Advice[] =>
  statistics.tables.flatMap((table) => adviceOf(statistics, table));

function adviceOf({ known, minRows }: CollectedStatistics, table: TableFacts): readonly Advice[] {
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
  if (
    table.deadRows >= Math.max(minRows, 1) &&
    table.deadRows > DEAD_SHARE * (table.rows + table.deadRows)
  ) {
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

const LOW_HIT_RATIO = 0.95;
/** Blocks read from disk before a ratio means anything. */
const ENOUGH_READS = 10_000;
const FULL = 0.8;
/** Seconds. */
const LONG_OPEN = 300;
/** Milliseconds within which 19 of 20 statements should be answered, and statements before that says anything. */
const SLOW_MS = 100;
const ENOUGH = 20;

export const serverAdvice = (statistics: CollectedStatistics): readonly Advice[] => [
  ...slowAdvice(statistics),
  ...cacheAdvice(statistics),
  ...connectionAdvice(statistics),
];

function slowAdvice({ statements, known }: CollectedStatistics): readonly Advice[] {
  return statements
    .filter(
      ({ table, count, p95 }) =>
        count >= ENOUGH && p95 > SLOW_MS && table !== '' && !isPlatformTable(table),
    )
    .map(({ operation, table, count, p95 }) => ({
      kind: 'slow-statements',
      severity: 'warning',
      ...about(table, known.get(table)),
      message: `One in twenty of ${number(count)} statements that ${operation} took longer than ${number(p95)} ms: ask POST /database/insights/explain how one is answered`,
    }));
}

/** Share of blocks that were found in the server's own memory; 1 while nothing was read. */
export const hitRatio = ({
  cacheHits,
  diskReads,
}: {
  readonly cacheHits: number;
  readonly diskReads: number;
}): number => (cacheHits + diskReads === 0 ? 1 : cacheHits / (cacheHits + diskReads));

function cacheAdvice({ server }: CollectedStatistics): readonly Advice[] {
  const ratio = hitRatio(server);
  if (server.diskReads < ENOUGH_READS || ratio >= LOW_HIT_RATIO) return [];
  const message = `Only ${number(ratio * 100)} % of the blocks that were needed were in memory: give the server more (shared_buffers), or let it read less (indexes)`;
  return [{ kind: 'cache', severity: 'warning', message }];
}

function connectionAdvice({ server }: CollectedStatistics): readonly Advice[] {
  const { connections, maxConnections, oldestTransaction, idleInTransaction } = server;
  const advice: Advice[] = [];
  if (connections > FULL * maxConnections) {
    const message = `${connections} of ${maxConnections} connections are in use: raise max_connections, run fewer nodes, or put a pooler in front`;
    advice.push({ kind: 'connections', severity: 'critical', message });
  }
  if (oldestTransaction > LONG_OPEN) {
    const message =
      `A transaction has been open for ${number(oldestTransaction)} seconds (${idleInTransaction} wait idle in one): ` +
      'until it ends, no dead row that it might see is cleaned up. Look for it in pg_stat_activity';
    advice.push({ kind: 'open-transaction', severity: 'warning', message });
  }
  return advice;
}
