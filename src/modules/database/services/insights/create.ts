/** Insight into the database for operators: figures, and what to do about them. */

import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { codeOf } from '../../../../kernel/database/failures.ts';
import type { StatementFigures, StatementTimings } from '../../../../kernel/database/timings.ts';
import { errors } from '../../../../kernel/errors.ts';
import { boundedLook, readBareForeignKeys, readIndexes, readServer, readTables, type ServerStatement } from '../../insight-queries.ts';
import type { EndpointStore } from '../endpoints/store.ts';
import type { Advice, Looked } from './advice.ts';
import { indexAdvice } from './index-advice.ts';
import { knownTables } from './known-tables.ts';
import { serverAdvice } from './server-advice.ts';
import { serverStatements } from './server-statements.ts';
import { tableAdvice } from './table-advice.ts';
import { wantedIndexes } from './wanted-indexes.ts';

export interface InsightDependencies {
  readonly database: Database;
  readonly timings: StatementTimings;
  readonly schemas: SchemaRegistry;
  readonly endpoints: Pick<EndpointStore, 'all'>;
}

export interface Insights extends Looked {
  readonly advice: readonly Advice[];
  /** Undefined where the server does not keep them. */
  readonly serverStatements: readonly ServerStatement[] | undefined;
}

/** Kinds of statements that are shown: those that took most time in all. */
const MAX_KINDS = 50;
const severities: readonly Advice['severity'][] = ['critical', 'warning', 'info'];

/** A handful of bounded looks into the catalogue, in one read-only transaction. Throws 503 while a table is locked, and 504. */
export async function readInsights(dependencies: InsightDependencies, { minRows }: { readonly minRows: number }): Promise<Insights> {
  const { database, timings, schemas, endpoints } = dependencies;
  const looked = await database
    .transaction(
      async (transaction) => {
        await transaction.query(boundedLook);
        const server = await readServer(transaction);
        if (!server) throw errors.UNAVAILABLE();
        return {
          server,
          tables: await readTables(transaction),
          indexes: await readIndexes(transaction),
          foreignKeys: await readBareForeignKeys(transaction),
          serverStatements: await serverStatements(database, server.statementsIn),
        };
      },
      { readOnly: true },
    )
    .catch(namedError);
  const all: Looked = {
    ...looked,
    statements: slowest(timings.figures()),
    endpoints: endpoints.all(),
    known: knownTables(schemas),
    minRows,
  };
  const advice = [...wantedIndexes(all), ...indexAdvice(all), ...tableAdvice(all), ...serverAdvice(all)];
  return { ...all, serverStatements: looked.serverStatements, advice: advice.toSorted(byUrgency) };
}

const slowest = (figures: readonly StatementFigures[]): readonly StatementFigures[] =>
  figures
    .filter(({ table }) => table !== '')
    .toSorted((a, b) => b.total - a.total)
    .slice(0, MAX_KINDS);

const byUrgency = (a: Advice, b: Advice): number => severities.indexOf(a.severity) - severities.indexOf(b.severity);

/** lock_not_available: our lock_timeout. */
function namedError(error: unknown): never {
  if (codeOf(error) !== '55P03') throw error;
  throw errors.UNAVAILABLE({ message: 'A table is being changed at this moment: try again', retryAfter: 1, cause: error });
}
