/** What a module's own schemas mean for the declarations. Pure. */
import type { Declaration } from '../compile/declaration.ts';
import { resolveIndex } from '../compile/index-definition.ts';
import type { FieldMap, IndexDefinition, SchemaDefinition } from '../language/definition.ts';
import { mergedFields, type SchemaExtension } from '../language/extension.ts';
import { typeSignatures } from '../language/field.ts';
import { parseFields } from '../language/parse.ts';
import {
  declarationChangeOf,
  definitionChecksum,
  type RequestedSchema,
} from '../plan/declaration-change.ts';
import type { ChangePlan, SchemaSnapshot } from '../plan/table-work.ts';

/** What brings a module's own schemas up to date. */
export function installPlan(
  snapshot: SchemaSnapshot,
  owner: string,
  definitions: readonly SchemaDefinition[],
): ChangePlan {
  const drafts = definitions.flatMap((definition) => {
    const checksum = definitionChecksum(definition);
    const current = snapshot.get(definition.name.toLowerCase());
    // Another node may have done it while we waited for the lock.
    if (
      current &&
      current.problem === undefined &&
      !current.removed &&
      current.ownerModule === owner &&
      current.checksum === checksum
    )
      return [];
    if (current && !current.removed && current.ownerModule !== owner) {
      throw new Error(
        `The module ${owner} needs the schema ${definition.name}, which belongs to ${current.ownerModule}`,
      );
    }
    return [
      declarationChangeOf(
        requestedOf(definition, { owner, checksum, live: current?.removed ? undefined : current }),
        current,
      ),
    ];
  });
  return { drafts, destroy: [] };
}

interface Installed {
  readonly owner: string;
  readonly checksum: string;
  readonly live: Declaration | undefined;
}

/** What the module says, and what others have added to what it said before. */
function requestedOf(
  { name, fields, modelOptions = {} }: SchemaDefinition,
  { owner, checksum, live }: Installed,
): RequestedSchema {
  const { conduit, timestamps, indexes = [] } = modelOptions;
  const extensions = live ? keptExtensions(live, fields) : [];
  return {
    name,
    owner,
    fields,
    extensions,
    indexes: [...indexes, ...(live ? keptIndexes(live, mergedFields({ fields, extensions })) : [])],
    checksum,
    ...(conduit && { options: conduit }),
    ...(timestamps !== undefined && { timestamps }),
  };
}

/** The extensions without fields that the module now has itself. Its data is taken over when it is of the same type. */
function keptExtensions(
  { name, extensions, ...current }: Declaration,
  fields: FieldMap,
): readonly SchemaExtension[] {
  const requested = typeSignatures(parseFields(fields).tree.fields);
  const stored = typeSignatures(parseFields(mergedFields({ ...current, extensions })).tree.fields);
  return extensions.flatMap((extension) => {
    const twins = Object.keys(extension.fields).filter((field) => Object.hasOwn(fields, field));
    const other = twins.find((field) => requested.get(field) !== stored.get(field));
    if (other !== undefined) {
      throw new Error(
        `${name} gets a field "${other}", but an extension of ${extension.ownerModule} has one of another type: take that out and start again`,
      );
    }
    const left = Object.entries(extension.fields).filter(([field]) => !twins.includes(field));
    return left.length > 0 ? [{ ...extension, fields: Object.fromEntries(left) }] : [];
  });
}

/** Indexes that an admin has added, without those over fields that the module no longer has. */
function keptIndexes({ modelOptions }: Declaration, fields: FieldMap): readonly IndexDefinition[] {
  const { tree } = parseFields(fields);
  const added = (modelOptions.indexes ?? []).filter(({ ownerModule }) => ownerModule !== undefined);
  return added.filter((index) => resolveIndex(index, tree, '').problems.length === 0);
}
