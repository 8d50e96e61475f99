/** Statements of the service for other modules that the record engine has no word for. */
import type { Queryable } from '../../kernel/database/database.ts';

/** Until the transaction ends, nobody else holds the same question. */
export const holdQuery = (transaction: Queryable, schema: string, query: unknown): Promise<unknown> =>
  transaction.query({ text: 'select pg_advisory_xact_lock(hashtextextended($1, 1))', values: [`${schema} ${JSON.stringify(query)}`] });
