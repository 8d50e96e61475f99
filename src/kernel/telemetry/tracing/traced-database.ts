/** A database whose statements are parts of the trace. Texts hold placeholders, never values. */

import type { Database, Statement, Transaction } from '../../database/database.ts';
import { statementKind } from '../../database/timings.ts';
import { cutText } from '../../text.ts';
import type { SpanFacts, Tracing } from './tracing.ts';

/** Characters of a statement that a span keeps. */
const MAX_TEXT = 2_000;

export function tracedDatabase(database: Database, tracing: Tracing): Database {
  const query: Database['query'] = (statement) => tracing.span(nameOf(statement), factsOf(statement), () => database.query(statement));
  const within =
    <T>(work: (transaction: Transaction) => Promise<T>) =>
    (transaction: Transaction): Promise<T> =>
      work(tracedTransaction(transaction, tracing));
  return {
    ...database,
    query,
    transaction: (work, options) =>
      tracing.span('transaction', { 'db.system.name': 'postgresql' }, () => database.transaction(within(work), options)),
    part: (work) => database.part(within(work)),
  };
}

const tracedTransaction = (transaction: Transaction, tracing: Tracing): Transaction => ({
  query: (statement) => tracing.span(nameOf(statement), factsOf(statement), () => transaction.query(statement)),
  afterCommit: (work) => transaction.afterCommit(work),
});

const factsOf = ({ text }: Statement): SpanFacts => ({ 'db.system.name': 'postgresql', 'db.query.text': cutText(text, MAX_TEXT) });

/** Such as `select app.Post`: what is done, and to what. */
function nameOf({ text }: Statement): string {
  const { operation, table } = statementKind(text);
  if (table !== '') return `${operation} ${table}`;
  return (/[a-z]+/i.exec(text)?.[0] ?? 'statement').toLowerCase();
}
