/** Insight into the database for operators: figures, and what to do about them. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { codeOf } from '../../../../kernel/database/failures.ts';
import type {
  StatementFigures,
  StatementTimings,
} from '../../../../kernel/database/statement-timings.ts';
import { errors } from '../../../../kernel/errors.ts';
import type { Metrics } from '../../../../kernel/telemetry/metrics.ts';
import type { EndpointStore } from '../endpoints/store.ts';
import { type Advice, type CollectedStatistics, knownTables } from './advice.ts';
import { indexAdvice, missingIndexes } from './index-advice.ts';
import {
  boundedRead,
  readBareForeignKeys,
  readIndexes,
  readServer,
  readTables,
  type ServerStatement,
} from './queries.ts';
import { serverAdvice, serverStatements, tableAdvice } from './server-advice.ts';

/* Figures of schemas and custom endpoints for monitoring (spec/database.md 6.2); 0 from the start. */

/** Existing panels ask by module. */
const database = { module_name: 'database' };

export function measureDatabase(
  metrics: Metrics,
  schemas: Pick<SchemaRegistry, 'all'>,
  endpoints: Pick<EndpointStore, 'all'>,
): void {
  metrics.gauge(
    'custom_endpoints_total',
    'Custom endpoints that are stored',
    () => [{ labels: database, value: endpoints.all().length }],
    ['module_name'],
  );
  metrics.gauge(
    'registered_schemas_total',
    'Schemas, made here or imported from tables of others',
    () => {
      const imported = schemas.all().filter(({ mapping }) => mapping !== undefined).length;
      return [
        { labels: { ...database, imported: 'false' }, value: schemas.all().length - imported },
        { labels: { ...database, imported: 'true' }, value: imported },
      ];
    },
    ['module_name', 'imported'],
  );
}

export interface InsightDependencies {
  readonly database: Database;
  readonly timings: StatementTimings;
  readonly schemas: SchemaRegistry;
  readonly endpoints: Pick<EndpointStore, 'all'>;
}

export interface Insights extends CollectedStatistics {
  readonly advice: readonly Advice[];
  /** Undefined where the server does not keep them. */
  readonly serverStatements: readonly ServerStatement[] | undefined;
}

/** Kinds of statements that are shown: those that took most time in all. */
const MAX_KINDS = 200;
const severities: readonly Advice['severity'][] = ['critical', 'warning', 'info'];

/** A handful of bounded looks into the catalogue, in one read-only transaction. Throws 503 while a table is locked, and 504. */
export async function readInsights(
  dependencies: InsightDependencies,
  { minRows }: { readonly minRows: number },
): Promise<Insights> {
  const { database, timings, schemas, endpoints } = dependencies;
  const statistics = await database
    .transaction(
      async (transaction) => {
        await transaction.query(boundedRead);
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
  const all: CollectedStatistics = {
    ...statistics,
    statements: slowest(timings.figures()),
    endpoints: endpoints.all(),
    known: knownTables(schemas),
    minRows,
  };
  const advice = [
    ...missingIndexes(all),
    ...indexAdvice(all),
    ...tableAdvice(all),
    ...serverAdvice(all),
  ];
  return {
    ...all,
    serverStatements: statistics.serverStatements,
    advice: advice.toSorted(byUrgency),
  };
}

const slowest = (figures: readonly StatementFigures[]): readonly StatementFigures[] =>
  figures
    .filter(({ table }) => table !== '')
    .toSorted((a, b) => b.total - a.total)
    .slice(0, MAX_KINDS);

const byUrgency = (a: Advice, b: Advice): number =>
  severities.indexOf(a.severity) - severities.indexOf(b.severity);

/** lock_not_available: our lock_timeout. */
function namedError(error: unknown): never {
  if (codeOf(error) !== '55P03') throw error;
  throw errors.UNAVAILABLE({
    message: 'A table is being changed at this moment: try again',
    retryAfter: 1,
    cause: error,
  });
}
