/** Indexes that cost writes and memory and help nobody. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { listIndexes } from '../../../../data/schema/plan/index-change.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import type { IndexFacts } from '../../insight-queries.ts';
import { type Advice, about, type Looked, megabytes, rowsOf } from './advice.ts';
import { isPlatformTable, tableKey } from './known-tables.ts';

export function indexAdvice(looked: Looked): readonly Advice[] {
  const ours = looked.indexes.filter(({ schema, table }) => !isPlatformTable(tableKey(schema, table)));
  const byTable = Map.groupBy(ours, ({ schema, table }) => tableKey(schema, table));
  return [...byTable].flatMap(([table, indexes]) => indexes.flatMap((index) => adviceOf(looked, { table, index, indexes })));
}

interface Case {
  readonly table: string;
  readonly index: IndexFacts;
  /** All of the table. */
  readonly indexes: readonly IndexFacts[];
}

function adviceOf(looked: Looked, one: Case): readonly Advice[] {
  const { table, index } = one;
  const facts = about(table, looked.known.get(table));
  if (!index.valid) return [invalidAdvice(looked, one)];
  if (index.unique || index.primary || isOfModule(looked.known.get(table))) return [];
  const better = one.indexes.find((other) => makesRedundant(other, index));
  if (better) {
    const message = `The index ${index.name} (${megabytes(index.bytes)}) does nothing that ${better.name} does not do as well: it costs each write`;
    return [{ kind: 'duplicate-index', severity: 'info', ...facts, message, ...removal(looked, one) }];
  }
  if (index.scans > 0 || index.needed || rowsOf(looked, table) < looked.minRows) return [];
  const since = looked.server.countsSince?.toISOString().slice(0, 10);
  const message =
    `The index ${index.name} (${megabytes(index.bytes)}) was never read${since === undefined ? '' : ` since ${since}`}, and costs each write. ` +
    'Keep it if a report that runs rarely needs it, or if this is a replica’s job';
  return [{ kind: 'unused-index', severity: 'info', ...facts, message, ...removal(looked, one) }];
}

/** What a module declares no operator can change, so there is nothing to advise. */
const isOfModule = (schema: CompiledSchema | undefined): boolean =>
  schema !== undefined && !schema.mapping && schema.ownerModule !== adminOwner;

function invalidAdvice(looked: Looked, one: Case): Advice {
  const { table, index } = one;
  const schema = looked.known.get(table);
  const listed = declared(schema, index);
  const message = `The index ${index.name} is being made, or its making failed: until it is ready it helps no read and costs writes`;
  const facts = { kind: 'invalid-index', severity: 'warning', ...about(table, schema), message } as const;
  if (!schema || !listed?.definition) return { ...facts, sql: `reindex index concurrently ${qualified(index)}` };
  const { ownerModule: _, ...definition } = listed.definition;
  return { ...facts, call: { method: 'POST', path: `/database/schemas/${schema._id}/indexes`, body: { indexes: [definition] } } };
}

/** An index over the first columns of another one, with nothing of its own. Of two that are equal, the later by name goes. */
function makesRedundant(other: IndexFacts, index: IndexFacts): boolean {
  if (other === index || !other.valid) return false;
  const begins = index.columns.every((column, position) => column !== null && column === other.columns[position]);
  if (!begins) return false;
  if (other.columns.length === index.columns.length) {
    return other.kind === index.kind && (other.unique || other.name < index.name);
  }
  return other.method === 'btree' && index.method === 'btree' && !other.partial && !index.partial && sameBeginning(other, index);
}

/** The classes, collations and options of the shorter one are those that the longer one begins with. */
function sameBeginning(longer: IndexFacts, shorter: IndexFacts): boolean {
  const [, ...long] = longer.kind.split('|');
  const [, ...short] = shorter.kind.split('|');
  return [0, 1, 2].every((part) => `${long[part]} `.startsWith(`${short[part]} `));
}

/** By a call where an admin has added it; what a field brings goes with the option of the field. */
function removal(looked: Looked, { table, index }: Case): Pick<Advice, 'call' | 'sql'> {
  const schema = looked.known.get(table);
  if (!schema || schema.mapping) return { sql: `drop index concurrently ${qualified(index)}` };
  const listed = declared(schema, index);
  // Somebody made it past the platform.
  if (!listed) return { sql: `drop index concurrently ${qualified(index)}` };
  if (listed.source !== 'schema') return {};
  return { call: { method: 'DELETE', path: `/database/schemas/${schema._id}/indexes`, query: { indexNames: listed.name } } };
}

const declared = (schema: CompiledSchema | undefined, index: IndexFacts) =>
  schema && !schema.mapping ? listIndexes(schema).find(({ physical }) => physical === index.name) : undefined;

const qualified = ({ schema, name }: IndexFacts): string => `${identifier(schema)}.${identifier(name)}`;
