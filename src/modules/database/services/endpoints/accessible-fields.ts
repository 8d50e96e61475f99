/** Which fields an endpoint may write, by what the schema permits (spec/database.md 5.7, 5.9). */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';
import { endpointOperation } from './definition.ts';

/** Top-level fields that admins have added to a schema. */
export const extensionFields = ({ extensions }: CompiledSchema): readonly string[] =>
  extensions.filter(({ ownerModule }) => ownerModule === adminOwner).flatMap(({ fields }) => Object.keys(fields));

/** Top-level fields that an endpoint of this operation may assign to. */
export function changeableFields(schema: CompiledSchema, operation: number): ReadonlySet<string> {
  const { canCreate, canModify } = schema.modelOptions.conduit.permissions;
  const every = new Set(schema.tree.fields.keys());
  if (operation === endpointOperation.post) return canCreate ? every : new Set();
  if (canModify === 'Everything') return every;
  if (canModify === 'Nothing') return new Set();
  return new Set(extensionFields(schema));
}

/** Top-level fields that the designer of an endpoint can use. */
export function usableFields(schema: CompiledSchema, operation: number): readonly string[] {
  const { canDelete } = schema.modelOptions.conduit.permissions;
  const visible = [...schema.tree.fields].filter(([, field]) => !field.hidden).map(([name]) => name);
  const automatic = ['_id', ...(schema.modelOptions.timestamps ? ['createdAt', 'updatedAt'] : [])];
  if (operation === endpointOperation.get || operation === endpointOperation.aggregate) return [...automatic, ...visible];
  if (operation === endpointOperation.delete) return canDelete ? [...automatic, ...visible] : [];
  return [...changeableFields(schema, operation)];
}
