/** Schemas of admins as state. Those over tables of others are not part of it: introspection makes them where the tables are. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { automaticFields } from '../../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { errors, type Problem } from '../../../../kernel/errors.ts';
import { placed } from '../../../../kernel/state/placed.ts';
import type { StateChange, StateDocument, StateImport, StateType } from '../../../../kernel/state/state.ts';
import type { EndpointAdmin } from '../endpoints/admin.ts';
import { ImportedSchema } from '../imported-schema.ts';
import type { RowAuthorization } from '../row-authorization.ts';
import type { SchemaAdmin } from '../schema-admin.ts';
import { type Declarations, databaseModule } from './declared.ts';
import { outlookOf } from './outlook.ts';
import { isOwnIndex } from './own-indexes.ts';

interface Parts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly rows: RowAuthorization;
  readonly endpoints: Pick<EndpointAdmin, 'usersOf'>;
  readonly declarations: Declarations;
}

/** What the export of schemas says beside, and nothing hangs on. */
const SchemaDocument = Type.Object({ ...ImportedSchema.properties, collectionName: Type.Optional(Type.String({ maxLength: 1_024 })) });

export function schemaState({ schemas, admin, rows, endpoints, declarations }: Parts): StateType {
  const stored = (): readonly CompiledSchema[] =>
    schemas.all().filter(({ ownerModule, mapping }) => ownerModule === adminOwner && mapping === undefined);

  return {
    module: databaseModule,
    type: 'schemas',
    priority: 10,
    document: SchemaDocument,
    keyOf: ({ name }) => String(name),
    export: async () => stored().map(documentOf),
    async complete(caller, documents, whole) {
      const { changed, registry } = await declarations.after(caller, whole);
      return documents.map(({ document }): StateDocument => {
        const name = String(document.name);
        const schema = changed.get(name) ?? registry.get(name);
        return schema ? documentOf(schema) : document;
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
  { schemas, admin, declarations }: Pick<Parts, 'schemas' | 'admin' | 'declarations'>,
  caller: Caller,
  changes: readonly StateChange[],
): Promise<void> {
  const wanted = changes.flatMap(({ given, place }) => (given ? [declarations.newSchema({ document: given, place })] : []));
  if (wanted.length > 0) await admin.import(caller, { kind: 'import', schemas: wanted, extensions: [] });
  const going = changes.filter(({ action }) => action === 'delete').flatMap(({ key }) => schemas.get(key)?._id ?? []);
  // The tables stay, and a schema of the same name finds its records again.
  if (going.length > 0) await admin.remove(caller, going, { deleteData: false });
}

function documentOf(schema: CompiledSchema): StateDocument {
  const { name, fields, modelOptions, changes } = schema;
  const { indexes = [], ...options } = modelOptions;
  const own = indexes.filter((index) => isOwnIndex(schema, index));
  return {
    name,
    fields: Object.fromEntries(Object.entries(fields).filter(([field]) => !automaticFields.has(field))),
    modelOptions: { ...options, ...(own.length > 0 && { indexes: own }) },
    ...(changes.length > 0 && { migrations: changes }),
  };
}

/** Endpoints that stay need their schemas. */
function requireUnused(going: readonly string[], users: readonly string[], whole: StateImport): void {
  const gone = whole.changes(databaseModule, 'customEndpoints').filter(({ action }) => action === 'delete');
  const left = users.filter((user) => !gone.some(({ key }) => key === user));
  if (going.length === 0 || left.length === 0) return;
  const message = `custom endpoints use what would go: ${left.slice(0, 10).join(', ')}`;
  const problems: readonly Problem[] = [{ path: 'modules.database.schemas', rule: 'in-use', message }];
  throw errors.CONFLICT({ message, errors: problems });
}
