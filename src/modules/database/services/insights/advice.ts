/** What an operator is told, and what all parts of it are made from. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { StatementFigures } from '../../../../kernel/database/statement-timings.ts';
import type { StoredEndpoint } from '../endpoints/definition.ts';
import type { BareForeignKey, IndexFacts, ServerFacts, TableFacts } from './queries.ts';

/* Which schema a table of the database belongs to. */

/** A table by the names of the catalogue: `app.Post`. */
export const tableKey = (schema: string, table: string): string => `${schema}.${table}`;

/** Tables of the platform itself, which operators have no hand in. */
export const isPlatformTable = (key: string): boolean => key.startsWith('penstock.');

type KnownTables = ReadonlyMap<string, CompiledSchema>;

export const knownTables = (schemas: Pick<SchemaRegistry, 'all'>): KnownTables =>
  new Map(schemas.all().map((schema) => [keyOf(schema), schema]));

export function keyOf({ name, mapping }: CompiledSchema): string {
  return mapping ? tableKey(mapping.source.schema, mapping.source.name) : tableKey('app', name);
}

export const adviceKinds = [
  'missing-index',
  'unindexed-relation',
  'full-reads',
  'unused-index',
  'duplicate-index',
  'invalid-index',
  'dead-rows',
  'no-statistics',
  'old-transactions',
  'slow-statements',
  'cache',
  'connections',
  'open-transaction',
] as const;

/** A request to the admin surface that does what is advised. */
interface AdviceCall {
  readonly method: 'POST' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Advice {
  readonly kind: (typeof adviceKinds)[number];
  readonly severity: 'info' | 'warning' | 'critical';
  /** Name of the schema it is about. */
  readonly schema?: string;
  /** As in the catalogue. */
  readonly table?: string;
  readonly message: string;
  readonly call?: AdviceCall;
  /** What the owner of the table may run, where the platform does not change it. */
  readonly sql?: string;
}

/** Everything that was looked at, once. */
export interface CollectedStatistics {
  readonly tables: readonly TableFacts[];
  readonly indexes: readonly IndexFacts[];
  readonly foreignKeys: readonly BareForeignKey[];
  readonly server: ServerFacts;
  readonly statements: readonly StatementFigures[];
  readonly endpoints: readonly StoredEndpoint[];
  readonly known: KnownTables;
  /** Tables with fewer rows need no advice about indexes: reading all of them costs nothing. */
  readonly minRows: number;
}

/** `schema` and `table` of an advice. */
export const about = (
  table: string,
  schema: CompiledSchema | undefined,
): Pick<Advice, 'schema' | 'table'> => ({
  ...(schema && { schema: schema.name }),
  table,
});

/** Number of rows of a table; 0 when the statistics do not know it. */
export function rowsOf({ tables }: CollectedStatistics, table: string): number {
  return tables.find(({ schema, name }) => `${schema}.${name}` === table)?.rows ?? 0;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
export const number = (value: number): string => whole.format(value);
export const megabytes = (bytes: number): string =>
  bytes < 1_048_576 ? `${number(bytes / 1024)} KB` : `${number(bytes / 1_048_576)} MB`;
