/** What a request means for the declarations, under the rules of who may change what. Pure. */

import { adminOwner } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../kernel/identity.ts';
import type { Declaration } from '../compile/declaration.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  removedDeclaration,
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
import { purgeDrafts, restoredDraft } from './dropped-field-drafts.ts';
import { importTablesPlan } from './import-external-tables.ts';
import { importPlan } from './import-plan.ts';
import { changedIndexes } from './index-change.ts';
import { importedTable, requireOwnTable } from './option-rules.ts';
import type { SchemaChange, SchemaRequest } from './schema-request.ts';
import type { ChangePlan, SchemaSnapshot } from './table-work.ts';

/** Schemas are changed by admins and by the platform, never on behalf of a user. */
export function requireAdmin(caller: Caller): void {
  if (caller.kind !== 'admin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN();
}

/** Throws what the registry documents. `nameOf`: the name behind an id. */
export function changePlanOf(
  snapshot: SchemaSnapshot,
  request: SchemaRequest,
  nameOf: (id: string) => string,
): ChangePlan {
  switch (request.kind) {
    case 'create':
      return { drafts: [newDeclaration(snapshot, request.input)], destroy: [] };
    case 'update':
      return {
        drafts: request.changes.map(({ id, change }) => updatedDraft(snapshot, nameOf(id), change)),
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
      return { drafts: changedOnly(snapshot, [extendedDraft(current, request)]), destroy: [] };
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
      const drafts = request.changes.map((change) => {
        const current = existing(snapshot, nameOf(change.id));
        requireOwnTable(current, 'make its indexes in your database');
        const adder = current.ownerModule === adminOwner ? undefined : adminOwner;
        return declarationChangeOf(
          { ...asItIs(current), indexes: changedIndexes(current, change, adder) },
          current,
        );
      });
      return { drafts: changedOnly(snapshot, drafts), destroy: [] };
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
