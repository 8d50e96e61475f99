/** Schemas of admins as state. Those over tables of others are not part of it: introspection makes them where the tables are. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { automaticFields } from '../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors, invalid, type Problem } from '../../../kernel/errors.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateImport,
  type StateOutlook,
  type StateType,
} from '../../../kernel/state.ts';
import { mapInSlices } from '../../../kernel/time-slices.ts';
import type { EndpointAdmin } from '../services/endpoints/admin.ts';
import type { Endpoints } from '../services/endpoints/serving.ts';
import {
  ImportedExtension,
  type ImportedExtensionDocument,
  ImportedSchema,
  newExtensionOf,
} from '../services/imported-schema.ts';
import type { IndexAdmin } from '../services/indexes.ts';
import type { RowAuthorization } from '../services/row-authorization.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import type { PlanForAdmin } from '../services/schema-views.ts';
import { createDeclarations, type Declarations, databaseModule, isOwnIndex } from './declared.ts';
import { endpointState } from './endpoints.ts';
import { indexState } from './indexes.ts';

/* What changes of schemas and extensions mean for the records that are stored, as the plan of an import shows it. */

/** `changes`: those of one type, known by the names of their schemas. */
function outlookOf(
  plan: PlanForAdmin,
  changes: readonly StateChange[],
  whole: StateImport,
): StateOutlook {
  const written = changes.filter(({ action }) => action !== 'delete');
  const isSchemas = written.some((change) =>
    whole.changes(databaseModule, 'schemas').includes(change),
  );
  // What an import does to a schema is told once: with the schema if that changes, else with its extension.
  const told = new Set(
    isSchemas ? [] : whole.changes(databaseModule, 'schemas').map(({ key }) => key),
  );
  const own = written.filter(({ key }) => !told.has(key));
  const renames = Map.groupBy(plan.renames, schemaOf);
  const hides = Map.groupBy(plan.hides, schemaOf);
  const obstacles = Map.groupBy(plan.obstacles, schemaOf);
  return {
    effects: new Map(
      own.map(({ key }) => [
        key,
        {
          renames: (renames.get(key) ?? []).map(({ from, to }) => ({ from, to })),
          hides: (hides.get(key) ?? []).map(({ field, records }) => ({ field, records })),
        },
      ]),
    ),
    obstacles: own.flatMap(({ key, place }) => placedAt(obstacles.get(key) ?? [], place)),
    warnings: isSchemas ? brokenWarnings(plan, whole) : [],
  };
}

const schemaOf = ({ schema }: { readonly schema: string }): string => schema;

const placedAt = (obstacles: readonly Problem[], place: string): readonly Problem[] =>
  obstacles.map(({ path, rule, message }) => ({ path: `${place}.${path}`, rule, message }));

/** Endpoints that neither come with the import nor go with it. */
function brokenWarnings({ endpoints }: PlanForAdmin, whole: StateImport): readonly string[] {
  const touched = new Set(whole.changes(databaseModule, 'customEndpoints').map(({ key }) => key));
  return endpoints
    .filter((name) => !touched.has(name))
    .map((name) => `The custom endpoint ${name} would no longer be served: its schema changes`);
}

/* Fields that admins added to schemas, as state. */

interface ExtensionParts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly declarations: Declarations;
}

export const extensionState = ({ schemas, admin, declarations }: ExtensionParts): StateType => ({
  module: databaseModule,
  type: 'extensions',
  priority: 11,
  document: ImportedExtension,
  keyOf: ({ schemaName }) => String(schemaName),
  touches: ({ schemaName }) => schemaObject(schemas.get(String(schemaName))),
  export: async () => schemas.all().flatMap(extensionDocuments),
  async complete(caller, documents, whole) {
    for (const { document, place } of documents) {
      const { fields } = newExtensionOf(document as ImportedExtensionDocument, place);
      if (Object.keys(fields).length === 0)
        throw invalid(`${place}.extension.fields`, 'empty', 'needs at least one field');
    }
    // Together with the schemas of the import: an extension may be of one that comes with it.
    await declarations.after(caller, whole);
    return documents.map(({ document, place }) => {
      const { schema, fields } = newExtensionOf(document as ImportedExtensionDocument, place);
      return extensionDocument(schema, fields);
    });
  },
  async outlook(caller, changes, whole) {
    const { plan } = await declarations.after(caller, whole);
    return outlookOf(plan, changes, whole);
  },
  async apply(caller, changes) {
    const requested = changes.flatMap(({ given, place }) =>
      given ? [newExtensionOf(given as ImportedExtensionDocument, place)] : [],
    );
    if (requested.length > 0)
      await admin.import(caller, { kind: 'import', schemas: [], extensions: requested });
    for (const { action, key } of changes) {
      const schema = action === 'delete' ? schemas.get(key) : undefined;
      if (schema)
        await admin.apply(caller, {
          kind: 'extend',
          id: schema._id,
          owner: adminOwner,
          fields: {},
        });
    }
  },
});

const extensionDocuments = ({ name, extensions }: CompiledSchema): readonly StateDocument[] =>
  extensions
    .filter(({ ownerModule }) => ownerModule === adminOwner)
    .map(({ fields }) => extensionDocument(name, fields));

const extensionDocument = (schemaName: string, fields: unknown): StateDocument => ({
  schemaName,
  extension: { fields, ownerModule: adminOwner },
});

interface SchemaParts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly rows: RowAuthorization;
  readonly endpoints: Pick<EndpointAdmin, 'usersOf'>;
  readonly declarations: Declarations;
}

/** What the export of schemas says beside, and nothing hangs on. */
const SchemaDocument = Type.Object({
  ...ImportedSchema.properties,
  collectionName: Type.Optional(Type.String({ maxLength: 1_024 })),
});

export function schemaState({
  schemas,
  admin,
  rows,
  endpoints,
  declarations,
}: SchemaParts): StateType {
  const stored = (): readonly CompiledSchema[] =>
    schemas
      .all()
      .filter(({ ownerModule, mapping }) => ownerModule === adminOwner && mapping === undefined);

  return {
    module: databaseModule,
    type: 'schemas',
    priority: 10,
    document: SchemaDocument,
    keyOf: ({ name }) => String(name),
    touches: ({ name }) => schemaObject(schemas.get(String(name))),
    export: async () => stored().map(schemaDocument),
    async complete(caller, documents, whole) {
      const { changed, registry } = await declarations.after(caller, whole);
      return mapInSlices(documents, ({ document }): StateDocument => {
        const name = String(document.name);
        const schema = changed.get(name) ?? registry.get(name);
        return schema ? schemaDocument(schema) : document;
      });
    },
    async check(_caller, changes, whole) {
      const going = changes.filter(({ action }) => action === 'delete').map(({ key }) => key);
      requireUnused(going, endpoints.usersOf(going), whole);
      for (const { given, place } of changes) {
        if (!given) continue;
        const { name, options } = declarations.newSchema({ document: given, place });
        await placed(place, () => rows.check(name, options));
      }
    },
    async outlook(caller, changes, whole) {
      const { plan } = await declarations.after(caller, whole);
      return outlookOf(plan, changes, whole);
    },
    apply: (caller, changes) => applyChanges({ schemas, admin, declarations }, caller, changes),
  };
}

async function applyChanges(
  { schemas, admin, declarations }: Pick<SchemaParts, 'schemas' | 'admin' | 'declarations'>,
  caller: Caller,
  changes: readonly StateChange[],
): Promise<void> {
  const requested = changes.flatMap(({ given, place }) =>
    given ? [declarations.newSchema({ document: given, place })] : [],
  );
  if (requested.length > 0)
    await admin.import(caller, { kind: 'import', schemas: requested, extensions: [] });
  const going = changes
    .filter(({ action }) => action === 'delete')
    .flatMap(({ key }) => schemas.get(key)?._id ?? []);
  // The tables stay, and a schema of the same name finds its records again.
  if (going.length > 0) await admin.remove(caller, going, { deleteData: false });
}

function schemaDocument(schema: CompiledSchema): StateDocument {
  const { name, fields, modelOptions, changes } = schema;
  const { indexes = [], ...options } = modelOptions;
  const own = indexes.filter((index) => isOwnIndex(schema, index));
  return {
    name,
    fields: Object.fromEntries(
      Object.entries(fields).filter(([field]) => !automaticFields.has(field)),
    ),
    modelOptions: { ...options, ...(own.length > 0 && { indexes: own }) },
    ...(changes.length > 0 && { migrations: changes }),
  };
}

/** Endpoints that stay need their schemas. */
function requireUnused(
  going: readonly string[],
  users: readonly string[],
  whole: StateImport,
): void {
  const gone = whole
    .changes(databaseModule, 'customEndpoints')
    .filter(({ action }) => action === 'delete');
  const left = users.filter((user) => !gone.some(({ key }) => key === user));
  if (going.length === 0 || left.length === 0) return;
  const message = `custom endpoints use what would go: ${left.slice(0, 10).join(', ')}`;
  const problems: readonly Problem[] = [
    { path: 'modules.database.schemas', rule: 'in-use', message },
  ];
  throw errors.CONFLICT({ message, errors: problems });
}

/* What the database module contributes to the state as a document. */

interface Parts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly rows: RowAuthorization;
  readonly indexes: IndexAdmin;
  readonly endpoints: Endpoints;
}

export function databaseState(parts: Parts): readonly StateType[] {
  const declarations = createDeclarations(parts.admin, parts.schemas);
  return [
    schemaState({ ...parts, endpoints: parts.endpoints.admin, declarations }),
    extensionState({ ...parts, declarations }),
    indexState({ ...parts, declarations }),
    endpointState({ ...parts, declarations }),
  ];
}
