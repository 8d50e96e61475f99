/** What an import of schemas and extensions means for the declarations. */
import { adminOwner } from '../../../kernel/authority.ts';
import { relocated } from '../../../kernel/errors.ts';
import type { Declaration } from '../compile/declaration.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import { shortName } from '../language/names.ts';
import { replayOf } from './data-changes.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  unchangedDeclaration,
} from './declaration-change.ts';
import { changeable, changedOnly, extendedDraft, newDeclaration } from './declaration-drafts.ts';
import { requireOwnTable } from './option-rules.ts';
import type { ArrivingSchema, NewExtension, NewSchema, SchemaRequest } from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

export function importPlan(
  snapshot: SchemaSnapshot,
  { schemas, extensions }: Extract<SchemaRequest, { kind: 'import' }>,
): ChangePlan {
  refuseTwins(schemas);
  const drafts = new Map(
    schemas.map((input, index) => [input.name.toLowerCase(), placedDraft(snapshot, input, index)]),
  );
  for (const [index, extension] of extensions.entries()) {
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
  return { drafts: changedOnly(snapshot, [...drafts.values()]), destroy: [] };
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
