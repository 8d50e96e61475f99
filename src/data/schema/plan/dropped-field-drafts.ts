/** Bringing fields back that were taken out, and destroying what is kept of them. */
import { adminOwner } from '../../../kernel/authority.ts';
import { type Declaration, treeOf } from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import { typeSignatures } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  unchangedDeclaration,
} from './declaration-change.ts';
import { asItIs, existing, extendedDraft } from './declaration-drafts.ts';
import { droppedAround, isWithin, withDefinitionAt } from './dropped.ts';
import { requireOwnTable } from './option-rules.ts';
import type { SchemaRequest } from './schema-request.ts';
import type { SchemaSnapshot } from './table-work.ts';

export function restoredDraft(
  current: Declaration,
  { field, backfill }: Extract<SchemaRequest, { kind: 'restore' }>,
): DeclarationChange {
  const dropped = requireDropped(current, field);
  const { definition, extension } = dropped;
  const around = droppedAround(current.dropped, field);
  if (around !== undefined)
    throw schemaErrors.FIELD_IN_USE({
      message: `"${shortName(field)}" is inside of "${around}", which was taken out: restore that first`,
    });
  if (definition === undefined) {
    const message = `How "${shortName(field)}" was defined is not known any more: declare it again, as ${dropped.type}, and its data is there`;
    throw schemaErrors.FIELD_NOT_FOUND({ message });
  }
  const given = backfill === undefined ? {} : { backfill: { [field]: backfill } };
  const owned = current.extensions.find(({ ownerModule }) => ownerModule === extension);
  if (extension !== undefined) {
    const fields = withDefinitionAt(owned?.fields ?? {}, field, definition);
    if (fields) return extendedDraft(current, { owner: extension, fields, ...given });
  } else {
    const fields = withDefinitionAt(current.fields, field, definition);
    if (fields)
      return declarationChangeOf({ ...asItIs(adminOwned(current)), fields, ...given }, current);
  }
  throw schemaErrors.FIELD_NOT_FOUND({
    message: `There is no place for "${shortName(field)}" any more`,
  });
}

function adminOwned(current: Declaration): Declaration {
  if (current.ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({
      message: `${current.name} belongs to the module ${current.ownerModule}`,
    });
  return current;
}

/** A field whose data is kept. Throws 409 for one that is there, 404 for one that never was. */
function requireDropped(current: Declaration, field: string) {
  const dropped = Object.hasOwn(current.dropped, field) ? current.dropped[field] : undefined;
  if (dropped) return dropped;
  if (typeSignatures(treeOf(current).fields).has(field)) {
    throw schemaErrors.FIELD_IN_USE({
      message: `"${shortName(field)}" is a field of ${current.name}: take it out first`,
    });
  }
  throw schemaErrors.FIELD_NOT_FOUND();
}

export function purgeDrafts(
  snapshot: SchemaSnapshot,
  fields: readonly { readonly name: string; readonly field: string }[],
): readonly DeclarationChange[] {
  const byName = Map.groupBy(fields, ({ name }) => name);
  return [...byName].map(([name, paths]) => {
    const current = existing(snapshot, name);
    requireOwnTable(current, 'fields that were taken out keep their data');
    const purge = paths.map(({ field }) => field);
    for (const path of purge) requirePurgeable(current, path, purge);
    const kept = Object.entries(current.dropped).filter(
      ([path]) => !purge.some((field) => isWithin(path, field)),
    );
    const declaration = {
      ...current,
      dropped: Object.fromEntries(kept),
      version: current.version + 1,
      updatedAt: new Date(),
    };
    // What is inside of something else that goes needs no step of its own.
    return {
      ...unchangedDeclaration(declaration),
      purge: purge.filter((path) => !droppedAround(current.dropped, path)),
    };
  });
}

/** What is inside of something that was taken out goes with it, or stays with it. */
function requirePurgeable(current: Declaration, path: string, purge: readonly string[]): void {
  requireDropped(current, path);
  const around = droppedAround(current.dropped, path);
  if (around !== undefined && !purge.includes(around))
    throw schemaErrors.FIELD_IN_USE({
      message: `"${shortName(path)}" is inside of "${around}", which was taken out: purge that`,
    });
}
