/** What the engine works with for one caller: the schemas as he sees them. For most callers they are the schemas as they are. */
import type { Caller } from '../caller.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { schemaErrors } from '../schema/errors.ts';
import { requireTheirSchema } from './access.ts';
import { type Beholder, beholderOf, seenBy } from './field-access.ts';
import type { WriteDependencies } from './write-context.ts';

export interface Desk {
  readonly dependencies: WriteDependencies;
  /** Set for a caller who may not see or set everything. */
  readonly beholder: Beholder | undefined;
  /** Throws 404. */
  schema(name: string): CompiledSchema;
}

/** For a request about a schema. Answers without waiting unless the caller's roles matter. */
export type OpenDesk = (caller: Caller, schema: string) => Desk | Promise<Desk>;

export function createDesks(dependencies: WriteDependencies): OpenDesk {
  const plain = deskWith(dependencies, undefined);
  return (caller, schema) => {
    const about = dependencies.schemas.get(schema);
    if (about) requireTheirSchema(caller, about);
    const beholder = beholderOf(dependencies, caller, schema);
    if (beholder instanceof Promise) return beholder.then((one) => (one ? sightedDesk(dependencies, one) : plain));
    return beholder ? sightedDesk(dependencies, beholder) : plain;
  };
}

function sightedDesk(dependencies: WriteDependencies, beholder: Beholder): Desk {
  const { schemas } = dependencies;
  const get = (name: string): CompiledSchema | undefined => {
    const schema = schemas.get(name);
    return schema && seenBy(schema, beholder);
  };
  return deskWith({ ...dependencies, schemas: { ...schemas, get } }, beholder);
}

const deskWith = (dependencies: WriteDependencies, beholder: Beholder | undefined): Desk => ({
  dependencies,
  beholder,
  schema(name) {
    const schema = dependencies.schemas.get(name);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  },
});
