/**
 * How PostgreSQL would answer a list or a custom endpoint. The record engine compiles its statements as ever, but the
 * database that it gets here only plans them (`explain` without `analyze`, in a read-only transaction): nothing runs.
 */
import { parseFilter } from '../../../../data/conditions/parse.ts';
import {
  createRecordStore,
  type RecordStoreOptions,
} from '../../../../data/records/record-store.ts';
import type { ListOptions, RecordStore } from '../../../../data/records/store.ts';
import { requireAuthority, schemaObject } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type {
  Database,
  Queryable,
  Statement,
  Transaction,
} from '../../../../kernel/database/database.ts';
import { withoutValues } from '../../../../kernel/database/statement-text.ts';
import type { DecodedInput } from '../../../../kernel/operations/operation-input.ts';
import { cutText } from '../../../../kernel/text.ts';
import { databaseErrors } from '../../errors.ts';
import { inputLocation, type StoredEndpoint } from '../endpoints/definition.ts';
import { runEndpoint } from '../endpoints/run.ts';
import type { EndpointStore } from '../endpoints/store.ts';
import { followedSchemas } from '../endpoints/unseen-fields.ts';
import { boundedRead } from './queries.ts';

/* A plan of PostgreSQL as a list of steps, with what stands out in plain words. */

/** As `explain (format json)` answers it. */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly Schema?: string;
  readonly 'Index Name'?: string;
  readonly 'Plan Rows'?: number;
  readonly 'Total Cost'?: number;
  readonly 'Index Cond'?: string;
  readonly Filter?: string;
  readonly 'Sort Key'?: readonly string[];
  readonly Plans?: readonly PlanNode[];
}

interface PlanStep {
  readonly depth: number;
  readonly step: string;
  readonly table?: string;
  readonly index?: string;
  /** Rows that the planner expects. */
  readonly rows: number;
  readonly cost: number;
  /** What is compared, without the values. */
  readonly condition?: string;
}

interface ExplainedStatement {
  readonly text: string;
  readonly cost: number;
  readonly steps: readonly PlanStep[];
  readonly remarks: readonly string[];
}

const MAX_STEPS = 200;
const MAX_TEXT = 4_000;
/** Rows from which on reading or sorting all of them is worth a word. */
const MANY = 1_000;

function explained(text: string, plan: PlanNode): ExplainedStatement {
  const steps = [...stepsOf(plan, 0)].slice(0, MAX_STEPS);
  return {
    text: cutText(text, MAX_TEXT),
    cost: plan['Total Cost'] ?? 0,
    steps: steps.map(({ step }) => step),
    remarks: [...new Set(steps.flatMap(({ node }) => remarkOn(node)))],
  };
}

function* stepsOf(
  node: PlanNode,
  depth: number,
): Generator<{ readonly node: PlanNode; readonly step: PlanStep }> {
  const table = node['Relation Name'];
  const index = node['Index Name'];
  const condition = conditionOf(node);
  yield {
    node,
    step: {
      depth,
      step: node['Node Type'],
      ...(table !== undefined && { table }),
      ...(index !== undefined && { index }),
      rows: node['Plan Rows'] ?? 0,
      cost: node['Total Cost'] ?? 0,
      ...(condition !== undefined && { condition }),
    },
  };
  for (const child of node.Plans ?? []) yield* stepsOf(child, depth + 1);
}

function conditionOf(node: PlanNode): string | undefined {
  const parts = [node['Index Cond'], node.Filter, node['Sort Key'] && `order by ${orderOf(node)}`];
  const text = parts.filter((part) => part !== undefined).join('; ');
  return text === '' ? undefined : cutText(withoutValues(text), 500);
}

const orderOf = (node: PlanNode): string => withoutValues((node['Sort Key'] ?? []).join(', '));

function remarkOn(node: PlanNode): readonly string[] {
  const table = node['Relation Name'];
  const below = Math.max(
    node['Plan Rows'] ?? 0,
    ...(node.Plans ?? []).map((child) => child['Plan Rows'] ?? 0),
  );
  if (
    node['Node Type'] === 'Seq Scan' &&
    table !== undefined &&
    (node.Filter !== undefined || below >= MANY)
  ) {
    return [
      node.Filter === undefined
        ? `Reads all rows of ${table}: for an exact count, or because there is no condition that an index could answer`
        : `Reads all rows of ${table} to find those that fit. On a small table that is the fastest way; on a large one an index on what is compared helps`,
    ];
  }
  if (node['Node Type'].endsWith('Sort') && below >= MANY) {
    return [
      `Sorts about ${Math.round(below)} rows by ${orderOf(node)}: an index on that would give the order`,
    ];
  }
  return [];
}

export interface ExplainDependencies {
  /** What the record engine is made from, with the real database. */
  readonly engine: RecordStoreOptions;
  readonly records: Pick<RecordStore, 'get'>;
  readonly endpoints: Pick<EndpointStore, 'all'>;
}

/** What would be asked. */
export type Question =
  | {
      readonly kind: 'list';
      readonly schema: string;
      readonly options: ListOptions;
      readonly query?: unknown;
    }
  | {
      readonly kind: 'endpoint';
      readonly name: string;
      readonly inputs: Readonly<Record<string, unknown>>;
      readonly options: ListOptions;
    };

export interface Askers {
  /** Who wants to know. */
  readonly operator: Caller;
  /** In whose name it would be asked. */
  readonly caller: Caller;
}

/** Throws 400 and 404 as the question itself would, and 403 for an operator who does not reach what it is about. */
export async function explain(
  dependencies: ExplainDependencies,
  { operator, caller }: Askers,
  question: Question,
): Promise<readonly ExplainedStatement[]> {
  const { engine, records, endpoints } = dependencies;
  if (question.kind === 'endpoint') requireEndpoint(dependencies, operator, question.name);
  const statements: ExplainedStatement[] = [];
  const database = planningDatabase(engine.database, async (statement) => {
    statements.push(
      explained(withoutValues(statement.text), await planOf(engine.database, statement)),
    );
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

/** Whoever sees how many rows are expected for which inputs learns what stands in them. */
function requireEndpoint(
  { endpoints, engine: { schemas } }: ExplainDependencies,
  operator: Caller,
  name: string,
): void {
  const endpoint = endpointNamed(endpoints, name);
  const asked = [schemas.get(endpoint.selectedSchemaName), ...followedSchemas(endpoint, schemas)];
  requireAuthority(operator, ...asked.flatMap(schemaObject));
}

function endpointNamed(endpoints: ExplainDependencies['endpoints'], name: string): StoredEndpoint {
  const endpoint = endpoints.all().find((one) => one.name === name);
  if (!endpoint) throw databaseErrors.ENDPOINT_NOT_FOUND();
  return endpoint;
}

interface Asked {
  readonly planning: RecordStore;
  readonly endpoints: ExplainDependencies['endpoints'];
}

async function ask(
  { planning, endpoints }: Asked,
  caller: Caller,
  question: Question,
): Promise<void> {
  if (question.kind === 'list') {
    const { schema, options, query } = question;
    if (query === undefined) await planning.list(caller, schema, options);
    else await planning.select(caller, schema, { ...options, filter: parseFilter(query) });
    return;
  }
  const endpoint = endpointNamed(endpoints, question.name);
  await runEndpoint(planning, endpoint, { caller, input: inputOf(endpoint, question) });
}

/** The inputs of an endpoint by their names, put where the endpoint looks for them. */
function inputOf(
  { inputs: declared }: StoredEndpoint,
  { inputs, options }: Extract<Question, { kind: 'endpoint' }>,
): DecodedInput {
  const at = (place: number): Record<string, unknown> =>
    Object.fromEntries(
      declared.flatMap(({ name, location }) =>
        location === place && Object.hasOwn(inputs, name) ? [[name, inputs[name]]] : [],
      ),
    );
  return {
    params: at(inputLocation.path),
    query: { ...options, ...at(inputLocation.query) },
    body: at(inputLocation.body),
    headers: {},
  };
}

/** Answers no rows to everything. */
function planningDatabase(
  database: Database,
  plan: (statement: Statement) => Promise<void>,
): Database {
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
      await transaction.query(boundedRead);
      const { rows } = await transaction.query<{
        'QUERY PLAN': readonly { readonly Plan: PlanNode }[];
      }>({
        text: `explain (format json) ${text}`,
        ...(values && { values }),
      });
      return rows[0]?.['QUERY PLAN'][0]?.Plan ?? { 'Node Type': 'Result' };
    },
    { readOnly: true },
  );
}
