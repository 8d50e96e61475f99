/** Figures of the work with the database (spec/database.md 6.2). */
import type { Database } from '../database/database.ts';
import { createStatementTimings, type StatementTimings } from '../database/timings.ts';
import type { Metrics } from './metrics.ts';

/** Timings that are metrics too: one histogram, by table and what is done to it. */
export function measuredStatements(metrics: Metrics): StatementTimings {
  let sent = 0;
  const read = () => [{ labels: { module_name: 'database' }, value: sent }];
  metrics.total('database_queries_total', 'Statements sent to the database', read, ['module_name']);
  const duration = metrics.histogram('database_query_duration_seconds', 'Time from a statement to its answer, by table and operation', [
    'table',
    'operation',
  ]);
  return createStatementTimings({
    observer({ table, operation }) {
      const observe = duration.bind({ table, operation });
      return (seconds) => {
        sent += 1;
        observe(seconds);
      };
    },
  });
}

/** `waiting` above 0 for long: the pool is too small for what is asked, or the server too slow. */
export function measureConnections(metrics: Metrics, database: Pick<Database, 'info'>): void {
  metrics.gauge(
    'database_connections',
    'Connections of this node to the database, and statements that wait for one',
    () => Object.entries(database.info().connections).map(([state, value]) => ({ labels: { state }, value })),
    ['state'],
  );
}
