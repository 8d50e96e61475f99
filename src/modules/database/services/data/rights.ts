/** What modules may do with records of schemas that are not theirs (spec/database.md 5.9). Reading is never restricted. */
import { errors } from '../../../../kernel/errors.ts';
import type { RecordInput } from '../../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../../kernel/schema/compiled.ts';
import { adminOwner } from '../../../../kernel/schema/draft.ts';

export type Change = 'create' | 'modify' | 'delete';

/** Throws 403. `inputs`: what a modification is about to write. */
export function requireRight(module: string, schema: CompiledSchema, change: Change, inputs: readonly RecordInput[] = []): void {
  if (schema.ownerModule === module || allows(schema, change)) return;
  if (change === 'modify' && staysInExtensions(module, schema, inputs)) return;
  const verbs = { create: 'create', modify: 'change', delete: 'delete' } as const;
  throw errors.FORBIDDEN({ message: `${schema.ownerModule} does not let ${module} ${verbs[change]} records of ${schema.name}` });
}

function allows({ modelOptions }: CompiledSchema, change: Change): boolean {
  const { canCreate, canModify, canDelete } = modelOptions.conduit.permissions;
  if (change === 'create') return canCreate;
  return change === 'delete' ? canDelete : canModify === 'Everything';
}

/** `ExtensionOnly`: the fields that the module itself, or an admin, has added to the schema. */
function staysInExtensions(module: string, { modelOptions, extensions }: CompiledSchema, inputs: readonly RecordInput[]): boolean {
  if (modelOptions.conduit.permissions.canModify !== 'ExtensionOnly') return false;
  const open = extensions.filter(({ ownerModule }) => ownerModule === module || ownerModule === adminOwner);
  const own = new Set(open.flatMap(({ fields }) => Object.keys(fields)));
  return inputs.every((input) => namesOf(input).every((name) => own.has(name)));
}

/** Fields that an input names, inside of operators too. */
const namesOf = (input: RecordInput): readonly string[] =>
  Object.entries(input).flatMap(([name, value]) =>
    name.startsWith('$') && typeof value === 'object' && value !== null ? Object.keys(value) : [name],
  );
