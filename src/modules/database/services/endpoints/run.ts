/** What a call of an endpoint does: values into conditions and changes, then one call of the record engine. */

import type { Condition, Operand } from '../../../../data/conditions/condition.ts';
import type { Assignment, RecordStore } from '../../../../data/records/store.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { errors, invalid, type Problem } from '../../../../kernel/errors.ts';
import { AudienceChanged, type LiveRead } from '../../../../kernel/operations/live-read.ts';
import { Reply } from '../../../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../../../kernel/operations/operation-input.ts';
import { databaseErrors } from '../../errors.ts';
import {
  assignmentActions,
  type EndpointDefinition,
  endpointOperation,
  isWrite,
  type StoredEndpoint,
} from './definition.ts';
import { buildFilter, type ContextReader, readContext } from './filter-values.ts';
import { inputValues } from './inputs.ts';
import { contextPaths, operandOf, readsUser, treeCondition } from './parse-tree.ts';
import { grantOf } from './requires.ts';

export type EndpointAnswer =
  | Reply
  | readonly string[]
  | { readonly matchedCount: number; readonly modifiedCount: number }
  | { readonly deletedCount: number };

/** Parameters of the platform beside the declared inputs. */
interface PlatformQuery {
  readonly skip?: number;
  readonly limit?: number;
  readonly cursor?: string;
  readonly sort?: readonly string[];
  readonly populate?: readonly string[];
  readonly scope?: string;
}

interface Call {
  readonly records: RecordStore;
  readonly endpoint: EndpointDefinition;
  readonly caller: Caller;
  readonly query: PlatformQuery;
  readonly sources: Sources;
}

/** Throws 400 (`EMPTY_FILTER`, a value that is missing or does not fit), and what the record engine throws. */
export async function runEndpoint(
  records: RecordStore,
  endpoint: StoredEndpoint,
  { caller, input }: Asked,
): Promise<EndpointAnswer> {
  const call = await callOf(records, endpoint, { caller, input });
  switch (endpoint.operation) {
    case endpointOperation.post:
      return create(call);
    case endpointOperation.put:
    case endpointOperation.patch:
      return change(call);
    case endpointOperation.delete:
      return remove(call);
    case endpointOperation.aggregate:
      return aggregate(call);
    default:
      return read(call);
  }
}

interface Asked {
  readonly caller: Caller;
  readonly input: DecodedInput;
}

async function callOf(
  records: RecordStore,
  endpoint: StoredEndpoint,
  { caller, input }: Asked,
): Promise<Call> {
  const context = await readContext(records, caller, contextPaths(endpoint));
  const sources: Sources = { inputs: inputValues(endpoint, input), context };
  return { records, endpoint, caller, query: input.query as PlatformQuery, sources };
}

/** Records of an endpoint without pages: as many as its answer holds. */
const WHOLE_LIST = 1_000;

/** The same answer, to be read again whenever it may have changed. Throws 400 for endpoints that change something. */
export async function liveEndpoint(
  records: RecordStore,
  endpoint: StoredEndpoint,
  asked: Asked,
): Promise<LiveRead> {
  const call = await callOf(records, endpoint, asked);
  const { caller, query } = call;
  const { operation, selectedSchemaName: schema, paginated } = endpoint;
  if (query.cursor !== undefined || (query.skip ?? 0) > 0)
    throw invalid('skip', 'live', 'cannot be kept current: listen to the beginning of the list');
  const made = madeFrom(endpoint, caller);
  const rows = { ...scoped(call), filter: filterOf(call) };
  if (operation === endpointOperation.aggregate) {
    const { rows: _, key, ...facts } = await records.live(caller, schema, rows);
    const text = JSON.stringify([query, key]);
    return {
      ...facts,
      ...made,
      kind: 'value',
      key: text,
      async value() {
        const { audience } = await records.live(caller, schema, rows);
        if (audience !== facts.audience) throw new AudienceChanged();
        return aggregated(call);
      },
    };
  }
  if (operation !== endpointOperation.get)
    throw invalid('endpoint', 'live', `${endpoint.name} changes something: nothing to listen to`);
  const limit = paginated ? rangeOf(query) : { limit: WHOLE_LIST };
  const options = { ...rows, ...sortOf(query), ...populateOf(query), ...limit };
  const read = await records.live(caller, schema, options);
  return { ...read, ...made };
}

/** An endpoint that compares with fields of the user asks something else once these have changed. */
function madeFrom(
  endpoint: StoredEndpoint,
  caller: Caller,
): Pick<LiveRead, 'madeFrom'> | undefined {
  return readsUser(endpoint) && caller.kind === 'user'
    ? { madeFrom: { schema: 'User', id: caller.userId } }
    : undefined;
}

interface Sources {
  readonly inputs: ReadonlyMap<string, unknown>;
  readonly context: ContextReader;
}

interface FoundValue {
  readonly value: unknown;
  readonly place: string;
}

/** `undefined`: an optional input that is absent. Throws 400 for a context value that the request does not have. */
function findValue(
  { inputs, context }: Sources,
  operand: Operand,
  place: string,
): FoundValue | undefined {
  if (operand.kind === 'literal') return { value: operand.value, place };
  if (operand.kind === 'input') {
    const { name } = operand;
    return inputs.has(name) ? { value: inputs.get(name), place: name } : undefined;
  }
  if (operand.kind !== 'context') return { value: undefined, place };
  const found = context(operand.name);
  if (found === undefined) throw missingContext(operand.name);
  return { value: found, place };
}

function missingContext(path: string): Error {
  const problem: Problem = {
    path,
    rule: 'required',
    message: 'is not known: sign in, or complete your account',
  };
  return errors.INVALID_ARGUMENTS({ message: `${path}: ${problem.message}`, errors: [problem] });
}

function filterOf({ endpoint, sources }: Call): Condition {
  const { condition, live } = buildFilter(treeCondition(endpoint.query), {
    read: (operand, place) => findValue(sources, operand, place),
    matchAllWhenEmpty: endpoint.matchAllWhenEmpty,
  });
  if (live === 0 && isWrite(endpoint)) throw databaseErrors.EMPTY_FILTER();
  return condition;
}

function assignmentsOf({ endpoint, sources }: Call): readonly Assignment[] {
  return endpoint.assignments.flatMap(
    ({ schemaField, action, assignmentField: { type, value } }, index) => {
      const found = findValue(sources, operandOf({ type, value }), `assignments.${index}`);
      return found
        ? [{ field: schemaField, action: assignmentActions[action] ?? 'set', ...found }]
        : [];
    },
  );
}

const scoped = ({ endpoint, sources, query: { scope } }: Call) => ({
  granted: true,
  ...grantOf(endpoint, sources.inputs),
  ...(scope !== undefined && { scope }),
});

/** A link that the author of the endpoint has put there is not for the caller to read. */
const authored = ({ endpoint }: Call) => {
  const inputs = new Set(
    endpoint.assignments.flatMap(({ schemaField, assignmentField }) =>
      assignmentField.type === 'Input' ? [schemaField] : [],
    ),
  );
  return {
    authored: new Set(
      endpoint.assignments
        .map(({ schemaField }) => schemaField)
        .filter((field) => !inputs.has(field)),
    ),
  };
};

async function read(call: Call): Promise<Reply> {
  const { records, endpoint, caller, query } = call;
  const options = {
    ...scoped(call),
    filter: filterOf(call),
    ...sortOf(query),
    ...populateOf(query),
  };
  if (!endpoint.paginated)
    return Reply.json(await records.find(caller, endpoint.selectedSchemaName, options));
  return Reply.json(
    await records.select(caller, endpoint.selectedSchemaName, {
      ...options,
      ...rangeOf(query),
      ...cursorOf(query),
    }),
  );
}

const sortOf = ({ sort }: PlatformQuery) => (sort ? { sort } : {});
const populateOf = ({ populate }: PlatformQuery) => (populate ? { populate } : {});
const cursorOf = ({ cursor }: PlatformQuery) => (cursor === undefined ? {} : { cursor });
const rangeOf = ({ skip, limit }: PlatformQuery) => ({
  ...(skip !== undefined && { skip }),
  ...(limit !== undefined && { limit }),
});

async function create(call: Call): Promise<Reply> {
  const { records, endpoint, caller, query } = call;
  const input = Object.fromEntries(assignmentsOf(call).map(({ field, value }) => [field, value]));
  const options = { ...scoped(call), ...authored(call), ...populateOf(query) };
  const { json } = await records.create(caller, endpoint.selectedSchemaName, input, options);
  return Reply.json(`[${json}]`);
}

async function change(call: Call): Promise<EndpointAnswer> {
  const { records, endpoint, caller } = call;
  const options = { ...scoped(call), ...authored(call), filter: filterOf(call) };
  const count = await records.updateWhere(
    caller,
    endpoint.selectedSchemaName,
    assignmentsOf(call),
    options,
  );
  return endpoint.operation === endpointOperation.put
    ? ['Ok']
    : { matchedCount: count, modifiedCount: count };
}

async function remove(call: Call): Promise<EndpointAnswer> {
  const { records, endpoint, caller } = call;
  return {
    deletedCount: await records.removeWhere(caller, endpoint.selectedSchemaName, {
      ...scoped(call),
      filter: filterOf(call),
    }),
  };
}

const aggregate = async (call: Call): Promise<Reply> => Reply.json(await aggregated(call));

async function aggregated(call: Call): Promise<string> {
  const { records, endpoint, caller, query } = call;
  const { groupBy = [], values = [] } = endpoint.aggregate ?? {};
  const options = {
    ...scoped(call),
    filter: filterOf(call),
    groupBy,
    values,
    ...sortOf(query),
    ...rangeOf(query),
  };
  return records.aggregate(caller, endpoint.selectedSchemaName, options);
}
