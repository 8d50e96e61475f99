/** What introspection makes of a table: a schema that could be declared over it, and what an admin should know before. */

import type { ForeignKeyLayout, IndexLayout } from '../../../../data/schema/compile/layout.ts';
import type { FieldMap } from '../../../../data/schema/language/definition.ts';
import type { KeyType } from '../../../../data/schema/language/record-key.ts';
import type { TableMapping } from '../../../../data/schema/mapping/table-mapping.ts';

export interface SkippedColumn {
  readonly column: string;
  readonly type: string;
  readonly reason: string;
}

/** A foreign key of the table. */
export interface DescribedKey {
  readonly name: string;
  readonly columns: readonly string[];
  readonly target: {
    readonly schema: string;
    readonly name: string;
    readonly columns: readonly string[];
  };
  /** The field that became a Relation; else `reason` says why none did. */
  readonly field?: string;
  readonly reason?: string;
}

export interface DescribedIndex {
  readonly name: string;
  readonly fields: readonly string[];
  readonly unique: boolean;
  readonly method: string;
  readonly partial: boolean;
}

export interface InferredTable {
  /** Without the prefix of imported schemas. */
  readonly name: string;
  readonly description: string | null;
  readonly fields: FieldMap;
  readonly mapping: TableMapping;
  readonly skippedColumns: readonly SkippedColumn[];
  readonly foreignKeys: readonly DescribedKey[];
  readonly indexes: readonly DescribedIndex[];
  readonly warnings: readonly string[];
  /** What each field can be in a key; a field that is missing can be in none. */
  readonly keyTypes: Readonly<Record<string, KeyType>>;
  /** By the names that the database uses in its errors. */
  readonly layout: {
    readonly indexes: Readonly<Record<string, IndexLayout>>;
    readonly foreignKeys: Readonly<Record<string, ForeignKeyLayout>>;
  };
}
