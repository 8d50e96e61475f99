/**
 * Links that a change of a schema makes by itself. Who writes a record is asked about each link of it; here nobody writes:
 * ids that were stored as plain ones become links, and records get those of a backfill or of a default. For some records a
 * link is more than an id: whoever reads a record reads the files that it holds.
 */
import { requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Declaration } from '../compile/declaration.ts';
import type { FieldMap } from '../language/definition.ts';
import { mergedFields } from '../language/extension.ts';
import { type ObjectField, relationOf, typeSignatures } from '../language/field.ts';
import { liveFields } from './field-changes.ts';

interface FieldsAfter {
  readonly fields: FieldMap;
  readonly tree: ObjectField;
  readonly backfill: ReadonlyMap<string, unknown>;
}

/** Names of the schemas to which they lead. `before`: with the names that its fields get; nothing for a new schema. */
export function linksMade(
  before: Declaration | undefined,
  { fields, tree, backfill }: FieldsAfter,
): ReadonlySet<string> {
  const made = new Set<string>();
  const types = typeSignatures(tree.fields);
  const stored = before ? storedTypes(before) : new Map<string, string>();
  const was = before && !before.removed ? mergedFields(before) : {};
  for (const [name, field] of tree.fields) {
    const model = relationOf(field)?.field.model;
    if (model === undefined) continue;
    const type = stored.get(name);
    const becomes = type !== undefined && type !== types.get(name);
    const fills =
      field.default !== undefined && JSON.stringify(was[name]) !== JSON.stringify(fields[name]);
    if (becomes || fills || backfill.has(name)) made.add(model);
  }
  return made;
}

/** Types of all that is stored, also of fields that were taken out. */
function storedTypes(before: Declaration): Map<string, string> {
  const live = before.removed ? [] : liveFields(before);
  return new Map(
    [...Object.entries(before.dropped), ...live].map(([path, { type }]) => [path, type]),
  );
}

interface Links {
  readonly links: ReadonlySet<string>;
}

/** Throws 403 where a change makes links to records over whose module the caller has no authority. */
export function requireLinks(
  caller: Caller,
  snapshot: ReadonlyMap<string, Declaration>,
  drafts: readonly Links[],
): void {
  for (const model of new Set(drafts.flatMap(({ links }) => [...links])))
    requireAuthority(caller, ...schemaObject(snapshot.get(model.toLowerCase())));
}
