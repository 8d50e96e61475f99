/**
 * How PostgreSQL would answer a list or a custom endpoint. The record engine compiles its statements as ever, but the
 * database that it gets here only plans them (`explain` without `analyze`, in a read-only transaction): nothing runs.
 */

import { parseFilter } from '../../../../data/conditions/parse.ts';
import { createRecordStore, type RecordStoreOptions } from '../../../../data/records/record-store.ts';
import type { ListOptions, RecordStore } from '../../../../data/records/store.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Database, Queryable, Statement, Transaction } from '../../../../kernel/database/database.ts';
import type { DecodedInput } from '../../../../kernel/operation.ts';
import { databaseErrors } from '../../errors.ts';
import { boundedLook } from '../../insight-queries.ts';
import { inputLocation, type StoredEndpoint } from '../endpoints/definition.ts';
import { runEndpoint } from '../endpoints/run.ts';
import type { EndpointStore } from '../endpoints/store.ts';
import { type ExplainedStatement, explained, type PlanNode } from './plan.ts';
import { withoutValues } from './server-statements.ts';

export interface ExplainDependencies {
  /** What the record engine is made from, with the real database. */
  readonly engine: RecordStoreOptions;
  readonly records: Pick<RecordStore, 'get'>;
  readonly endpoints: Pick<EndpointStore, 'all'>;
}

/** What would be asked. */
export type Question =
  | { readonly kind: 'list'; readonly schema: string; readonly options: ListOptions; readonly query?: unknown }
  | { readonly kind: 'endpoint'; readonly name: string; readonly inputs: Readonly<Record<string, unknown>>; readonly options: ListOptions };

/** Throws 400 and 404 as the question itself would. */
export async function explain(
  { engine, records, endpoints }: ExplainDependencies,
  caller: Caller,
  question: Question,
): Promise<readonly ExplainedStatement[]> {
  const statements: ExplainedStatement[] = [];
  const database = planningDatabase(engine.database, async (statement) => {
    statements.push(explained(withoutValues(statement.text), await planOf(engine.database, statement)));
  });
  // The record of the user, whose fields an endpoint may compare with, is really read.
  const planning: RecordStore = { ...createRecordStore({ ...engine, database }), get: records.get };
  try {
    await ask({ planning, endpoints }, caller, question);
  } catch (error) {
    // Nothing was found, because nothing ran: what comes after that has no meaning.
    if (statements.length === 0) throw error;
  }
  return statements;
}

interface Asked {
  readonly planning: RecordStore;
  readonly endpoints: ExplainDependencies['endpoints'];
}

async function ask({ planning, endpoints }: Asked, caller: Caller, question: Question): Promise<void> {
  if (question.kind === 'list') {
    const { schema, options, query } = question;
    if (query === undefined) await planning.list(caller, schema, options);
    else await planning.select(caller, schema, { ...options, filter: parseFilter(query) });
    return;
  }
  const endpoint = endpoints.all().find(({ name }) => name === question.name);
  if (!endpoint) throw databaseErrors.ENDPOINT_NOT_FOUND();
  await runEndpoint(planning, endpoint, { caller, input: inputOf(endpoint, question) });
}

/** The inputs of an endpoint by their names, put where the endpoint looks for them. */
function inputOf({ inputs: declared }: StoredEndpoint, { inputs, options }: Extract<Question, { kind: 'endpoint' }>): DecodedInput {
  const at = (place: number): Record<string, unknown> =>
    Object.fromEntries(
      declared.flatMap(({ name, location }) => (location === place && Object.hasOwn(inputs, name) ? [[name, inputs[name]]] : [])),
    );
  return {
    params: at(inputLocation.path),
    query: { ...options, ...at(inputLocation.query) },
    body: at(inputLocation.body),
    headers: {},
  };
}

/** Answers no rows to everything. */
function planningDatabase(database: Database, plan: (statement: Statement) => Promise<void>): Database {
  const query: Queryable['query'] = async (statement) => {
    await plan(statement);
    return { rows: [], count: 0 };
  };
  const nothing: Transaction = { query, afterCommit: () => undefined };
  return {
    ...database,
    query,
    transaction: (work) => work(nothing),
    part: (work) => work(nothing),
    session: (work) => work(nothing),
    afterCommit: () => undefined,
  };
}

async function planOf(database: Database, { text, values }: Statement): Promise<PlanNode> {
  return database.transaction(
    async (transaction) => {
      await transaction.query(boundedLook);
      const { rows } = await transaction.query<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }>({
        text: `explain (format json) ${text}`,
        ...(values && { values }),
      });
      return rows[0]?.['QUERY PLAN'][0]?.Plan ?? { 'Node Type': 'Result' };
    },
    { readOnly: true },
  );
}
