/** What an import of schemas and extensions means for the declarations. */
import { adminOwner } from '../../../kernel/authority.ts';
import { relocated } from '../../../kernel/errors.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { DroppedFields } from '../compile/compiled.ts';
import type { Declaration } from '../compile/declaration.ts';
import { emptyLayout } from '../compile/layout.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import { typeSignatures } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import { parseFields } from '../language/parse.ts';
import { sameName } from '../mapping/table-mapping.ts';
import { replayOf } from './data-changes.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  unchangedDeclaration,
} from './declaration-change.ts';
import { changeable, changedOnly, extendedDraft, newDeclaration } from './declaration-drafts.ts';
import { requireOwnTable } from './option-rules.ts';
import type {
  ArrivingSchema,
  ImportedTable,
  NewExtension,
  NewSchema,
  SchemaRequest,
} from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

export async function importPlan(
  snapshot: SchemaSnapshot,
  { schemas, extensions }: Extract<SchemaRequest, { kind: 'import' }>,
): Promise<ChangePlan> {
  refuseTwins(schemas);
  const pause = createTimeSlices();
  const drafts = new Map<string, DeclarationChange>();
  for (const [index, input] of schemas.entries()) {
    await pause();
    drafts.set(input.name.toLowerCase(), placedDraft(snapshot, input, index));
  }
  for (const [index, extension] of extensions.entries()) {
    await pause();
    const key = extension.schema.toLowerCase();
    const drafted = drafts.get(key);
    const target = drafted?.declaration ?? snapshot.get(key);
    if (!target || target.removed || target.name !== extension.schema)
      throw missingTarget(extension, index);
    const requested = { ...extension, backfill: unfilled(target, extension) };
    const { declaration, backfill } = extendedDraft(
      target,
      requested,
      `extensions.${index}.extension.fields`,
    );
    // However many parts an import has about a schema, it is one change of it.
    const version = drafted?.declaration.version ?? declaration.version;
    const fills = new Map([...(drafted?.backfill ?? []), ...backfill]);
    drafts.set(key, {
      ...(drafted ?? unchangedDeclaration(declaration)),
      declaration: { ...declaration, version },
      backfill: fills,
    });
  }
  return { drafts: await changedOnly(snapshot, [...drafts.values()]), destroy: [] };
}

/** Values for the fields that come or change; an import that changes nothing fills nothing in. */
function unfilled(
  { extensions }: Declaration,
  { owner, fields, backfill = {} }: NewExtension,
): Readonly<Record<string, unknown>> {
  const stored = extensions.find(({ ownerModule }) => ownerModule === owner)?.fields ?? {};
  const isNew = (name: string): boolean =>
    JSON.stringify(stored[name]) !== JSON.stringify(fields[name]);
  return Object.fromEntries(Object.entries(backfill).filter(([name]) => isNew(name)));
}

function missingTarget({ schema }: NewExtension, index: number) {
  const message = `there is no schema "${shortName(schema)}" to extend`;
  return schemaErrors.EXTENSION_TARGET_MISSING({
    message,
    errors: [{ path: `extensions.${index}.schemaName`, rule: 'exists', message }],
  });
}

/** Problems of one among many are reported where it stands. */
function placedDraft(
  snapshot: SchemaSnapshot,
  input: ArrivingSchema,
  index: number,
): DeclarationChange {
  try {
    return importedDraft(snapshot, input);
  } catch (error) {
    throw relocated(error, (path) => `schemas.${index}.${path}`);
  }
}

/** What an import says is all there is: options that it leaves out are not kept. */
function importedDraft(snapshot: SchemaSnapshot, arriving: ArrivingSchema): DeclarationChange {
  const current = snapshot.get(arriving.name.toLowerCase());
  const { migrations: _, renames: __, backfill: ___, ...input } = arriving;
  const replay = replayOf(current, arriving);
  if (!current || current.removed || current.name !== input.name)
    return newDeclaration(snapshot, { ...input, replay });
  if (replay.renames.length > 0) requireOwnTable(current, 'name its fields when it is finalised');
  const whole = input.options ? { wholeOptions: true, indexes: input.indexes ?? [] } : {};
  return declarationChangeOf(
    { owner: adminOwner, ...input, ...whole, replay },
    changeable(snapshot, input.name),
  );
}

/** One import cannot mean two things by one name. */
function refuseTwins(inputs: readonly NewSchema[]): void {
  const seen = new Set<string>();
  const twins = inputs.flatMap(({ name }, index) => {
    const key = name.toLowerCase();
    if (!seen.has(key)) {
      seen.add(key);
      return [];
    }
    return [{ path: `schemas.${index}.name`, rule: 'unique', message: 'this name is there twice' }];
  });
  if (twins.length > 0) throw invalidSchema(twins);
}

/* From a table of others to the declaration of a schema over it. */

/** Throws 400 for definitions that do not fit their table, 409 for names that are taken and tables that have a schema already. */
export function importTablesPlan(
  snapshot: SchemaSnapshot,
  tables: readonly ImportedTable[],
): ChangePlan {
  const drafts = tables.map((table) => importedTableChange(snapshot, table));
  const names = drafts.map(({ declaration }) => declaration.name.toLowerCase());
  const twin = names.find((name, i) => names.indexOf(name) < i);
  if (twin !== undefined)
    throw schemaErrors.SCHEMA_EXISTS({ message: `The name ${twin} is there twice` });
  return { drafts, destroy: [] };
}

function importedTableChange(snapshot: SchemaSnapshot, table: ImportedTable): DeclarationChange {
  const current = [...snapshot.values()].find(
    ({ layout }) => layout.mapping && sameName(layout.mapping.source, table.mapping.source),
  );
  const namesake = snapshot.get(table.name.toLowerCase());
  if (namesake && namesake !== current)
    throw schemaErrors.SCHEMA_EXISTS({ message: `The name ${namesake.name} is already in use` });
  if (current && current.name !== table.name) {
    throw schemaErrors.SCHEMA_EXISTS({
      message: `${current.name} is laid over this table already; it keeps its name`,
    });
  }
  const { declaration } = declarationChangeOf(
    { name: table.name, owner: adminOwner, fields: table.fields, options: table.options },
    { ...blank(table), layout: layoutOf(table) },
  );
  const adopted: Declaration = { ...declaration, dropped: leftOut(table) };
  return unchangedDeclaration(
    current
      ? { ...adopted, id: current.id, version: current.version + 1, createdAt: current.createdAt }
      : adopted,
  );
}

const layoutOf = ({ mapping, indexes, foreignKeys }: ImportedTable) => ({
  ...emptyLayout,
  indexes,
  foreignKeys,
  mapping,
});

/** The place of a declaration that is not there yet, so that its table is known to the checks. */
const blank = ({ name }: ImportedTable): Declaration => ({
  id: '',
  name,
  ownerModule: adminOwner,
  parentSchema: null,
  fields: {},
  extensions: [],
  modelOptions: { timestamps: false, conduit: {} } as unknown as Declaration['modelOptions'],
  layout: emptyLayout,
  dropped: {},
  changes: [],
  checksum: '',
  version: 0,
  createdAt: new Date(),
  updatedAt: new Date(),
  removed: true,
});

/** Columns that the schema does not show can be shown later. Throws 400 for a field that is of another type than its column. */
function leftOut({ fields, columns }: ImportedTable): DroppedFields {
  const at = new Date().toISOString();
  const stored = typeSignatures(parseFields(columns).tree.fields);
  const requested = typeSignatures(parseFields(fields).tree.fields);
  const wrong = [...requested].filter(([path, type]) => stored.get(path) !== type);
  if (wrong.length > 0) {
    throw invalidSchema(
      wrong.map(([path, type]) => ({
        path: `fields.${path}`,
        rule: 'type',
        message: `is ${stored.get(path) ?? 'not there'} and cannot be ${type}`,
      })),
    );
  }
  const hidden = Object.entries(columns).filter(([name]) => !Object.hasOwn(fields, name));
  return Object.fromEntries(
    hidden.map(([name, definition]) => [name, { type: stored.get(name) ?? '', at, definition }]),
  );
}
