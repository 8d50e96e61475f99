/** Which indexes are part of a schema's own document. */
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { IndexDefinition } from '../../../../data/schema/language/definition.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';

/** An index of an admin's schema over its own fields. All others stand beside the schemas: they come after extensions. */
export const isOwnIndex = ({ ownerModule, fields }: CompiledSchema, index: IndexDefinition): boolean =>
  ownerModule === adminOwner && index.fields.every((name) => Object.hasOwn(fields, name));

/** An index that an admin has made, in whoever's schema. */
export const isAdminIndex = ({ ownerModule }: CompiledSchema, index: IndexDefinition): boolean =>
  ownerModule === adminOwner || index.ownerModule === adminOwner;
