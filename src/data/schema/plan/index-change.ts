/** The indexes of a schema as a list, and adding to and taking from it. */
import { type Declaration, treeOf } from '../compile/declaration.ts';
import { fieldIndexes, resolveIndex } from '../compile/index-definition.ts';
import { type IndexLayout, indexName, madeIndex, ownIndex } from '../compile/layout.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import type { FieldMap, IndexDefinition } from '../language/definition.ts';
import { mergedFields, type SchemaExtension } from '../language/extension.ts';
import { type ObjectField, relationOf } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import { softDeleteOf } from '../language/record-options.ts';
import type { IndexChange } from './schema-request.ts';

export interface ListedIndex {
  /** The one that was given, else the physical one. */
  readonly name: string;
  /** Name in the database. */
  readonly physical: string;
  readonly layout: IndexLayout;
  /** What brings it: an index of its own, an option of a field, or that the field is a relation. */
  readonly source: 'schema' | 'field' | 'relation';
  /** As it is declared; absent for one that a field has because of what it is. */
  readonly definition?: IndexDefinition;
}

interface Indexed {
  readonly name: string;
  readonly fields: FieldMap;
  readonly extensions: readonly SchemaExtension[];
  readonly modelOptions: Declaration['modelOptions'];
  readonly tree: ObjectField;
}

/** Every index of a schema once, those that fields bring first. */
export function listIndexes(schema: Indexed): readonly ListedIndex[] {
  const softDelete = softDeleteOf(schema.modelOptions.conduit) !== undefined;
  const entry = (
    layout: IndexLayout,
    source: ListedIndex['source'],
    definition?: IndexDefinition,
  ): ListedIndex => {
    const made = madeIndex(layout, softDelete);
    const physical = indexName(schema.name, made);
    return {
      name: definition?.options?.name ?? physical,
      physical,
      layout: made,
      source,
      ...(definition && { definition }),
    };
  };
  const declared = (definition: IndexDefinition, source: ListedIndex['source']): ListedIndex[] => {
    const { layout } = resolveIndex(definition, schema.tree, '');
    return layout ? [entry(layout, source, definition)] : [];
  };
  const implied = [...schema.tree.fields].flatMap(([name, field]): ListedIndex[] => {
    const layout = ownIndex(name, field);
    return layout
      ? [entry(layout, relationOf(field) && !field.unique && !field.indexed ? 'relation' : 'field')]
      : [];
  });
  const all = [
    ...implied,
    ...fieldIndexes(mergedFields(schema)).flatMap((definition) => declared(definition, 'field')),
    ...(schema.modelOptions.indexes ?? []).flatMap((definition) => declared(definition, 'schema')),
  ];
  return all.filter(
    (index, position) => all.findIndex(({ physical }) => physical === index.physical) === position,
  );
}

/** The declared indexes after a change. `adder` is set when the schema belongs to somebody else. Throws 400, 403, 404 and 409. */
export function changedIndexes(
  current: Declaration,
  { add, remove }: IndexChange,
  adder: string | undefined,
): readonly IndexDefinition[] {
  const tree = treeOf(current);
  const kept = withoutNamed(current, tree, { names: remove, adder });
  const indexes = [...kept];
  for (const [position, definition] of add.entries()) {
    const place = `indexes.${position}`;
    const { layout, problems, skipped } = resolveIndex(definition, tree, place);
    if (skipped !== undefined)
      throw invalidSchema([{ path: `${place}.types`, rule: 'type', message: skipped }]);
    if (!layout) throw invalidSchema(problems);
    if (adder !== undefined && layout.unique) throw schemaErrors.INDEX_OWNED();
    const owned = { ...definition, ...(adder !== undefined && { ownerModule: adder }) };
    if (
      isNew({ ...current, tree, modelOptions: { ...current.modelOptions, indexes } }, layout, owned)
    )
      indexes.push(owned);
  }
  return indexes;
}

/** False when the same index is there; throws 409 when its name means another one. */
function isNew(schema: Indexed, layout: IndexLayout, { options }: IndexDefinition): boolean {
  const softDelete = softDeleteOf(schema.modelOptions.conduit) !== undefined;
  const physical = indexName(schema.name, madeIndex(layout, softDelete));
  const listed = listIndexes(schema);
  const namesake =
    options?.name === undefined ? undefined : listed.find(({ name }) => name === options.name);
  if (namesake && namesake.physical !== physical) {
    const message = `the index "${shortName(namesake.name)}" is over ${namesake.layout.columns.join(', ')} and is another one`;
    throw schemaErrors.INDEX_EXISTS({
      message,
      errors: [{ path: 'options.name', rule: 'unique', message }],
    });
  }
  return !listed.some((index) => index.physical === physical);
}

interface Removal {
  readonly names: readonly string[];
  readonly adder: string | undefined;
}

function withoutNamed(
  current: Declaration,
  tree: ObjectField,
  { names, adder }: Removal,
): readonly IndexDefinition[] {
  const listed = listIndexes({ ...current, tree });
  const going = names.map((name) => {
    const found = listed.find((index) => index.name === name);
    const place = { path: 'indexNames', message: `there is no index "${shortName(name)}"` };
    if (!found)
      throw schemaErrors.INDEX_NOT_FOUND({
        message: place.message,
        errors: [{ ...place, rule: 'exists' }],
      });
    if (found.source !== 'schema') throw schemaErrors.INDEX_BUILT_IN();
    if (adder !== undefined && found.definition?.ownerModule !== adder)
      throw schemaErrors.INDEX_OWNED({
        message: `The index belongs to the module ${current.ownerModule}`,
      });
    return found.physical;
  });
  const softDelete = softDeleteOf(current.modelOptions.conduit) !== undefined;
  return (current.modelOptions.indexes ?? []).filter((definition) => {
    const { layout } = resolveIndex(definition, tree, '');
    return !layout || !going.includes(indexName(current.name, madeIndex(layout, softDelete)));
  });
}
