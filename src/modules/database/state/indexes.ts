/** Indexes that admins added to schemas of modules, or over fields of extensions, as state. All others are part of their schema. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../data/schema/compile/index-definition.ts';
import type { IndexDefinition } from '../../../data/schema/language/definition.ts';
import { indexShape } from '../../../data/schema/language/options.ts';
import { listIndexes } from '../../../data/schema/plan/index-change.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner, schemaObject } from '../../../kernel/authority.ts';
import { canonicalText, sameValue } from '../../../kernel/canonical.ts';
import { errors, type Problem } from '../../../kernel/errors.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import type { StateChange, StateDocument, StateType } from '../../../kernel/state.ts';
import type { IndexAdmin } from '../services/indexes.ts';
import { type Declarations, databaseModule, isAdminIndex, isOwnIndex } from './declared.ts';

interface Parts {
  readonly schemas: SchemaRegistry;
  readonly indexes: IndexAdmin;
  readonly declarations: Declarations;
}

type IndexDocument = StateDocument & IndexDefinition & { readonly schemaName: string };

const IndexShape = Type.Object({
  schemaName: Type.String({ maxLength: 64 }),
  ...Type.Omit(indexShape, ['ownerModule']).properties,
});

export const indexState = ({ schemas, indexes, declarations }: Parts): StateType => ({
  module: databaseModule,
  type: 'indexes',
  priority: 12,
  document: IndexShape,
  keyOf,
  touches: ({ schemaName }) => schemaObject(schemas.get(String(schemaName))),
  export: async () => schemas.all().flatMap(documentsOf),
  async complete(caller, documents, whole) {
    const { registry } = await declarations.after(caller, whole);
    const problems = documents.flatMap(({ document, place }) =>
      problemsOf(registry, document as IndexDocument, place),
    );
    if (problems.length > 0) throw invalidInput(problems);
    return documents.map(({ document }) => document);
  },
  async apply(caller, changes) {
    const bySchema = Map.groupBy(changes, ({ before, after }) =>
      String((after ?? before)?.schemaName),
    );
    const requested = [...bySchema].flatMap(([name, of]) => {
      const schema = schemas.get(name);
      return schema
        ? [
            {
              id: schema._id,
              add: of.flatMap(added),
              remove: of.flatMap((change) => removed(schema, change)),
            },
          ]
        : [];
    });
    if (requested.length > 0) await indexes.change(caller, requested);
  },
});

/** Whatever an index is about is part of its name: another one is another index. */
function keyOf(document: StateDocument): string {
  const { schemaName, fields, ...rest } = document as IndexDocument;
  return `${schemaName}(${fields.join(', ')})${Object.keys(rest).length > 0 ? ` ${canonicalText(rest)}` : ''}`;
}

const documentsOf = (schema: CompiledSchema): readonly StateDocument[] =>
  (schema.modelOptions.indexes ?? [])
    .filter((index) => isAdminIndex(schema, index) && !isOwnIndex(schema, index))
    .map((index) => ({ schemaName: schema.name, ...definitionOf(index) }));

const definitionOf = ({ ownerModule: _, ...definition }: IndexDefinition): IndexDefinition =>
  definition;

function problemsOf(
  { get }: SchemaRegistry,
  { schemaName, ...definition }: IndexDocument,
  place: string,
): readonly Problem[] {
  const schema = get(schemaName);
  if (!schema)
    return [
      { path: `${place}.schemaName`, rule: 'exists', message: 'there is no schema of this name' },
    ];
  if (isOwnIndex(schema, definition)) {
    const message = `is over fields of ${schemaName} itself: write it under modelOptions.indexes of the schema`;
    return [{ path: place, rule: 'place', message }];
  }
  const { problems, skipped, layout } = resolveIndex(definition, schema.tree, place);
  if (skipped !== undefined) return [{ path: `${place}.types`, rule: 'type', message: skipped }];
  if (layout?.unique && schema.ownerModule !== adminOwner)
    return [
      {
        path: `${place}.options.unique`,
        rule: 'owner',
        message: `only the module that owns ${schemaName} decides what is unique in it`,
      },
    ];
  return problems;
}

function added({ after }: StateChange): readonly IndexDefinition[] {
  if (!after) return [];
  const { schemaName: _, ...definition } = after as IndexDocument;
  return [definition];
}

function removed(schema: CompiledSchema, { action, before }: StateChange): readonly string[] {
  if (action !== 'delete' || !before) return [];
  const { schemaName: _, ...requested } = before as IndexDocument;
  const found = listIndexes(schema).find(
    ({ definition }) => definition && sameValue(definitionOf(definition), requested),
  );
  if (!found)
    throw errors.CONFLICT({
      message: `An index of ${schema.name} was changed in the meantime: plan again`,
    });
  return [found.name];
}
