/** From what somebody asks for to the declaration that would be stored, or the reason why not. */

import { adminOwner } from '../../../kernel/authority.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { checksumOf, type Declaration } from '../compile/declaration.ts';
import { fieldIndexes, resolveIndex } from '../compile/index-definition.ts';
import { emptyLayout, type TableLayout } from '../compile/layout.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import type {
  FieldMap,
  IndexDefinition,
  ModelOptions,
  PlatformOptions,
  SchemaDefinition,
} from '../language/definition.ts';
import { mergedFields, type SchemaExtension } from '../language/extension.ts';
import type { ObjectField } from '../language/field.ts';
import { schemaNameProblem, shortName } from '../language/names.ts';
import { checkModelOptions, resolveOptions, storedModelOptions } from '../language/options.ts';
import { parseFields } from '../language/parse.ts';
import { hasTimestamps } from '../mapping/table-mapping.ts';
import type { Renames } from './column-steps.ts';
import { type Replay, withChange } from './data-changes.ts';
import { backfillOf, droppedAfter, liveFields, renamed, requireRenames } from './field-changes.ts';
import { linksMade } from './made-links.ts';
import { mappingProblems, recordOptionProblems } from './option-rules.ts';

/** Grows when the platform derives something else from the same definition. */
const DEFINITION_VERSION = 1;

export const definitionChecksum = (definition: SchemaDefinition): string =>
  checksumOf([DEFINITION_VERSION, definition]);

/** What a schema shall be; whatever is left out stays as it is. */
export interface RequestedSchema {
  readonly name: string;
  readonly owner: string;
  readonly fields?: FieldMap;
  readonly extensions?: readonly SchemaExtension[];
  readonly options?: PlatformOptions;
  /** Options that are not given take their default instead of staying. */
  readonly wholeOptions?: boolean;
  readonly timestamps?: boolean;
  readonly indexes?: readonly IndexDefinition[];
  readonly renames?: Readonly<Record<string, string>>;
  readonly backfill?: Readonly<Record<string, unknown>>;
  /** Instead of `renames` and `backfill`, for what comes from somewhere else. */
  readonly replay?: Replay;
  readonly checksum?: string;
}

/** A declaration that would be stored, and what its table needs beyond what the declaration says. */
export interface DeclarationChange {
  readonly declaration: Declaration;
  /** One set after the other. */
  readonly renames: readonly Renames[];
  /** Values for records that have none, by field. */
  readonly backfill: ReadonlyMap<string, unknown>;
  /** Paths of fields that were taken out, whose data goes now. */
  readonly purge: readonly string[];
  /** Names of the schemas to whose records it makes links by itself. */
  readonly links: ReadonlySet<string>;
}

export const unchangedDeclaration = (declaration: Declaration): DeclarationChange => ({
  declaration,
  renames: [],
  backfill: new Map(),
  purge: [],
  links: new Set(),
});

/** The next declaration. `current`: the row of that name, also a removed one whose table was kept. Throws 400 or 403. */
export function declarationChangeOf(
  requested: RequestedSchema,
  current: Declaration | undefined,
): DeclarationChange {
  const { renames, backfill, changes } = requested.replay ?? ownReplay(requested, current);
  const before = current && renames.reduce(renamed, current);
  const live = before && !before.removed ? before : undefined;
  const fields = withoutAutomatic(requested.fields ?? live?.fields ?? {});
  const extensions = requested.extensions ?? live?.extensions ?? [];
  const { tree, problems } = parseAll(requested.fields ?? fields, { fields, extensions });
  const layout = current?.layout ?? emptyLayout;
  const modelOptions = modelOptionsOf(ofTable(requested, layout), live);
  const found = [
    ...nameProblems(requested.name),
    ...problems,
    ...indexProblems({ fields, extensions, modelOptions }, { tree, live }),
    ...checkModelOptions(modelOptions),
    ...recordOptionProblems({ options: modelOptions.conduit, tree, layout }),
    ...mappingProblems({ options: modelOptions.conduit, tree, layout }),
  ];
  if (found.length > 0) throw invalidSchema(found);
  const now = new Date();
  const next: Declaration = {
    id: live?.id ?? newId(),
    name: requested.name,
    ownerModule: requested.owner,
    parentSchema: null,
    fields,
    extensions,
    modelOptions,
    layout,
    dropped: {},
    changes,
    checksum: requested.checksum ?? '',
    version: live ? live.version + 1 : 0,
    createdAt: live?.createdAt ?? now,
    updatedAt: now,
    removed: false,
  };
  const declaration = before ? { ...next, dropped: droppedAfter(before, tree) } : next;
  const values = backfillOf(backfill, tree);
  const links = linksMade(before, { fields: mergedFields(next), tree, backfill: values });
  return { ...unchangedDeclaration(declaration), renames, backfill: values, links };
}

/** What the change itself does to records, noted under a new id. Throws 400. */
function ownReplay(
  { renames = {}, backfill = {}, fields }: RequestedSchema,
  current: Declaration | undefined,
): Replay {
  const changes = withChange(current?.changes ?? [], { id: newId(), renames, backfill });
  const names: Renames = new Map(Object.entries(renames));
  if (!current || names.size === 0) return { renames: [], backfill, changes };
  requireRenames(current, names, fields);
  return { renames: [names], backfill, changes };
}

/** True when nothing that is stored would be another. */
export function isUnchanged(
  current: Declaration | undefined,
  { declaration, renames, backfill, purge }: DeclarationChange,
): boolean {
  if (!current || current.removed || renames.length > 0 || backfill.size > 0 || purge.length > 0)
    return false;
  const essence = ({
    name,
    ownerModule,
    fields,
    extensions,
    modelOptions,
    dropped,
    changes,
  }: Declaration) =>
    JSON.stringify([
      name,
      ownerModule,
      fields,
      extensions,
      modelOptions,
      Object.keys(dropped).sort(),
      changes.map(({ id }) => id),
    ]);
  return essence(current) === essence(declaration);
}

/** The declaration after its removal, when the table stays. */
export function removedDeclaration(current: Declaration): DeclarationChange {
  const dropped = { ...current.dropped, ...Object.fromEntries(liveFields(current)) };
  return unchangedDeclaration({ ...current, removed: true, version: current.version + 1, dropped });
}

/** The tree of all fields. Problems of the schema's own are reported first, under the names that it was given. */
function parseAll(
  written: FieldMap,
  whole: { readonly fields: FieldMap; readonly extensions: readonly SchemaExtension[] },
) {
  const own = parseFields(written);
  if (own.problems.length > 0 || whole.extensions.length === 0) return own;
  const taken = whole.extensions.flatMap(({ fields, ownerModule }) =>
    Object.keys(fields)
      .filter((name) => Object.hasOwn(whole.fields, name))
      .map((name) => ({
        path: `fields.${shortName(name)}`,
        rule: 'unique',
        message: `the extension of ${ownerModule} has this field`,
      })),
  );
  if (taken.length > 0) throw schemaErrors.EXTENSION_CONFLICT({ errors: taken });
  return parseFields(mergedFields(whole));
}

/** What the table decides: whether a schema is imported, and who keeps its timestamps. */
function ofTable(requested: RequestedSchema, { mapping }: TableLayout): RequestedSchema {
  if (mapping)
    return {
      ...requested,
      options: { ...requested.options, imported: true },
      timestamps: hasTimestamps(mapping),
    };
  if (!requested.options?.imported) return requested;
  const message = 'only introspection makes imported schemas';
  throw invalidSchema([{ path: 'modelOptions.conduit.imported', rule: 'imported', message }]);
}

function modelOptionsOf(requested: RequestedSchema, live: Declaration | undefined) {
  const found = requested.options ? checkModelOptions({ conduit: requested.options }) : [];
  if (found.length > 0) throw invalidSchema(found);
  const stored = requested.wholeOptions ? {} : (live?.modelOptions.conduit ?? {});
  const conduit = resolveOptions(requested.options ?? {}, stored, requested.owner === adminOwner);
  const timestamps = requested.timestamps ?? live?.modelOptions.timestamps ?? true;
  const indexes = requested.indexes ?? live?.modelOptions.indexes ?? [];
  return storedModelOptions(conduit, {
    timestamps,
    ...(indexes.length > 0 && { indexes }),
  } satisfies ModelOptions);
}

function nameProblems(name: string): Problem[] {
  const problem = schemaNameProblem(name);
  return problem
    ? [{ path: 'name', rule: 'name', message: `"${shortName(name)}": ${problem}` }]
    : [];
}

interface FieldsNowAndBefore {
  readonly tree: ObjectField;
  readonly live: Declaration | undefined;
}

function indexProblems(
  of: Pick<Declaration, 'fields' | 'extensions' | 'modelOptions'>,
  { tree, live }: FieldsNowAndBefore,
): readonly Problem[] {
  const before = live ? mergedFields(live) : {};
  const { indexes = [] } = of.modelOptions;
  const declared = indexes.flatMap((index, position) => {
    const { name } = index.options ?? {};
    if (name !== undefined && indexes.findIndex(({ options }) => options?.name === name) < position)
      return [
        {
          path: `modelOptions.indexes.${position}.options.name`,
          rule: 'unique',
          message: 'another index has this name',
        },
      ];
    const gone = index.fields.find((name) => !tree.fields.has(name) && Object.hasOwn(before, name));
    if (gone === undefined)
      return resolveIndex(index, tree, `modelOptions.indexes.${position}`).problems;
    const message = `the index over ${index.fields.map(shortName).join(', ')} needs it: remove the index first`;
    return [{ path: `fields.${shortName(gone)}`, rule: 'index', message }];
  });
  const inFields = fieldIndexes(mergedFields(of)).flatMap(
    (index) => resolveIndex(index, tree, `fields.${index.fields[0]}.index`).problems,
  );
  return [...declared, ...inFields];
}

const automatic = new Set(['_id', 'createdAt', 'updatedAt', '__v']);
const withoutAutomatic = (fields: FieldMap): FieldMap =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !automatic.has(name)));
