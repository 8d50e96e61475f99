/** From a table of others to the declaration of a schema over it. */

import { adminOwner } from '../../../kernel/authority.ts';
import type { DroppedFields } from '../compile/compiled.ts';
import type { Declaration } from '../compile/declaration.ts';
import { emptyLayout } from '../compile/layout.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import { typeSignatures } from '../language/field.ts';
import { parseFields } from '../language/parse.ts';
import { sameName } from '../mapping/table-mapping.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  unchangedDeclaration,
} from './declaration-change.ts';
import type { ImportedTable } from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

/** Throws 400 for definitions that do not fit their table, 409 for names that are taken and tables that have a schema already. */
export function importTablesPlan(
  snapshot: SchemaSnapshot,
  tables: readonly ImportedTable[],
): ChangePlan {
  const drafts = tables.map((table) => importedTableChange(snapshot, table));
  const names = drafts.map(({ declaration }) => declaration.name.toLowerCase());
  const twin = names.find((name, i) => names.indexOf(name) < i);
  if (twin !== undefined)
    throw schemaErrors.SCHEMA_EXISTS({ message: `The name ${twin} is there twice` });
  return { drafts, destroy: [] };
}

function importedTableChange(snapshot: SchemaSnapshot, table: ImportedTable): DeclarationChange {
  const current = [...snapshot.values()].find(
    ({ layout }) => layout.mapping && sameName(layout.mapping.source, table.mapping.source),
  );
  const namesake = snapshot.get(table.name.toLowerCase());
  if (namesake && namesake !== current)
    throw schemaErrors.SCHEMA_EXISTS({ message: `The name ${namesake.name} is already in use` });
  if (current && current.name !== table.name) {
    throw schemaErrors.SCHEMA_EXISTS({
      message: `${current.name} is laid over this table already; it keeps its name`,
    });
  }
  const { declaration } = declarationChangeOf(
    { name: table.name, owner: adminOwner, fields: table.fields, options: table.options },
    { ...blank(table), layout: layoutOf(table) },
  );
  const adopted: Declaration = { ...declaration, dropped: leftOut(table) };
  return unchangedDeclaration(
    current
      ? { ...adopted, id: current.id, version: current.version + 1, createdAt: current.createdAt }
      : adopted,
  );
}

const layoutOf = ({ mapping, indexes, foreignKeys }: ImportedTable) => ({
  ...emptyLayout,
  indexes,
  foreignKeys,
  mapping,
});

/** The place of a declaration that is not there yet, so that its table is known to the checks. */
const blank = ({ name }: ImportedTable): Declaration => ({
  id: '',
  name,
  ownerModule: adminOwner,
  parentSchema: null,
  fields: {},
  extensions: [],
  modelOptions: { timestamps: false, conduit: {} } as unknown as Declaration['modelOptions'],
  layout: emptyLayout,
  dropped: {},
  changes: [],
  checksum: '',
  version: 0,
  createdAt: new Date(),
  updatedAt: new Date(),
  removed: true,
});

/** Columns that the schema does not show can be shown later. Throws 400 for a field that is of another type than its column. */
function leftOut({ fields, columns }: ImportedTable): DroppedFields {
  const at = new Date().toISOString();
  const stored = typeSignatures(parseFields(columns).tree.fields);
  const requested = typeSignatures(parseFields(fields).tree.fields);
  const wrong = [...requested].filter(([path, type]) => stored.get(path) !== type);
  if (wrong.length > 0) {
    throw invalidSchema(
      wrong.map(([path, type]) => ({
        path: `fields.${path}`,
        rule: 'type',
        message: `is ${stored.get(path) ?? 'not there'} and cannot be ${type}`,
      })),
    );
  }
  const hidden = Object.entries(columns).filter(([name]) => !Object.hasOwn(fields, name));
  return Object.fromEntries(
    hidden.map(([name, definition]) => [name, { type: stored.get(name) ?? '', at, definition }]),
  );
}
