/** Insight into the database for operators (spec/database.md 9, no. 22). */
import Type, { type Static } from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import { databaseErrors } from '../errors.ts';
import { adviceKinds } from '../services/insights/advice.ts';
import { type InsightDependencies, type Insights, readInsights } from '../services/insights/create.ts';
import { type ExplainDependencies, explain, type Question } from '../services/insights/explain.ts';
import { tableKey } from '../services/insights/known-tables.ts';
import { hitRatio } from '../services/insights/server-advice.ts';
import { countQuery, cursorQuery } from './page-facts.ts';

export const insightOperations = (dependencies: InsightDependencies & ExplainDependencies): readonly Operation[] => [
  read(dependencies),
  ask(dependencies),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const whole = (description?: string) => Type.Integer({ minimum: 0, ...(description !== undefined && { description }) });
const figure = (description?: string) => Type.Number({ minimum: 0, ...(description !== undefined && { description }) });
const instant = Type.Union([Type.String({ format: 'date-time' }), Type.Null()]);
const schema = Type.Optional(Type.String({ description: 'Name of the schema, where there is one' }));

const ShownAdvice = Type.Object({
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
  sql: Type.Optional(Type.String({ description: 'What a database administrator may run, where no request does it' })),
});

const Shown = Type.Object({
  advice: Type.Array(ShownAdvice, { description: 'Most urgent first' }),
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
    { description: 'Of this node since its start, by what they do to which table; what took most time first' },
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
    { description: 'From the extension pg_stat_statements; null where the server does not have it' },
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
    connections: Type.Object({ max: whole(), used: whole(), active: whole(), idle: whole(), idleInTransaction: whole() }),
    oldestTransactionSeconds: figure(),
  }),
});

const read = (dependencies: InsightDependencies): Operation =>
  defineOperation({
    ...facts,
    id: 'database.insights.get',
    method: 'GET',
    path: '/database/insights',
    input: {
      query: Type.Object({
        minRows: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 1_000_000_000,
            default: 1_000,
            description: 'Advice about indexes is given for tables with at least so many rows',
          }),
        ),
      }),
    },
    output: Shown,
    errors: [errors.UNAVAILABLE, errors.TIMEOUT],
    summary: 'Say what is slow or wasted in the database, and what to do',
    description: 'From statistics that are kept anyway: no table is read. Holds no values of records. At most 200 tables.',
    handler: async (_, { query: { minRows = 1_000 } }) => shownInsights(await readInsights(dependencies, { minRows })),
  });

const round = (value: number): number => Math.round(value * 1000) / 1000;
const iso = (date: Date | null): string | null => date?.toISOString() ?? null;

function shownInsights({ advice, statements, serverStatements, tables, indexes, server, known }: Insights): Static<typeof Shown> {
  const named = (table: string) => {
    const found = known.get(table);
    return { ...(found && { schema: found.name }), table };
  };
  return {
    advice: [...advice] as Static<typeof ShownAdvice>[],
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
    indexes: indexes.map(({ schema: owner, table, name, columns, unique, valid, bytes, scans }) => ({
      ...named(tableKey(owner, table)),
      name,
      columns: [...columns],
      unique,
      valid,
      bytes,
      reads: scans,
    })),
    server: {
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
    },
  };
}

const Options = {
  skip: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
  sort: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 8 })),
  populate: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 10 })),
  count: countQuery,
  cursor: cursorQuery,
};

const Asked = Type.Object({
  schemaName: Type.Optional(Type.String({ maxLength: 64, description: 'Explain a list of this schema' })),
  query: Type.Optional(Type.Unknown({ description: 'Conditions of the list, in the operator language' })),
  customEndpoint: Type.Optional(Type.String({ maxLength: 64, description: 'Explain a call of this custom endpoint' })),
  inputs: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'Its inputs by name' })),
  userId: Type.Optional(Type.String({ format: 'uuid', description: 'Ask as this user, with his permissions; as an operator unless set' })),
  ...Options,
});

const Answer = Type.Object({
  statements: Type.Array(
    Type.Object({
      text: Type.String(),
      cost: figure('In the units of the planner'),
      steps: Type.Array(
        Type.Object({
          depth: whole(),
          step: Type.String(),
          table: Type.Optional(Type.String()),
          index: Type.Optional(Type.String()),
          rows: figure('That the planner expects'),
          cost: figure(),
          condition: Type.Optional(Type.String()),
        }),
      ),
      remarks: Type.Array(Type.String(), { description: 'What stands out, in plain words' }),
    }),
  ),
});

const ask = (dependencies: ExplainDependencies): Operation =>
  defineOperation({
    ...facts,
    id: 'database.insights.explain',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/insights/explain',
    idempotency: false,
    readOnly: true,
    audit: false,
    strict: true,
    input: { body: Asked },
    output: Answer,
    errors: [
      schemaErrors.SCHEMA_NOT_FOUND,
      databaseErrors.ENDPOINT_NOT_FOUND,
      databaseErrors.EMPTY_FILTER,
      recordErrors.RECORD_INVALID,
      recordErrors.POPULATE_FORBIDDEN,
      recordErrors.RECORD_NOT_FOUND,
      recordErrors.PERMISSIONS_UNAVAILABLE,
      errors.FORBIDDEN,
      errors.UNAUTHORIZED,
      errors.UNAVAILABLE,
      errors.TIMEOUT,
    ],
    summary: 'Show how the database would answer a list or a custom endpoint',
    description: 'Only plans: nothing is read from tables or written, also for endpoints that write.',
    async handler({ caller }, { body }) {
      const asker = body.userId === undefined ? caller : asUser(body.userId);
      const statements = await explain(dependencies, asker, questionOf(body));
      return { statements: statements.map(({ steps, remarks, ...rest }) => ({ ...rest, steps: [...steps], remarks: [...remarks] })) };
    },
  });

/** Throws 400 unless exactly one thing is asked about. */
function questionOf({ schemaName, query, customEndpoint, inputs = {}, userId: _, ...options }: Static<typeof Asked>): Question {
  if (schemaName !== undefined && customEndpoint === undefined) {
    return { kind: 'list', schema: schemaName, options, ...(query !== undefined && { query }) };
  }
  if (customEndpoint !== undefined && schemaName === undefined) return { kind: 'endpoint', name: customEndpoint, inputs, options };
  const message = 'say either schemaName or customEndpoint';
  throw errors.INVALID_ARGUMENTS({ message, errors: [{ path: 'schemaName', rule: 'oneOf', message }] });
}

const asUser = (userId: string): Caller => ({
  kind: 'user',
  userId,
  sessionId: '',
  authenticatedAt: 0,
  complete: true,
  clientId: '',
});
