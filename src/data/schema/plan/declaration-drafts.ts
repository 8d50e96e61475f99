/** Which declarations a request may change, and the drafts of new and extended ones. */
import { adminOwner } from '../../../kernel/authority.ts';
import { errors } from '../../../kernel/errors.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { Declaration } from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import { checkExtension, withExtension } from '../language/extension.ts';
import {
  type DeclarationChange,
  declarationChangeOf,
  isUnchanged,
  type RequestedSchema,
} from './declaration-change.ts';
import { requireOwnTable } from './option-rules.ts';
import type { NewExtension, NewSchema } from './schema-request.ts';
import type { SchemaSnapshot } from './table-work.ts';

export async function changedOnly(
  snapshot: SchemaSnapshot,
  drafts: readonly DeclarationChange[],
): Promise<readonly DeclarationChange[]> {
  const pause = createTimeSlices();
  const changed: DeclarationChange[] = [];
  for (const draft of drafts) {
    await pause();
    const current = snapshot.get(draft.declaration.name.toLowerCase());
    if (!isUnchanged(current, draft)) changed.push(draft);
  }
  return changed;
}

/** The live declaration of a name. Throws 404. */
export function existing(snapshot: SchemaSnapshot, name: string): Declaration {
  const current = snapshot.get(name.toLowerCase());
  if (!current || current.removed) throw schemaErrors.SCHEMA_NOT_FOUND();
  return current;
}

/** The same of a schema that admins may change. Throws 404 or 403. */
export function changeable(snapshot: SchemaSnapshot, name: string): Declaration {
  const current = existing(snapshot, name);
  if (current.ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({
      message: `${name} belongs to the module ${current.ownerModule}`,
    });
  return current;
}

/** For a change of something else than the definition: that stays its owner's. */
export const asItIs = ({ name, ownerModule, checksum }: Declaration): RequestedSchema => ({
  name,
  owner: ownerModule,
  checksum,
});

export function newDeclaration(
  snapshot: SchemaSnapshot,
  input: NewSchema & Pick<RequestedSchema, 'replay'>,
): DeclarationChange {
  const current = snapshot.get(input.name.toLowerCase());
  if (current && (!current.removed || current.name !== input.name)) {
    const message = `The name ${current.name} is already in use`;
    throw schemaErrors.SCHEMA_EXISTS({
      message,
      errors: [{ path: 'name', rule: 'unique', message }],
    });
  }
  return declarationChangeOf({ owner: adminOwner, ...input }, current);
}

/** Throws 412 when somebody has changed the schema since its version was seen. Asked under the lock of the change. */
export function unchangedSince(current: Declaration, seen: number | undefined): Declaration {
  if (seen === undefined || seen === current.version) return current;
  throw errors.PRECONDITION_FAILED({
    message: `${current.name} was changed in the meantime: read it again`,
  });
}

export function extendedDraft(
  current: Declaration,
  { owner, fields, backfill = {} }: Omit<NewExtension, 'schema'>,
  place = 'fields',
): DeclarationChange {
  requireOwnTable(current, 'it gets no columns of extensions');
  const others = current.extensions.filter(({ ownerModule }) => ownerModule !== owner);
  const { extendable } = current.modelOptions.conduit.permissions;
  // What is there can be taken away in any case.
  if (!extendable && Object.keys(fields).length > 0)
    throw schemaErrors.SCHEMA_NOT_EXTENDABLE({
      message: `${current.name} does not allow extensions`,
    });
  // The record engine knows such rules, and so do the routes of the own account.
  const hasAccess = current.ownerModule === adminOwner || current.name === 'User';
  checkExtension(fields, { fields: current.fields, extensions: others }, { place, hasAccess });
  return declarationChangeOf(
    { ...asItIs(current), extensions: withExtension(current.extensions, owner, fields), backfill },
    current,
  );
}
