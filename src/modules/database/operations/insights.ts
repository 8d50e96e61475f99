/** Insight into the database for operators (spec/database.md 9, no. 22). */

import type { Static } from 'typebox';
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { databaseErrors } from '../errors.ts';
import { type ExplainDependencies, explain, type Question } from '../services/insights/explain.ts';
import { type InsightDependencies, readInsights } from '../services/insights/insights.ts';
import { figure, InsightsView, insightsView, whole } from '../services/insights/insights-view.ts';
import { countQuery, cursorQuery } from '../services/listing.ts';

export const insightOperations = (
  dependencies: InsightDependencies & ExplainDependencies,
): readonly Operation[] => [read(dependencies), ask(dependencies)];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
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
    output: InsightsView,
    errors: [errors.UNAVAILABLE, errors.TIMEOUT],
    summary: 'Say what is slow or wasted in the database, and what to do',
    description:
      'From statistics that are kept anyway: no table is read. Holds no values of records. At most 200 tables.',
    handler: async (_, { query: { minRows = 1_000 } }) =>
      insightsView(await readInsights(dependencies, { minRows })),
  });

const Options = {
  skip: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000_000_000_000, description: 'How many to pass over' }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, description: 'How many at most' }),
  ),
  sort: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      maxItems: 8,
      description: 'What to order by; - in front: descending',
    }),
  ),
  populate: Type.Optional(
    Type.Array(Type.String({ maxLength: 256 }), {
      maxItems: 10,
      description: 'Relations to answer as records instead of ids',
    }),
  ),
  count: countQuery,
  cursor: cursorQuery,
};

const Asked = Type.Object({
  schemaName: Type.Optional(
    Type.String({ maxLength: 64, description: 'Explain a list of this schema' }),
  ),
  query: Type.Optional(
    Type.Unknown({ description: 'Conditions of the list, in the operator language' }),
  ),
  customEndpoint: Type.Optional(
    Type.String({ maxLength: 64, description: 'Explain a call of this custom endpoint' }),
  ),
  inputs: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { description: 'Its inputs by name' }),
  ),
  userId: Type.Optional(
    Type.String({
      format: 'uuid',
      description: 'Ask as this user, with their permissions; as an operator unless set',
    }),
  ),
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
    description:
      'Only plans: nothing is read from tables or written, also for endpoints that write.',
    async handler({ caller }, { body }) {
      const asker = body.userId === undefined ? caller : asUser(body.userId);
      const askers = { operator: caller, caller: asker };
      const statements = await explain(dependencies, askers, questionOf(body));
      return {
        statements: statements.map(({ steps, remarks, ...rest }) => ({
          ...rest,
          steps: [...steps],
          remarks: [...remarks],
        })),
      };
    },
  });

/** Throws 400 unless exactly one thing is asked about. */
function questionOf({
  schemaName,
  query,
  customEndpoint,
  inputs = {},
  userId: _,
  ...options
}: Static<typeof Asked>): Question {
  if (schemaName !== undefined && customEndpoint === undefined) {
    return { kind: 'list', schema: schemaName, options, ...(query !== undefined && { query }) };
  }
  if (customEndpoint !== undefined && schemaName === undefined)
    return { kind: 'endpoint', name: customEndpoint, inputs, options };
  const message = 'say either schemaName or customEndpoint';
  throw errors.INVALID_ARGUMENTS({
    message,
    errors: [{ path: 'schemaName', rule: 'oneOf', message }],
  });
}

const asUser = (userId: string): Caller => ({
  kind: 'user',
  userId,
  sessionId: '',
  authenticatedAt: 0,
  complete: true,
  clientId: '',
});
