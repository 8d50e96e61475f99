/** From what somebody asks for to the declaration that would be stored, or the reason why not. */
import type { Problem } from '../errors.ts';
import { newId } from '../ids.ts';
import { checksumOf, type Declaration, treeOf } from './declaration.ts';
import type { FieldMap, IndexDefinition, ModelOptions, PlatformOptions, SchemaDefinition } from './definition.ts';
import { invalidSchema, schemaErrors } from './errors.ts';
import { type ObjectField, typeSignatures } from './field.ts';
import { emptyLayout } from './layout.ts';
import { schemaNameFault, shown } from './names.ts';
import { checkModelOptions, resolveOptions, storedModelOptions } from './options.ts';
import { parseFields } from './parse.ts';

/** Owner of schemas that admins make. */
export const adminOwner = 'database';

/** Grows when the platform derives something else from the same definition. */
const DEFINITION_VERSION = 1;

export const definitionChecksum = (definition: SchemaDefinition): string => checksumOf([DEFINITION_VERSION, definition]);

/** What a schema shall be; whatever is left out stays as it is. */
export interface Wanted {
  readonly name: string;
  readonly owner: string;
  readonly fields?: FieldMap;
  readonly options?: PlatformOptions;
  readonly timestamps?: boolean;
  readonly indexes?: readonly IndexDefinition[];
  readonly checksum?: string;
}

/** The next declaration. `current`: the row of that name, also a removed one whose table was kept. Throws 400 or 403. */
export function draftOf(wanted: Wanted, current: Declaration | undefined): Declaration {
  const live = current && !current.removed ? current : undefined;
  const fields = wanted.fields ?? live?.fields ?? {};
  const { tree, problems } = parseFields(fields);
  const options = modelOptionsOf(wanted, live);
  const faults = [...nameProblems(wanted.name), ...problems, ...indexProblems(options, tree), ...checkModelOptions(options)];
  if (faults.length > 0) throw invalidSchema(faults);
  const now = new Date();
  return {
    id: live?.id ?? newId(),
    name: wanted.name,
    ownerModule: wanted.owner,
    parentSchema: null,
    fields: withoutAutomatic(fields),
    extensions: live?.extensions ?? [],
    modelOptions: options,
    layout: current?.layout ?? emptyLayout,
    dropped: current ? droppedFields(current, tree) : {},
    checksum: wanted.checksum ?? '',
    version: live ? live.version + 1 : 0,
    createdAt: live?.createdAt ?? now,
    updatedAt: now,
    removed: false,
  };
}

/** The declaration after its removal, when the table stays. */
export function removedDraft(current: Declaration): Declaration {
  const signatures = Object.fromEntries(typeSignatures(treeOf(current).fields));
  return { ...current, removed: true, version: current.version + 1, dropped: { ...current.dropped, ...signatures } };
}

function modelOptionsOf(wanted: Wanted, live: Declaration | undefined) {
  const faults = wanted.options ? checkModelOptions({ conduit: wanted.options }) : [];
  if (faults.length > 0) throw invalidSchema(faults);
  const conduit = resolveOptions(wanted.options ?? {}, live?.modelOptions.conduit ?? {}, wanted.owner === adminOwner);
  const timestamps = wanted.timestamps ?? live?.modelOptions.timestamps ?? true;
  const indexes = wanted.indexes ?? live?.modelOptions.indexes;
  return storedModelOptions(conduit, { timestamps, ...(indexes && { indexes }) } satisfies ModelOptions);
}

function nameProblems(name: string): Problem[] {
  const fault = schemaNameFault(name);
  return fault ? [{ path: 'name', rule: 'name', message: `"${shown(name)}": ${fault}` }] : [];
}

function indexProblems({ indexes = [] }: ModelOptions, tree: ObjectField): Problem[] {
  return indexes.flatMap(({ fields }, index) =>
    fields
      .filter((field) => !tree.fields.has(field) && field !== 'createdAt' && field !== 'updatedAt')
      .map((field) => ({ path: `modelOptions.indexes.${index}`, rule: 'field', message: `there is no field "${shown(field)}"` })),
  );
}

const automatic = new Set(['_id', 'createdAt', 'updatedAt', '__v']);
const withoutAutomatic = (fields: FieldMap): FieldMap =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !automatic.has(name)));

/** The fields that the new tree leaves out. A field that comes back, or stays, must have the type of its data. */
function droppedFields(current: Declaration, tree: ObjectField): Record<string, string> {
  const stored = new Map(Object.entries(current.dropped));
  if (!current.removed) for (const [path, signature] of typeSignatures(treeOf(current).fields)) stored.set(path, signature);
  const problems: Problem[] = [];
  for (const [path, signature] of typeSignatures(tree.fields)) {
    const before = stored.get(path);
    if (before !== undefined && before !== signature) {
      problems.push({ path: `fields.${path}`, rule: 'type', message: `was ${before} and cannot become ${signature}` });
    }
    stored.delete(path);
  }
  if (problems.length > 0) throw schemaErrors.INVALID_SCHEMA_TYPES({ errors: problems });
  return Object.fromEntries(stored);
}
