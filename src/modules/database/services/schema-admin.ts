/** What an admin may do with schemas, with the rules that the registry itself does not know. */
import type { Caller } from '../../../kernel/caller.ts';
import type { ConfigHandle } from '../../../kernel/config/definition.ts';
import type { CompiledSchema } from '../../../kernel/schema/compiled.ts';
import type { PlatformOptions } from '../../../kernel/schema/definition.ts';
import { schemaErrors } from '../../../kernel/schema/errors.ts';
import { crudOperations } from '../../../kernel/schema/options.ts';
import type { SchemaPlan } from '../../../kernel/schema/plan.ts';
import type { NewSchema, SchemaChange, SchemaRegistry } from '../../../kernel/schema/registry.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { DatabaseConfig } from '../config.ts';
import type { EndpointAdmin } from './endpoints/admin.ts';
import type { RowAuthorization } from './row-authorization.ts';
import { openOperations } from './shown-schema.ts';

export interface SchemaAdmin {
  /** Throws 404. */
  get(id: string): CompiledSchema;
  create(caller: Caller, input: NewSchema): Promise<CompiledSchema>;
  update(caller: Caller, id: string, change: SchemaChange): Promise<CompiledSchema>;
  plan(caller: Caller, id: string, change: SchemaChange): Promise<SchemaPlan>;
  /** Switches the client routes of several schemas on or off, as one change. Throws 404 when one is not there. */
  setEnabled(caller: Caller, ids: readonly string[], enabled: boolean): Promise<readonly CompiledSchema[]>;
  remove(caller: Caller, ids: readonly string[], options: { deleteData: boolean }): Promise<void>;
  import(caller: Caller, inputs: readonly NewSchema[]): Promise<void>;
}

interface Dependencies {
  readonly schemas: SchemaRegistry;
  readonly rows: RowAuthorization;
  readonly endpoints: Pick<EndpointAdmin, 'requireUnused'>;
  readonly config: ConfigHandle<DatabaseConfig>;
  readonly log: Logger;
}

export function createSchemaAdmin({ schemas, rows, endpoints, config, log }: Dependencies): SchemaAdmin {
  const get = (id: string): CompiledSchema => {
    const schema = schemas.byId(id);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  };

  const withDefaults = (input: NewSchema): NewSchema =>
    config.current().security.defaultAuthenticated ? { ...input, options: closedOptions(input.options) } : input;

  const warned = (schema: CompiledSchema): CompiledSchema => {
    const open = openOperations(schema);
    if (open.length > 0) log.warn({ schema: schema.name, operations: open }, 'Anybody may write to this schema without signing in');
    return schema;
  };

  return {
    get,
    async create(caller, input) {
      await rows.before(caller, input.name, input.options);
      return warned(await schemas.create(caller, withDefaults(input)));
    },
    async update(caller, id, change) {
      const after = await rows.before(caller, get(id).name, change.options);
      const changed = warned(await schemas.update(caller, id, change));
      await after?.();
      return changed;
    },
    async plan(caller, id, change) {
      get(id);
      return schemas.plan(caller, id, change);
    },
    async setEnabled(caller, ids, enabled) {
      const changes = [...new Set(ids)].map((id) => ({ id: get(id)._id, change: { options: { cms: { enabled } } } }));
      return schemas.updateMany(caller, changes);
    },
    async remove(caller, ids, options) {
      const known = ids.filter((id) => schemas.byId(id));
      if (known.length === 0) throw schemaErrors.SCHEMA_NOT_FOUND();
      const names = known.map((id) => get(id).name);
      endpoints.requireUnused(names);
      await schemas.remove(caller, known, options);
      if (options.deleteData) await rows.destroyed(caller, names);
    },
    async import(caller, inputs) {
      const afterwards = [];
      for (const { name, options } of inputs) afterwards.push(await rows.before(caller, name, options));
      const imported = await schemas.import(
        caller,
        inputs.map((input) => (knownName(schemas, input) ? input : withDefaults(input))),
      );
      imported.forEach(warned);
      for (const after of afterwards) await after?.();
    },
  };
}

const knownName = (schemas: SchemaRegistry, { name }: NewSchema): boolean => schemas.get(name) !== undefined;

/** Options in which every operation that says nothing needs a signed-in user. */
function closedOptions(options: PlatformOptions = {}): PlatformOptions {
  const given = options.cms?.crudOperations ?? {};
  const switches = crudOperations.map((name) => [name, { authenticated: true, ...given[name] }]);
  return { ...options, cms: { ...options.cms, crudOperations: Object.fromEntries(switches) } };
}
