/** What a request means for the declarations, under the rules of who may change what. Pure. */

import { adminOwner } from '../../../kernel/authority/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors, relocated } from '../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../kernel/identity.ts';
import { type Declaration, treeOf } from '../compile/declaration.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import { checkExtension, withExtension } from '../language/extension.ts';
import { typeSignatures } from '../language/field.ts';
import { shown } from '../language/names.ts';
import { replayOf } from './data-changes.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  isUnchanged,
  removedDeclaration,
  unchangedDeclaration,
  type WantedSchema,
} from './declaration-change.ts';
import { droppedAround, isWithin, withDefinitionAt } from './dropped.ts';
import { importTablesPlan } from './import-external-tables.ts';
import { changedIndexes } from './index-change.ts';
import { importedTable, requireOwnTable } from './option-rules.ts';
import type { ArrivingSchema, NewExtension, NewSchema, SchemaChange, SchemaRequest } from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

/** Schemas are changed by admins and by the platform, never on behalf of a user. */
export function requireAdmin(caller: Caller): void {
  if (caller.kind !== 'admin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN();
}

/** Throws what the registry documents. `nameOf`: the name behind an id. */
export function changePlanOf(world: SchemaSnapshot, request: SchemaRequest, nameOf: (id: string) => string): ChangePlan {
  switch (request.kind) {
    case 'create':
      return { drafts: [newDeclaration(world, request.input)], destroy: [] };
    case 'update':
      return { drafts: request.changes.map(({ id, change }) => updatedDraft(world, nameOf(id), change)), destroy: [] };
    case 'import':
      return importIntent(world, request);
    case 'remove':
      return removeIntent(world, request.ids.map(nameOf), request.deleteData);
    case 'extend': {
      const current = unchangedSince(existing(world, nameOf(request.id)), request.expectedVersion);
      return { drafts: changedOnly(world, [extendedDraft(current, request)]), destroy: [] };
    }
    case 'restore':
      return { drafts: [restoredDraft(existing(world, nameOf(request.id)), request)], destroy: [] };
    case 'purge':
      return {
        drafts: purgeDrafts(
          world,
          request.fields.map(({ id, field }) => ({ name: nameOf(id), field })),
        ),
        destroy: [],
      };
    case 'adopt':
      return importTablesPlan(world, request.tables);
    case 'indexes': {
      const drafts = request.changes.map((change) => {
        const current = existing(world, nameOf(change.id));
        requireOwnTable(current, 'make its indexes in your database');
        const adder = current.ownerModule === adminOwner ? undefined : adminOwner;
        return declarationChangeOf({ ...asItIs(current), indexes: changedIndexes(current, change, adder) }, current);
      });
      return { drafts: changedOnly(world, drafts), destroy: [] };
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
      return [...new Set([...request.schemas.map(({ name }) => name), ...request.extensions.map(({ schema }) => schema)])];
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

const changedOnly = (world: SchemaSnapshot, drafts: readonly DeclarationChange[]): readonly DeclarationChange[] =>
  drafts.filter((draft) => !isUnchanged(world.get(draft.declaration.name.toLowerCase()), draft));

/** The live declaration of a name. Throws 404. */
function existing(world: SchemaSnapshot, name: string): Declaration {
  const current = world.get(name.toLowerCase());
  if (!current || current.removed) throw schemaErrors.SCHEMA_NOT_FOUND();
  return current;
}

/** The same of a schema that admins may change. Throws 404 or 403. */
function changeable(world: SchemaSnapshot, name: string): Declaration {
  const current = existing(world, name);
  if (current.ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({ message: `${name} belongs to the module ${current.ownerModule}` });
  return current;
}

/** For a change of something else than the definition: that stays its owner's. */
const asItIs = ({ name, ownerModule, checksum }: Declaration): WantedSchema => ({ name, owner: ownerModule, checksum });

function newDeclaration(world: SchemaSnapshot, input: NewSchema & Pick<WantedSchema, 'replay'>): DeclarationChange {
  const current = world.get(input.name.toLowerCase());
  if (current && (!current.removed || current.name !== input.name)) {
    const message = `The name ${current.name} is already in use`;
    throw schemaErrors.SCHEMA_EXISTS({ message, errors: [{ path: 'name', rule: 'unique', message }] });
  }
  return declarationChangeOf({ owner: adminOwner, ...input }, current);
}

const updatedDraft = (world: SchemaSnapshot, name: string, wanted: SchemaChange): DeclarationChange =>
  declarationChangeOf(
    { name, owner: adminOwner, ...wanted },
    ownColumns(unchangedSince(changeable(world, name), wanted.expectedVersion), wanted),
  );

/** Throws 412 when somebody has changed the schema since its version was seen. Asked under the lock of the change. */
function unchangedSince(current: Declaration, seen: number | undefined): Declaration {
  if (seen === undefined || seen === current.version) return current;
  throw errors.PRECONDITION_FAILED({ message: `${current.name} was changed in the meantime: read it again` });
}

/** Throws 403 for a change of what is stored in a table of others. */
function ownColumns(current: Declaration, { renames = {}, backfill = {} }: SchemaChange): Declaration {
  if (Object.keys(renames).length > 0) requireOwnTable(current, 'name its fields when it is finalised');
  if (Object.keys(backfill).length > 0) requireOwnTable(current, 'its records are not filled in');
  return current;
}

function removeIntent(world: SchemaSnapshot, names: readonly string[], deleteData: boolean): ChangePlan {
  const current = [...new Set(names)].map((name) => changeable(world, name));
  const [imported, own] = [current.filter(({ layout }) => layout.mapping), current.filter(({ layout }) => !layout.mapping)];
  const [first] = imported;
  if (deleteData && first)
    throw importedTable(first.name, 'remove the schema without deleteData, and the table in your database if it is to go');
  // What is forgotten about an imported table, the next introspection finds again.
  const forgotten = imported.map(({ name }) => name);
  if (deleteData) return { drafts: [], destroy: own.map(({ name }) => name) };
  return { drafts: own.map(removedDeclaration), destroy: forgotten };
}

function importIntent(world: SchemaSnapshot, { schemas, extensions }: Extract<SchemaRequest, { kind: 'import' }>): ChangePlan {
  refuseTwins(schemas);
  const drafts = new Map(schemas.map((input, index) => [input.name.toLowerCase(), placedDraft(world, input, index)]));
  for (const [index, extension] of extensions.entries()) {
    const key = extension.schema.toLowerCase();
    const drafted = drafts.get(key);
    const target = drafted?.declaration ?? world.get(key);
    if (!target || target.removed || target.name !== extension.schema) throw missingTarget(extension, index);
    const wanted = { ...extension, backfill: unfilled(target, extension) };
    const { declaration, backfill } = extendedDraft(target, wanted, `extensions.${index}.extension.fields`);
    // However many parts an import has about a schema, it is one change of it.
    const version = drafted?.declaration.version ?? declaration.version;
    const fills = new Map([...(drafted?.backfill ?? []), ...backfill]);
    drafts.set(key, { ...(drafted ?? unchangedDeclaration(declaration)), declaration: { ...declaration, version }, backfill: fills });
  }
  return { drafts: changedOnly(world, [...drafts.values()]), destroy: [] };
}

/** Values for the fields that come or change; an import that changes nothing fills nothing in. */
function unfilled({ extensions }: Declaration, { owner, fields, backfill = {} }: NewExtension): Readonly<Record<string, unknown>> {
  const stored = extensions.find(({ ownerModule }) => ownerModule === owner)?.fields ?? {};
  const isNew = (name: string): boolean => JSON.stringify(stored[name]) !== JSON.stringify(fields[name]);
  return Object.fromEntries(Object.entries(backfill).filter(([name]) => isNew(name)));
}

function missingTarget({ schema }: NewExtension, index: number) {
  const message = `there is no schema "${shown(schema)}" to extend`;
  return schemaErrors.EXTENSION_TARGET_MISSING({ message, errors: [{ path: `extensions.${index}.schemaName`, rule: 'exists', message }] });
}

/** Faults of one among many are reported where it stands. */
function placedDraft(world: SchemaSnapshot, input: ArrivingSchema, index: number): DeclarationChange {
  try {
    return importedDraft(world, input);
  } catch (error) {
    throw relocated(error, (path) => `schemas.${index}.${path}`);
  }
}

/** What an import says is all there is: options that it leaves out are not kept. */
function importedDraft(world: SchemaSnapshot, arriving: ArrivingSchema): DeclarationChange {
  const current = world.get(arriving.name.toLowerCase());
  const { migrations: _, renames: __, backfill: ___, ...input } = arriving;
  const replay = replayOf(current, arriving);
  if (!current || current.removed || current.name !== input.name) return newDeclaration(world, { ...input, replay });
  if (replay.renames.length > 0) requireOwnTable(current, 'name its fields when it is finalised');
  const whole = input.options ? { wholeOptions: true, indexes: input.indexes ?? [] } : {};
  return declarationChangeOf({ owner: adminOwner, ...input, ...whole, replay }, changeable(world, input.name));
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

function extendedDraft(
  current: Declaration,
  { owner, fields, backfill = {} }: Omit<NewExtension, 'schema'>,
  place = 'fields',
): DeclarationChange {
  requireOwnTable(current, 'it gets no columns of extensions');
  const others = current.extensions.filter(({ ownerModule }) => ownerModule !== owner);
  const { extendable } = current.modelOptions.conduit.permissions;
  // What is there can be taken away in any case.
  if (!extendable && Object.keys(fields).length > 0)
    throw schemaErrors.NOT_EXTENDABLE({ message: `${current.name} does not allow extensions` });
  // The record engine knows such rules, and so do the routes of the own account.
  const hasAccess = current.ownerModule === adminOwner || current.name === 'User';
  checkExtension(fields, { fields: current.fields, extensions: others }, { place, hasAccess });
  return declarationChangeOf({ ...asItIs(current), extensions: withExtension(current.extensions, owner, fields), backfill }, current);
}

function restoredDraft(current: Declaration, { field, backfill }: Extract<SchemaRequest, { kind: 'restore' }>): DeclarationChange {
  const dropped = requireDropped(current, field);
  const { definition, extension } = dropped;
  const around = droppedAround(current.dropped, field);
  if (around !== undefined)
    throw schemaErrors.FIELD_IN_USE({ message: `"${shown(field)}" is inside of "${around}", which was taken out: restore that first` });
  if (definition === undefined) {
    const message = `How "${shown(field)}" was defined is not known any more: declare it again, as ${dropped.type}, and its data is there`;
    throw schemaErrors.FIELD_NOT_FOUND({ message });
  }
  const given = backfill === undefined ? {} : { backfill: { [field]: backfill } };
  const owned = current.extensions.find(({ ownerModule }) => ownerModule === extension);
  if (extension !== undefined) {
    const fields = withDefinitionAt(owned?.fields ?? {}, field, definition);
    if (fields) return extendedDraft(current, { owner: extension, fields, ...given });
  } else {
    const fields = withDefinitionAt(current.fields, field, definition);
    if (fields) return declarationChangeOf({ ...asItIs(adminOwned(current)), fields, ...given }, current);
  }
  throw schemaErrors.FIELD_NOT_FOUND({ message: `There is no place for "${shown(field)}" any more` });
}

function adminOwned(current: Declaration): Declaration {
  if (current.ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({ message: `${current.name} belongs to the module ${current.ownerModule}` });
  return current;
}

/** A field whose data is kept. Throws 409 for one that is there, 404 for one that never was. */
function requireDropped(current: Declaration, field: string) {
  const dropped = Object.hasOwn(current.dropped, field) ? current.dropped[field] : undefined;
  if (dropped) return dropped;
  if (typeSignatures(treeOf(current).fields).has(field)) {
    throw schemaErrors.FIELD_IN_USE({ message: `"${shown(field)}" is a field of ${current.name}: take it out first` });
  }
  throw schemaErrors.FIELD_NOT_FOUND();
}

function purgeDrafts(
  world: SchemaSnapshot,
  fields: readonly { readonly name: string; readonly field: string }[],
): readonly DeclarationChange[] {
  const byName = Map.groupBy(fields, ({ name }) => name);
  return [...byName].map(([name, paths]) => {
    const current = existing(world, name);
    requireOwnTable(current, 'fields that were taken out keep their data');
    const purge = paths.map(({ field }) => field);
    for (const path of purge) requirePurgeable(current, path, purge);
    const kept = Object.entries(current.dropped).filter(([path]) => !purge.some((field) => isWithin(path, field)));
    const declaration = { ...current, dropped: Object.fromEntries(kept), version: current.version + 1, updatedAt: new Date() };
    // What is inside of something else that goes needs no step of its own.
    return { ...unchangedDeclaration(declaration), purge: purge.filter((path) => !droppedAround(current.dropped, path)) };
  });
}

/** What is inside of something that was taken out goes with it, or stays with it. */
function requirePurgeable(current: Declaration, path: string, purge: readonly string[]): void {
  requireDropped(current, path);
  const around = droppedAround(current.dropped, path);
  if (around !== undefined && !purge.includes(around))
    throw schemaErrors.FIELD_IN_USE({ message: `"${shown(path)}" is inside of "${around}", which was taken out: purge that` });
}
