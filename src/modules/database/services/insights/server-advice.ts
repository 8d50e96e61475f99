/** The server as a whole: memory, connections, transactions that stay open, and what is slow. */
import { type Advice, about, type Looked, number } from './advice.ts';
import { isPlatformTable } from './known-tables.ts';

const LOW_HIT_RATIO = 0.95;
/** Blocks read from disk before a ratio means anything. */
const ENOUGH_READS = 10_000;
const FULL = 0.8;
/** Seconds. */
const LONG_OPEN = 300;
/** Milliseconds within which 19 of 20 statements should be answered, and statements before that says anything. */
const SLOW_MS = 100;
const ENOUGH = 20;

export const serverAdvice = (looked: Looked): readonly Advice[] => [
  ...slowAdvice(looked),
  ...cacheAdvice(looked),
  ...connectionAdvice(looked),
];

function slowAdvice({ statements, known }: Looked): readonly Advice[] {
  return statements
    .filter(({ table, count, p95 }) => count >= ENOUGH && p95 > SLOW_MS && table !== '' && !isPlatformTable(table))
    .map(({ operation, table, count, p95 }) => ({
      kind: 'slow-statements',
      severity: 'warning',
      ...about(table, known.get(table)),
      message: `One in twenty of ${number(count)} statements that ${operation} took longer than ${number(p95)} ms: ask POST /database/insights/explain how one is answered`,
    }));
}

/** Share of blocks that were found in the server's own memory; 1 while nothing was read. */
export const hitRatio = ({ cacheHits, diskReads }: { readonly cacheHits: number; readonly diskReads: number }): number =>
  cacheHits + diskReads === 0 ? 1 : cacheHits / (cacheHits + diskReads);

function cacheAdvice({ server }: Looked): readonly Advice[] {
  const ratio = hitRatio(server);
  if (server.diskReads < ENOUGH_READS || ratio >= LOW_HIT_RATIO) return [];
  const message = `Only ${number(ratio * 100)} % of the blocks that were needed were in memory: give the server more (shared_buffers), or let it read less (indexes)`;
  return [{ kind: 'cache', severity: 'warning', message }];
}

function connectionAdvice({ server }: Looked): readonly Advice[] {
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
