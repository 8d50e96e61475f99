/** Indexes that cost writes and memory and help nobody. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../../data/schema/compile/index-definition.ts';
import type { IndexDefinition } from '../../../../data/schema/language/definition.ts';
import { columnType } from '../../../../data/schema/language/field.ts';
import { listIndexes } from '../../../../data/schema/plan/index-change.ts';
import { adminOwner } from '../../../../kernel/authority.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import { type EndpointCondition, treeCondition } from '../endpoints/parse-tree.ts';
import {
  type Advice,
  about,
  type CollectedStatistics,
  isPlatformTable,
  keyOf,
  megabytes,
  number,
  rowsOf,
  tableKey,
} from './advice.ts';
import type { IndexFacts } from './queries.ts';

/* Fields that custom endpoints and clients filter by, and foreign keys, without an index that helps. */

/** A field that something filters by. */
interface RequestedIndex {
  readonly schema: CompiledSchema;
  readonly field: string;
  readonly use: 'compare' | 'words';
  /** Who wants it, in words. */
  readonly by: string;
}

export function missingIndexes(statistics: CollectedStatistics): readonly Advice[] {
  const bySubject = Map.groupBy(
    [...endpointIndexes(statistics), ...queryIndexes(statistics)],
    ({ schema, field, use }) => [schema._id, field, use].join('|'),
  );
  return [
    ...[...bySubject.values()].flatMap((requested) => missingIndexAdvice(statistics, requested)),
    ...foreignKeyAdvice(statistics),
  ];
}

function* endpointIndexes({ endpoints, known }: CollectedStatistics): Generator<RequestedIndex> {
  const byName = new Map([...known.values()].map((schema) => [schema.name, schema]));
  for (const { name, query, selectedSchemaName } of endpoints) {
    const schema = byName.get(selectedSchemaName);
    if (!schema) continue;
    const condition = treeCondition(query);
    if (!condition) continue;
    for (const { field, use } of usesOf(condition, false))
      yield { schema, field, use, by: `the custom endpoint ${name}` };
  }
}

/** An index helps neither a text that is looked for anywhere in another nor what shall be different. */
function* usesOf(
  condition: EndpointCondition,
  negated: boolean,
): Generator<Pick<RequestedIndex, 'field' | 'use'>> {
  if (condition.kind === 'not') yield* usesOf(condition.of, !negated);
  else if (condition.kind !== 'test') for (const part of condition.of) yield* usesOf(part, negated);
  else {
    const { left, test } = condition;
    if (test.kind === 'search') yield { field: left.path, use: 'words' };
    else if (!negated && 'right' in test && test.kind !== 'like' && test.right.kind !== 'field')
      yield { field: left.path, use: 'compare' };
  }
}

function* queryIndexes({ known }: CollectedStatistics): Generator<RequestedIndex> {
  for (const schema of known.values()) {
    const { query } = schema.modelOptions.conduit.cms;
    if (!query?.enabled) continue;
    for (const field of query.fields ?? [])
      yield { schema, field, use: 'compare', by: `POST /database/${schema.name}/query` };
  }
}

function missingIndexAdvice(
  statistics: CollectedStatistics,
  [first, ...others]: readonly RequestedIndex[],
): readonly Advice[] {
  if (!first) return [];
  const { schema, field } = first;
  const table = keyOf(schema);
  const rows = rowsOf(statistics, table);
  const definition = definitionOf(first);
  if (rows < statistics.minRows || !definition || isCovered(schema, first)) return [];
  const users = [...new Set([first, ...others].map(({ by }) => by))].join(', ');
  const message = `${users} filters by "${field}", which has no index: each call reads all ${number(rows)} rows of ${schema.name}`;
  return [
    {
      kind: 'missing-index',
      severity: 'warning',
      ...about(table, schema),
      message,
      ...fixOf(schema, definition),
    },
  ];
}

/** How to make it: by a call, or for a table of others by its owner. */
function fixOf(schema: CompiledSchema, definition: IndexDefinition): Pick<Advice, 'call' | 'sql'> {
  if (!schema.mapping)
    return {
      call: {
        method: 'POST',
        path: `/database/schemas/${schema._id}/indexes`,
        body: { indexes: [definition] },
      },
    };
  const { source, columns } = schema.mapping;
  return {
    sql: createIndex(
      source.schema,
      source.name,
      definition.fields.map((name) => columns[name]?.column ?? name),
    ),
  };
}

const createIndex = (schema: string, table: string, columns: readonly string[]): string =>
  `create index concurrently on ${identifier(schema)}.${identifier(table)} (${columns.map(identifier).join(', ')})`;

/** The index that would help, if the platform knows one: not for parts of nested fields and fields of related schemas. */
function definitionOf({ schema, field, use }: RequestedIndex): IndexDefinition | undefined {
  const found = schema.tree.fields.get(field);
  if (!found && field !== 'createdAt' && field !== 'updatedAt') return undefined;
  const inside = found !== undefined && columnType(found) === 'jsonb';
  const definition: IndexDefinition = {
    fields: [field],
    ...(use === 'words' && { types: ['Text'] }),
    ...(use === 'compare' && inside && { engine: { method: 'GIN' } }),
  };
  return resolveIndex(definition, schema.tree, '').layout ? definition : undefined;
}

function isCovered({ layout }: CompiledSchema, { field, use }: RequestedIndex): boolean {
  return Object.values(layout.indexes).some(
    ({ columns, text = false, where }) =>
      columns[0] === field &&
      text === (use === 'words') &&
      (where === undefined || use === 'compare'),
  );
}

function foreignKeyAdvice(statistics: CollectedStatistics): readonly Advice[] {
  return statistics.foreignKeys.flatMap(({ schema, table, columns, target }): readonly Advice[] => {
    const key = tableKey(schema, table);
    if (rowsOf(statistics, key) < statistics.minRows) return [];
    const message =
      `"${columns.join(', ')}" refers to ${target} and has no index: each delete there, ` +
      `and each look for what belongs to one of its rows, reads all of ${key}`;
    const sql = createIndex(schema, table, columns);
    return [
      {
        kind: 'unindexed-relation',
        severity: 'warning',
        ...about(key, statistics.known.get(key)),
        message,
        sql,
      },
    ];
  });
}

export function indexAdvice(statistics: CollectedStatistics): readonly Advice[] {
  const ours = statistics.indexes.filter(
    ({ schema, table }) => !isPlatformTable(tableKey(schema, table)),
  );
  const byTable = Map.groupBy(ours, ({ schema, table }) => tableKey(schema, table));
  return [...byTable].flatMap(([table, indexes]) =>
    indexes.flatMap((index) => adviceOf(statistics, { table, index, indexes })),
  );
}

interface Case {
  readonly table: string;
  readonly index: IndexFacts;
  /** All of the table. */
  readonly indexes: readonly IndexFacts[];
}

function adviceOf(statistics: CollectedStatistics, one: Case): readonly Advice[] {
  const { table, index } = one;
  const facts = about(table, statistics.known.get(table));
  if (!index.valid) return [invalidAdvice(statistics, one)];
  if (index.unique || index.primary || isOfModule(statistics.known.get(table))) return [];
  const better = one.indexes.find((other) => makesRedundant(other, index));
  if (better) {
    const message = `The index ${index.name} (${megabytes(index.bytes)}) does nothing that ${better.name} does not do as well: it costs each write`;
    return [
      { kind: 'duplicate-index', severity: 'info', ...facts, message, ...removal(statistics, one) },
    ];
  }
  if (index.scans > 0 || index.needed || rowsOf(statistics, table) < statistics.minRows) return [];
  const since = statistics.server.countsSince?.toISOString().slice(0, 10);
  const message =
    `The index ${index.name} (${megabytes(index.bytes)}) was never read${since === undefined ? '' : ` since ${since}`}, and costs each write. ` +
    'Keep it if a report that runs rarely needs it, or if this is a replica’s job';
  return [
    { kind: 'unused-index', severity: 'info', ...facts, message, ...removal(statistics, one) },
  ];
}

/** What a module declares no operator can change, so there is nothing to advise. */
const isOfModule = (schema: CompiledSchema | undefined): boolean =>
  schema !== undefined && !schema.mapping && schema.ownerModule !== adminOwner;

function invalidAdvice(statistics: CollectedStatistics, one: Case): Advice {
  const { table, index } = one;
  const schema = statistics.known.get(table);
  const listed = declared(schema, index);
  const message = `The index ${index.name} is being made, or its making failed: until it is ready it helps no read and costs writes`;
  const facts = {
    kind: 'invalid-index',
    severity: 'warning',
    ...about(table, schema),
    message,
  } as const;
  if (!schema || !listed?.definition)
    return { ...facts, sql: `reindex index concurrently ${qualified(index)}` };
  const { ownerModule: _, ...definition } = listed.definition;
  return {
    ...facts,
    call: {
      method: 'POST',
      path: `/database/schemas/${schema._id}/indexes`,
      body: { indexes: [definition] },
    },
  };
}

/** An index over the first columns of another one, with nothing of its own. Of two that are equal, the later by name goes. */
function makesRedundant(other: IndexFacts, index: IndexFacts): boolean {
  if (other === index || !other.valid) return false;
  const begins = index.columns.every(
    (column, position) => column !== null && column === other.columns[position],
  );
  if (!begins) return false;
  if (other.columns.length === index.columns.length) {
    return other.kind === index.kind && (other.unique || other.name < index.name);
  }
  return (
    other.method === 'btree' &&
    index.method === 'btree' &&
    !other.partial &&
    !index.partial &&
    sameBeginning(other, index)
  );
}

/** The classes, collations and options of the shorter one are those that the longer one begins with. */
function sameBeginning(longer: IndexFacts, shorter: IndexFacts): boolean {
  const [, ...long] = longer.kind.split('|');
  const [, ...short] = shorter.kind.split('|');
  return [0, 1, 2].every((part) => `${long[part]} `.startsWith(`${short[part]} `));
}

/** By a call where an admin has added it; what a field brings goes with the option of the field. */
function removal(
  statistics: CollectedStatistics,
  { table, index }: Case,
): Pick<Advice, 'call' | 'sql'> {
  const schema = statistics.known.get(table);
  if (!schema || schema.mapping) return { sql: `drop index concurrently ${qualified(index)}` };
  const listed = declared(schema, index);
  // Somebody made it past the platform.
  if (!listed) return { sql: `drop index concurrently ${qualified(index)}` };
  if (listed.source !== 'schema') return {};
  return {
    call: {
      method: 'DELETE',
      path: `/database/schemas/${schema._id}/indexes`,
      query: { indexNames: listed.name },
    },
  };
}

const declared = (schema: CompiledSchema | undefined, index: IndexFacts) =>
  schema && !schema.mapping
    ? listIndexes(schema).find(({ physical }) => physical === index.name)
    : undefined;

const qualified = ({ schema, name }: IndexFacts): string =>
  `${identifier(schema)}.${identifier(name)}`;
