/** What the tables of the catalogue would become, and which of them have changed since they got a schema. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { FieldMap } from '../../../../data/schema/language/definition.ts';
import type { TableMapping } from '../../../../data/schema/mapping/table-mapping.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { CatalogueRelation } from './catalogue.ts';
import type { Edits } from './edits.ts';
import { inferTable } from './infer.ts';
import type { InferredTable } from './inferred.ts';
import { isImported, sourceNames } from './known.ts';
import { schemaNames } from './names.ts';
import type { FoundTable } from './pending-store.ts';

/** Tables that have a schema are among them only when they have changed. Those of which nothing can be served are not. */
export function findTables(schemas: SchemaRegistry, relations: readonly CatalogueRelation[]): readonly FoundTable[] {
  const imported = schemas.all().filter(({ mapping }) => mapping);
  const fresh = relations.filter((relation) => !imported.some((schema) => isImported(schema, relation)));
  const names = schemaNames(fresh, new Set(schemas.all().map(({ name }) => name.toLowerCase())));
  const known = sourceNames(
    schemas,
    fresh.map(({ schema, name }, i) => ({ id: '', schema, name, pending: names[i] ?? name, renamed: false })),
  );
  const context = {
    relation: (name: { schema: string; name: string }) => relations.find((one) => one.schema === name.schema && one.name === name.name),
    schemaName: known,
  };
  return relations.flatMap((relation): FoundTable[] => {
    const schema = imported.find((one) => isImported(one, relation));
    const name = schema?.name ?? names[fresh.indexOf(relation)] ?? relation.name;
    const inferred = inferTable(relation, name, context);
    if (Object.keys(inferred.mapping.columns).length === 0) return [];
    if (!schema?.mapping) return [{ inferred, edits: {} }];
    return hasChanged(schema.mapping, inferred.mapping) ? [{ inferred, edits: editsOf(schema, schema.mapping, inferred) }] : [];
  });
}

/** Whether a table is no longer what its schema was laid over. A key that somebody named is none of the table's. */
function hasChanged(stored: TableMapping, found: TableMapping): boolean {
  const essence = ({ columns, key, kind }: TableMapping): string => {
    const shapes = Object.values(columns).map(({ column, type, form, filled }) =>
      JSON.stringify([column, type.schema, type.name, form, filled]),
    );
    return JSON.stringify([kind, shapes.sort(), found.key.length > 0 && key.map((field) => columns[field]?.column)]);
  };
  return essence(stored) !== essence(found);
}

/** What was made of the table when it was finalised, and since, so that it is not lost by what has changed. */
function editsOf(schema: CompiledSchema, stored: TableMapping, { mapping }: InferredTable): Edits {
  const fieldOf = new Map(Object.entries(stored.columns).map(([field, { column }]) => [column, field]));
  const renames = Object.entries(mapping.columns).flatMap(([field, { column }]): [string, string][] => {
    const name = fieldOf.get(column);
    return name === undefined || name === field ? [] : [[field, name]];
  });
  const { _id, createdAt, updatedAt, ...fields } = schema.fields as FieldMap;
  return {
    fields,
    known: Object.keys(stored.columns),
    ...(renames.length > 0 && { renames: Object.fromEntries(renames) }),
    ...(mapping.key.length === 0 && stored.key.length > 0 && { key: stored.key }),
  };
}
