/** Insight into the database as the admin surface shows it. */

import type { Static } from 'typebox';
import Type from 'typebox';
import { adviceKinds, tableKey } from './advice.ts';
import type { Insights } from './insights.ts';
import { hitRatio } from './server-advice.ts';

export const whole = (description?: string) =>
  Type.Integer({ minimum: 0, ...(description !== undefined && { description }) });

export const figure = (description?: string) =>
  Type.Number({ minimum: 0, ...(description !== undefined && { description }) });

const instant = Type.Union([Type.String({ format: 'date-time' }), Type.Null()]);

export const schema = Type.Optional(
  Type.String({ description: 'Name of the schema, where there is one' }),
);

const AdviceView = Type.Object({
  kind: Type.Enum([...adviceKinds]),
  severity: Type.Enum(['info', 'warning', 'critical']),
  schema,
  table: Type.Optional(Type.String()),
  message: Type.String({ description: 'In plain words' }),
  call: Type.Optional(
    Type.Object(
      {
        method: Type.Enum(['POST', 'DELETE']),
        path: Type.String(),
        query: Type.Optional(Type.Record(Type.String(), Type.String())),
        body: Type.Optional(Type.Unknown()),
      },
      { description: 'The request to this surface that does it' },
    ),
  ),
  sql: Type.Optional(
    Type.String({ description: 'What a database administrator may run, where no request does it' }),
  ),
});

export const InsightsView = Type.Object({
  advice: Type.Array(AdviceView, { description: 'Most urgent first' }),
  statements: Type.Array(
    Type.Object({
      schema,
      table: Type.String(),
      operation: Type.Enum(['select', 'insert', 'update', 'delete', 'other']),
      count: whole(),
      totalMs: figure(),
      p50Ms: figure(),
      p95Ms: figure(),
      maxMs: figure(),
    }),
    {
      description:
        'Of this node since its start, by what they do to which table; what took most time first',
    },
  ),
  serverStatements: Type.Union(
    [
      Type.Array(
        Type.Object({
          text: Type.String({ description: 'Without values' }),
          calls: whole(),
          meanMs: figure(),
          maxMs: figure(),
          totalMs: figure(),
          rows: whole(),
        }),
      ),
      Type.Null(),
    ],
    {
      description: 'From the extension pg_stat_statements; null where the server does not have it',
    },
  ),
  tables: Type.Array(
    Type.Object({
      schema,
      table: Type.String(),
      rows: whole('By the statistics of the server'),
      deadRows: whole(),
      tableBytes: whole(),
      indexBytes: whole(),
      fullReads: whole('How often all of it was read'),
      indexReads: whole(),
      cacheHitRatio: Type.Number({ minimum: 0, maximum: 1 }),
      lastVacuum: instant,
      lastAnalyze: instant,
    }),
    { description: 'The largest first' },
  ),
  indexes: Type.Array(
    Type.Object({
      schema,
      table: Type.String(),
      name: Type.String(),
      columns: Type.Array(Type.Union([Type.String(), Type.Null()])),
      unique: Type.Boolean(),
      valid: Type.Boolean(),
      bytes: whole(),
      reads: whole(),
    }),
  ),
  server: Type.Object({
    countsSince: instant,
    cacheHitRatio: Type.Number({ minimum: 0, maximum: 1 }),
    deadlocks: whole(),
    connections: Type.Object({
      max: whole(),
      used: whole(),
      active: whole(),
      idle: whole(),
      idleInTransaction: whole(),
    }),
    oldestTransactionSeconds: figure(),
  }),
});

const round = (value: number): number => Math.round(value * 1000) / 1000;

const iso = (date: Date | null): string | null => date?.toISOString() ?? null;

const serverView = (server: Insights['server']) => ({
  countsSince: iso(server.countsSince),
  cacheHitRatio: round(hitRatio(server)),
  deadlocks: server.deadlocks,
  connections: {
    max: server.maxConnections,
    used: server.connections,
    active: server.active,
    idle: server.idle,
    idleInTransaction: server.idleInTransaction,
  },
  oldestTransactionSeconds: round(server.oldestTransaction),
});

export function insightsView({
  advice,
  statements,
  serverStatements,
  tables,
  indexes,
  server,
  known,
}: Insights): Static<typeof InsightsView> {
  const named = (table: string) => {
    const found = known.get(table);
    return { ...(found && { schema: found.name }), table };
  };
  return {
    advice: [...advice] as Static<typeof AdviceView>[],
    statements: statements.map(({ table, operation, count, total, p50, p95, max }) => ({
      ...named(table),
      operation,
      count,
      totalMs: round(total),
      p50Ms: round(p50),
      p95Ms: round(p95),
      maxMs: round(max),
    })),
    serverStatements: serverStatements ? [...serverStatements] : null,
    tables: tables.map((table) => ({
      ...named(tableKey(table.schema, table.name)),
      rows: table.rows,
      deadRows: table.deadRows,
      tableBytes: table.tableBytes,
      indexBytes: table.indexBytes,
      fullReads: table.scans,
      indexReads: table.indexScans,
      cacheHitRatio: round(hitRatio(table)),
      lastVacuum: iso(table.vacuumedAt),
      lastAnalyze: iso(table.analyzedAt),
    })),
    indexes: indexes.map(
      ({ schema: owner, table, name, columns, unique, valid, bytes, scans }) => ({
        ...named(tableKey(owner, table)),
        name,
        columns: [...columns],
        unique,
        valid,
        bytes,
        reads: scans,
      }),
    ),
    server: serverView(server),
  };
}
