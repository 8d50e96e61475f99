/** What the catalogue of PostgreSQL says about the tables of others. It is read, nothing else: no row of a table is looked at. */

import type { QualifiedName, RelationKind } from '../../../../data/schema/mapping/table-mapping.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { columnsQuery, constraintsQuery, indexesQuery, relationsQuery } from './catalogue-queries.ts';

/** A type as it is stored: domains are followed down to what they are made of. */
export interface CatalogueType {
  /** The type of the column itself, which values are cast to. */
  readonly declared: QualifiedName;
  /** As in `create table`: `character varying(40)`. */
  readonly text: string;
  /** `base`: the type, or the one below a domain. `category` is PostgreSQL's own letter. */
  readonly base: QualifiedName & { readonly category: string; readonly modifier: number };
  /** Of an array: its element. */
  readonly element: (QualifiedName & { readonly labels: readonly string[] | null }) | null;
  /** Dimensions that the declaration names. */
  readonly dimensions: number;
  /** Of an enum: its values in order. */
  readonly labels: readonly string[] | null;
  /** Rules of the domains on the way, as `CHECK (...)` over VALUE. */
  readonly checks: readonly string[];
}

export interface CatalogueColumn {
  readonly name: string;
  readonly type: CatalogueType;
  readonly notNull: boolean;
  /** The table gives a value when the writer gives none. */
  readonly hasDefault: boolean;
  /** The table always gives the value: generated columns, and identities that take no other. */
  readonly generated: boolean;
  readonly comment: string | null;
}

export interface CatalogueConstraint {
  readonly name: string;
  readonly kind: 'primary' | 'unique' | 'foreign' | 'check';
  readonly columns: readonly string[];
  /** Of a foreign key. */
  readonly target: (QualifiedName & { readonly columns: readonly string[] }) | null;
  readonly onDelete: 'restrict' | 'cascade' | 'setNull';
  /** Of a check: its text. */
  readonly text: string | null;
}

export interface CatalogueIndex {
  readonly name: string;
  /** Columns in order; empty for an index over expressions. */
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly method: string;
  /** It covers some rows only. */
  readonly partial: boolean;
}

export interface CatalogueRelation extends QualifiedName {
  readonly kind: RelationKind;
  readonly comment: string | null;
  /** What the role of the platform may do. */
  readonly may: { readonly select: boolean; readonly insert: boolean; readonly update: boolean; readonly delete: boolean };
  /** Row-level security is on. */
  readonly rowSecurity: boolean;
  /** Other tables inherit from it. */
  readonly inherited: boolean;
  /** How a partitioned table is divided, as `RANGE (payment_date)`. */
  readonly partitionKey: string | null;
  readonly columns: readonly CatalogueColumn[];
  readonly constraints: readonly CatalogueConstraint[];
  readonly indexes: readonly CatalogueIndex[];
}

/** Relations of one reading; a database with more is read schema by schema. */
export const MAX_RELATIONS = 2_000;

interface Owned {
  readonly oid: number;
}

/** All tables and views of these schemas, by name. Partitions are part of their table, extensions own theirs. */
export async function readCatalogue(database: Queryable, schemas: readonly string[]): Promise<readonly CatalogueRelation[]> {
  const { rows: relations } = await database.query<Omit<CatalogueRelation, 'columns' | 'constraints' | 'indexes'> & Owned>(
    relationsQuery(schemas, MAX_RELATIONS + 1),
  );
  const oids = relations.map(({ oid }) => oid);
  const columns = await ownedBy<CatalogueColumn>(database, columnsQuery(oids));
  const constraints = await ownedBy<CatalogueConstraint>(database, constraintsQuery(oids));
  const indexes = await ownedBy<CatalogueIndex>(database, indexesQuery(oids));
  return relations.map(({ oid, ...relation }) => ({
    ...relation,
    columns: columns.get(oid) ?? [],
    constraints: constraints.get(oid) ?? [],
    indexes: indexes.get(oid) ?? [],
  }));
}

async function ownedBy<T>(database: Queryable, statement: Parameters<Queryable['query']>[0]): Promise<ReadonlyMap<number, T[]>> {
  const { rows } = await database.query<{ oid: number; item: T }>(statement);
  const found = new Map<number, T[]>();
  for (const { oid, item } of rows) found.set(oid, [...(found.get(oid) ?? []), item]);
  return found;
}
