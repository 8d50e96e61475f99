/** What a request means for the declarations, under the rules of who may change what. Nothing is read or written here. */
import { adminOwner } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../kernel/identity.ts';
import { mapInSlices } from '../../../kernel/time-slices.ts';
import { type Declaration, treeOf } from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import { typeSignatures } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  removedDeclaration,
  unchangedDeclaration,
} from './declaration-change.ts';
import {
  asItIs,
  changeable,
  changedOnly,
  existing,
  extendedDraft,
  newDeclaration,
  unchangedSince,
} from './declaration-drafts.ts';
import { droppedAround, isWithin, withDefinitionAt } from './dropped.ts';
import { importPlan, importTablesPlan } from './import-plan.ts';
import { changedIndexes } from './index-change.ts';
import { importedTable, requireOwnTable } from './option-rules.ts';
import type { SchemaChange, SchemaRequest } from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

/* Bringing fields back that were taken out, and destroying what is kept of them. */

function restoredDraft(
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

function purgeDrafts(
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

/** Schemas are changed by admins and by the platform, never on behalf of a user. */
export function requireAdmin(caller: Caller): void {
  if (caller.kind !== 'admin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN();
}

/** Throws what the registry documents. `nameOf`: the name behind an id. What may be about thousands of schemas is made in slices. */
export async function changePlanOf(
  snapshot: SchemaSnapshot,
  request: SchemaRequest,
  nameOf: (id: string) => string,
): Promise<ChangePlan> {
  switch (request.kind) {
    case 'create':
      return { drafts: [newDeclaration(snapshot, request.input)], destroy: [] };
    case 'update':
      return {
        drafts: await mapInSlices(request.changes, ({ id, change }) =>
          updatedDraft(snapshot, nameOf(id), change),
        ),
        destroy: [],
      };
    case 'import':
      return importPlan(snapshot, request);
    case 'remove':
      return removalPlan(snapshot, request.ids.map(nameOf), request.deleteData);
    case 'extend': {
      const current = unchangedSince(
        existing(snapshot, nameOf(request.id)),
        request.expectedVersion,
      );
      return {
        drafts: await changedOnly(snapshot, [extendedDraft(current, request)]),
        destroy: [],
      };
    }
    case 'restore':
      return {
        drafts: [restoredDraft(existing(snapshot, nameOf(request.id)), request)],
        destroy: [],
      };
    case 'purge':
      return {
        drafts: purgeDrafts(
          snapshot,
          request.fields.map(({ id, field }) => ({ name: nameOf(id), field })),
        ),
        destroy: [],
      };
    case 'adopt':
      return importTablesPlan(snapshot, request.tables);
    case 'indexes': {
      const drafts = await mapInSlices(request.changes, (change) => {
        const current = existing(snapshot, nameOf(change.id));
        requireOwnTable(current, 'make its indexes in your database');
        const adder = current.ownerModule === adminOwner ? undefined : adminOwner;
        return declarationChangeOf(
          { ...asItIs(current), indexes: changedIndexes(current, change, adder) },
          current,
        );
      });
      return { drafts: await changedOnly(snapshot, drafts), destroy: [] };
    }
  }
}

/** Names of the schemas that a request is about. */
export function namesIn(request: SchemaRequest, nameOf: (id: string) => string): readonly string[] {
  switch (request.kind) {
    case 'create':
      return [request.input.name];
    case 'update':
    case 'indexes':
      return request.changes.map(({ id }) => nameOf(id));
    case 'import':
      return [
        ...new Set([
          ...request.schemas.map(({ name }) => name),
          ...request.extensions.map(({ schema }) => schema),
        ]),
      ];
    case 'remove':
      return request.ids.map(nameOf);
    case 'purge':
      return [...new Set(request.fields.map(({ id }) => nameOf(id)))];
    case 'adopt':
      return request.tables.map(({ name }) => name);
    default:
      return [nameOf(request.id)];
  }
}

const updatedDraft = (
  snapshot: SchemaSnapshot,
  name: string,
  requested: SchemaChange,
): DeclarationChange =>
  declarationChangeOf(
    { name, owner: adminOwner, ...requested },
    ownColumns(unchangedSince(changeable(snapshot, name), requested.expectedVersion), requested),
  );

/** Throws 403 for a change of what is stored in a table of others. */
function ownColumns(
  current: Declaration,
  { renames = {}, backfill = {} }: SchemaChange,
): Declaration {
  if (Object.keys(renames).length > 0)
    requireOwnTable(current, 'name its fields when it is finalised');
  if (Object.keys(backfill).length > 0) requireOwnTable(current, 'its records are not filled in');
  return current;
}

function removalPlan(
  snapshot: SchemaSnapshot,
  names: readonly string[],
  deleteData: boolean,
): ChangePlan {
  const current = [...new Set(names)].map((name) => changeable(snapshot, name));
  const [imported, own] = [
    current.filter(({ layout }) => layout.mapping),
    current.filter(({ layout }) => !layout.mapping),
  ];
  const [first] = imported;
  if (deleteData && first)
    throw importedTable(
      first.name,
      'remove the schema without deleteData, and the table in your database if it is to go',
    );
  // What is forgotten about an imported table, the next introspection finds again.
  const forgotten = imported.map(({ name }) => name);
  if (deleteData) return { drafts: [], destroy: own.map(({ name }) => name) };
  return { drafts: own.map(removedDeclaration), destroy: forgotten };
}
