/** The schemas as they would be after an import, for everything in it that hangs on them. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { IndexDefinition } from '../../../data/schema/language/definition.ts';
import type { ArrivingSchema, NewExtension } from '../../../data/schema/plan/schema-request.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { relocated } from '../../../kernel/errors.ts';
import { type PlacedDocument, placed, type StateImport } from '../../../kernel/state.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import {
  type ImportedExtensionDocument,
  type ImportedSchemaDocument,
  newExtensionOf,
  newSchemaOf,
} from '../services/imported-schema.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import type { PlanForAdmin } from '../services/schema-views.ts';

/* Which indexes are part of a schema's own document. */

/** An index of an admin's schema over its own fields. All others stand beside the schemas: they come after extensions. */
export const isOwnIndex = (
  { ownerModule, fields }: CompiledSchema,
  index: IndexDefinition,
): boolean =>
  ownerModule === adminOwner && index.fields.every((name) => Object.hasOwn(fields, name));

/** An index that an admin has made, in whoever's schema. */
export const isAdminIndex = ({ ownerModule }: CompiledSchema, index: IndexDefinition): boolean =>
  ownerModule === adminOwner || index.ownerModule === adminOwner;

export const databaseModule = 'database';

interface Declared {
  /** Schemas of the import that would change, by name. */
  readonly changed: ReadonlyMap<string, CompiledSchema>;
  /** The registry as it would be. */
  readonly registry: SchemaRegistry;
  /** What the change would do to the tables. */
  readonly plan: PlanForAdmin;
}

export interface Declarations {
  /** Plans once per import. Throws what the import of the schemas would be refused with, with its place. */
  after(caller: Caller, whole: StateImport): Promise<Declared>;
  /** The schema that a document asks for; what it leaves out has its default. */
  newSchema(placed: PlacedDocument): ArrivingSchema;
}

export function createDeclarations(admin: SchemaAdmin, schemas: SchemaRegistry): Declarations {
  const known = new WeakMap<StateImport, Promise<Declared>>();

  function newSchema({ document, place }: PlacedDocument): ArrivingSchema {
    const requested = newSchemaOf(schemas, document as ImportedSchemaDocument, place);
    const current = schemas.get(requested.name);
    // Indexes over fields of extensions are documents of their own.
    const others = current
      ? (current.modelOptions.indexes ?? []).filter((index) => !isOwnIndex(current, index))
      : [];
    const indexes: readonly IndexDefinition[] = [...(requested.indexes ?? []), ...others];
    return {
      ...requested,
      options: requested.options ?? {},
      timestamps: requested.timestamps ?? true,
      indexes,
    };
  }

  async function plan(caller: Caller, whole: StateImport): Promise<Declared> {
    const documents = whole.documents(databaseModule, 'schemas');
    const pause = createTimeSlices();
    const requested: PlacedSchema[] = [];
    for (const one of documents) {
      requested.push({ place: one.place, schema: newSchema(one) });
      await pause();
    }
    const extensions = whole.documents(databaseModule, 'extensions');
    const foreseen = await planImport(admin, caller, { requested, extensions });
    const changed = new Map(foreseen.after.map((schema) => [schema.name, schema]));
    const gone = (name: string): boolean =>
      whole
        .changes(databaseModule, 'schemas')
        .some(({ action, key }) => action === 'delete' && key === name);
    const get = (name: string): CompiledSchema | undefined =>
      gone(name) ? undefined : (changed.get(name) ?? schemas.get(name));
    return { changed, registry: { ...schemas, get }, plan: foreseen };
  }

  return {
    newSchema,
    after(caller, whole) {
      const found = known.get(whole) ?? plan(caller, whole);
      known.set(whole, found);
      return found;
    },
  };
}

interface PlacedSchema {
  readonly schema: ArrivingSchema;
  readonly place: string;
}

interface Requested {
  readonly requested: readonly PlacedSchema[];
  readonly extensions: readonly PlacedDocument[];
}

/** One plan for all of them. Throws what the import would be refused with, with its place. */
async function planImport(
  admin: SchemaAdmin,
  caller: Caller,
  { requested, extensions }: Requested,
): Promise<PlanForAdmin> {
  const placedExtensions: readonly NewExtension[] = extensions.map(({ document, place }) =>
    newExtensionOf(document as ImportedExtensionDocument, place),
  );
  try {
    return await admin.plan(caller, {
      kind: 'import',
      schemas: requested.map(({ schema }) => schema),
      extensions: placedExtensions,
    });
  } catch (error) {
    // One of them alone says where it is; if each alone is fine, it is how they stand together.
    for (const { schema, place } of requested)
      await placed(place, () => planOne(admin, caller, schema));
    return placed(`modules.${databaseModule}`, () => Promise.reject(error));
  }
}

const planOne = (admin: SchemaAdmin, caller: Caller, schema: ArrivingSchema) =>
  admin
    .plan(caller, { kind: 'import', schemas: [schema], extensions: [] })
    .catch((error: unknown) => {
      throw relocated(error, (path) => path.replace(/^schemas\.0\.?/, ''));
    });
