/** Figures of the work with the database (spec/database.md 6.2). */
import type { GaugeReading, Metrics } from '../telemetry/metrics.ts';
import type { SpanFacts, Tracing } from '../telemetry/tracing.ts';
import { cutText } from '../text.ts';
import type { ClassFigures, Database, Statement, Transaction } from './database.ts';
import { deadlockCount } from './failures.ts';
import { withoutValues } from './statement-text.ts';
import {
  createStatementTimings,
  type StatementTimings,
  statementKind,
} from './statement-timings.ts';

/** Timings that are metrics too: one histogram, by table and what is done to it. */
export function measuredStatements(metrics: Metrics): StatementTimings {
  let sent = 0;
  const read = () => [{ labels: { module_name: 'database' }, value: sent }];
  metrics.total('database_queries_total', 'Statements sent to the database', read, ['module_name']);
  const duration = metrics.histogram(
    'database_query_duration_seconds',
    'Time from a statement to its answer, by table and operation',
    ['table', 'operation'],
  );
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
    () =>
      Object.entries(database.info().connections).map(([state, value]) => ({
        labels: { state },
        value,
      })),
    ['state'],
  );
}

/** What waits for its turn, by class of statements (kernel/database/database.ts). */
export function measureQueues(metrics: Metrics, database: Pick<Database, 'info'>): void {
  const read = (figureOf: (figures: ClassFigures) => number) => (): GaugeReading =>
    Object.entries(database.info().classes).map(([name, figures]) => ({
      labels: { class: name },
      value: figureOf(figures),
    }));
  const labels = ['class'];
  metrics.gauge(
    'database_queue_length',
    'Statements and transactions that wait for their turn',
    read(({ waiting }) => waiting),
    labels,
  );
  metrics.gauge(
    'database_queue_oldest_seconds',
    'How long the first of them has waited',
    read(({ oldestMs }) => oldestMs / 1000),
    labels,
  );
  metrics.total(
    'database_queue_waits_total',
    'Turns that were waited for',
    read(({ waits }) => waits),
    labels,
  );
  metrics.total(
    'database_queue_wait_seconds_total',
    'Time that was waited for turns',
    read(({ waitedMs }) => waitedMs / 1000),
    labels,
  );
  metrics.total(
    'database_queue_refused_total',
    'Turns that did not come in time (503, or 504 at the deadline)',
    read(({ refused }) => refused),
    labels,
  );
  metrics.total(
    'database_statements_moved_total',
    'Short statements that took long and were run as pooled ones',
    () => database.info().moved,
  );
  metrics.total(
    'database_deadlocks_total',
    'Statements that the server ended because others waited for them in a circle; the work runs again',
    deadlockCount,
  );
}

/* A database whose statements are parts of the trace. Texts hold placeholders; literals beside them are taken out. */

/** Characters of a statement that a span keeps. */
const MAX_TEXT = 2_000;

export function tracedDatabase(database: Database, tracing: Tracing): Database {
  const query: Database['query'] = (statement) =>
    tracing.span(nameOf(statement), factsOf(statement), () => database.query(statement));
  const within =
    <T>(work: (transaction: Transaction) => Promise<T>) =>
    (transaction: Transaction): Promise<T> =>
      work(tracedTransaction(transaction, tracing));
  return {
    ...database,
    isTraced: true,
    query,
    transaction: (work, options) =>
      tracing.span('transaction', { 'db.system.name': 'postgresql' }, () =>
        database.transaction(within(work), options),
      ),
    part: (work) => database.part(within(work)),
  };
}

const tracedTransaction = (transaction: Transaction, tracing: Tracing): Transaction => ({
  query: (statement) =>
    tracing.span(nameOf(statement), factsOf(statement), () => transaction.query(statement)),
  afterCommit: (work, how) => transaction.afterCommit(work, how),
});

const factsOf = ({ text }: Statement): SpanFacts => ({
  'db.system.name': 'postgresql',
  'db.query.text': withoutValues(cutText(text, MAX_TEXT)),
});

/** Such as `select app.Post`: what is done, and to what. */
function nameOf({ text }: Statement): string {
  const { operation, table } = statementKind(text);
  if (table !== '') return `${operation} ${table}`;
  return (/[a-z]+/i.exec(text)?.[0] ?? 'statement').toLowerCase();
}
