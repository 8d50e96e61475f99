/** What switching row authorization on asks for: a running engine, a definition of the type, and owners for what is there. */

import { namesUser } from '../../../data/records/access/operation-access.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { PlatformOptions } from '../../../data/schema/language/definition.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { Adoption, PermissionEngine, PermissionPort } from '../../../kernel/permissions.ts';
import { databaseErrors } from '../errors.ts';

export interface RowAuthorization {
  /** Throws what `before` throws, except for a type that is defined otherwise. Changes nothing. */
  check(name: string, options: PlatformOptions | undefined): Promise<void>;
  /**
   * Before a schema is declared or changed with these options. Answers what is to be done after it,
   * if anything. Throws 412 without an engine, 409 when the type is defined otherwise, 400 for records without a mode.
   */
  before(
    caller: Caller,
    name: string,
    options: PlatformOptions | undefined,
  ): Promise<(() => Promise<void>) | undefined>;
  /** After tables were destroyed with their records. */
  destroyed(caller: Caller, names: readonly string[]): Promise<void>;
}

interface Dependencies {
  readonly database: Queryable;
  readonly permissions: PermissionPort;
  readonly get: (name: string) => CompiledSchema | undefined;
}

export function createRowAuthorization({
  database,
  permissions,
  get,
}: Dependencies): RowAuthorization {
  async function hasRecords({ table }: CompiledSchema): Promise<boolean> {
    const { rows } = await database.query({ text: `select 1 from ${table} limit 1` });
    return rows.length > 0;
  }

  /** What the caller wants for the records that are there; also later, to do it again. */
  async function adoptionOf(
    schema: CompiledSchema,
    { mode, ownerField }: Requested,
  ): Promise<Adoption | undefined> {
    if (mode === 'assignOwner' && (ownerField === undefined || !namesUser(schema, ownerField))) {
      const message =
        'must be a field of the schema that holds the id of a user (a Relation to User, an ObjectId or a String)';
      throw invalid('conduitOptions.authorization.ownerField', 'field', message);
    }
    if (mode !== undefined) return { mode, ...(ownerField === undefined ? {} : { ownerField }) };
    if (!schema.modelOptions.conduit.authorization.enabled && (await hasRecords(schema)))
      throw ownerChoiceMissing();
    return undefined;
  }

  const engineOf = (): PermissionEngine => {
    if (!permissions.engine) throw databaseErrors.AUTHORIZATION_MISSING();
    return permissions.engine;
  };

  return {
    async check(name, options) {
      const requested = options?.authorization;
      if (requested?.enabled !== true) return;
      engineOf();
      const current = get(name);
      if (current) await adoptionOf(current, requested);
    },
    async before(caller, name, options) {
      const requested = options?.authorization;
      if (requested?.enabled !== true) return undefined;
      const engine = engineOf();
      const current = get(name);
      const adoption = current && (await adoptionOf(current, requested));
      await engine.prepare(caller, name);
      return adoption && (() => engine.adopt(name, adoption));
    },
    async destroyed(caller, names) {
      for (const name of names) await permissions.engine?.abandon(caller, name);
    },
  };
}

function ownerChoiceMissing(): PenstockError {
  const { message } = databaseErrors.ADOPTION_MISSING;
  return databaseErrors.ADOPTION_MISSING({
    errors: [{ path: 'conduitOptions.authorization.mode', rule: 'required', message }],
  });
}

type Requested = NonNullable<PlatformOptions['authorization']>;
