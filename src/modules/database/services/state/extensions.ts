/** Fields that admins added to schemas, as state. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';
import { invalid } from '../../../../kernel/errors.ts';
import type { StateDocument, StateType } from '../../../../kernel/state/state.ts';
import { ImportedExtension, type ImportedExtensionDocument, newExtensionOf } from '../imported-schema.ts';
import type { SchemaAdmin } from '../schema-admin.ts';
import { type Declarations, databaseModule } from './declared.ts';
import { outlookOf } from './outlook.ts';

interface Parts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly declarations: Declarations;
}

export const extensionState = ({ schemas, admin, declarations }: Parts): StateType => ({
  module: databaseModule,
  type: 'extensions',
  priority: 11,
  document: ImportedExtension,
  keyOf: ({ schemaName }) => String(schemaName),
  export: async () => schemas.all().flatMap(documentsOf),
  async complete(caller, documents, whole) {
    for (const { document, place } of documents) {
      const { fields } = newExtensionOf(document as ImportedExtensionDocument, place);
      if (Object.keys(fields).length === 0) throw invalid(`${place}.extension.fields`, 'empty', 'needs at least one field');
    }
    // Together with the schemas of the import: an extension may be of one that comes with it.
    await declarations.after(caller, whole);
    return documents.map(({ document, place }) => {
      const { schema, fields } = newExtensionOf(document as ImportedExtensionDocument, place);
      return documentOf(schema, fields);
    });
  },
  async outlook(caller, changes, whole) {
    const { plan } = await declarations.after(caller, whole);
    return outlookOf(plan, changes, whole);
  },
  async apply(caller, changes) {
    const wanted = changes.flatMap(({ given, place }) => (given ? [newExtensionOf(given as ImportedExtensionDocument, place)] : []));
    if (wanted.length > 0) await admin.import(caller, { kind: 'import', schemas: [], extensions: wanted });
    for (const { action, key } of changes) {
      const schema = action === 'delete' ? schemas.get(key) : undefined;
      if (schema) await admin.apply(caller, { kind: 'extend', id: schema._id, owner: adminOwner, fields: {} });
    }
  },
});

const documentsOf = ({ name, extensions }: CompiledSchema): readonly StateDocument[] =>
  extensions.filter(({ ownerModule }) => ownerModule === adminOwner).map(({ fields }) => documentOf(name, fields));

const documentOf = (schemaName: string, fields: unknown): StateDocument => ({ schemaName, extension: { fields, ownerModule: adminOwner } });
