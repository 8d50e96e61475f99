/** Fields that custom endpoints and clients filter by, and foreign keys, without an index that helps. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../../data/schema/compile/index-definition.ts';
import type { IndexDefinition } from '../../../../data/schema/language/definition.ts';
import { columnType } from '../../../../data/schema/language/field.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import { comparisonCode, leavesOf, type QueryLeaf } from '../endpoints/definition.ts';
import { type Advice, about, type Looked, number, rowsOf } from './advice.ts';
import { keyOf, tableKey } from './known-tables.ts';

/** A field that something filters by. */
interface Wish {
  readonly schema: CompiledSchema;
  readonly field: string;
  readonly use: 'compare' | 'words';
  /** Who wants it, in words. */
  readonly by: string;
}

export function wantedIndexes(looked: Looked): readonly Advice[] {
  const bySubject = Map.groupBy([...endpointWishes(looked), ...queryWishes(looked)], ({ schema, field, use }) =>
    [schema._id, field, use].join('|'),
  );
  return [...[...bySubject.values()].flatMap((wishes) => wishAdvice(looked, wishes)), ...foreignKeyAdvice(looked)];
}

function* endpointWishes({ endpoints, known }: Looked): Generator<Wish> {
  const byName = new Map([...known.values()].map((schema) => [schema.name, schema]));
  for (const { name, query, selectedSchemaName } of endpoints) {
    const schema = byName.get(selectedSchemaName);
    if (!schema || !query) continue;
    for (const { leaf } of leavesOf(query, '')) {
      const use = useOf(leaf);
      if (use) yield { schema, field: leaf.schemaField, use, by: `the custom endpoint ${name}` };
    }
  }
}

/** An index helps neither a text that is looked for anywhere in another nor what shall be different. */
function useOf({ operation, comparisonField }: QueryLeaf): Wish['use'] | undefined {
  if (comparisonField.search) return 'words';
  if (comparisonField.like || comparisonField.type === 'Schema') return undefined;
  return operation === comparisonCode.notEqual || operation === comparisonCode.notIn ? undefined : 'compare';
}

function* queryWishes({ known }: Looked): Generator<Wish> {
  for (const schema of known.values()) {
    const { query } = schema.modelOptions.conduit.cms;
    if (!query?.enabled) continue;
    for (const field of query.fields ?? []) yield { schema, field, use: 'compare', by: `POST /database/${schema.name}/query` };
  }
}

function wishAdvice(looked: Looked, [wish, ...others]: readonly Wish[]): readonly Advice[] {
  if (!wish) return [];
  const { schema, field } = wish;
  const table = keyOf(schema);
  const rows = rowsOf(looked, table);
  const definition = definitionOf(wish);
  if (rows < looked.minRows || !definition || isCovered(schema, wish)) return [];
  const users = [...new Set([wish, ...others].map(({ by }) => by))].join(', ');
  const message = `${users} filters by "${field}", which has no index: each call reads all ${number(rows)} rows of ${schema.name}`;
  return [{ kind: 'missing-index', severity: 'warning', ...about(table, schema), message, ...fixOf(schema, definition) }];
}

/** How to make it: by a call, or for a table of others by its owner. */
function fixOf(schema: CompiledSchema, definition: IndexDefinition): Pick<Advice, 'call' | 'sql'> {
  if (!schema.mapping)
    return { call: { method: 'POST', path: `/database/schemas/${schema._id}/indexes`, body: { indexes: [definition] } } };
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
function definitionOf({ schema, field, use }: Wish): IndexDefinition | undefined {
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

function isCovered({ layout }: CompiledSchema, { field, use }: Wish): boolean {
  return Object.values(layout.indexes).some(
    ({ columns, text = false, where }) => columns[0] === field && text === (use === 'words') && (where === undefined || use === 'compare'),
  );
}

function foreignKeyAdvice(looked: Looked): readonly Advice[] {
  return looked.foreignKeys.flatMap(({ schema, table, columns, target }): readonly Advice[] => {
    const key = tableKey(schema, table);
    if (rowsOf(looked, key) < looked.minRows) return [];
    const message =
      `"${columns.join(', ')}" refers to ${target} and has no index: each delete there, ` +
      `and each look for what belongs to one of its rows, reads all of ${key}`;
    const sql = createIndex(schema, table, columns);
    return [{ kind: 'unindexed-relation', severity: 'warning', ...about(key, looked.known.get(key)), message, sql }];
  });
}
