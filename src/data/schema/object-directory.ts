/** Which objects (configurations, schemas, types of the permission model) the names of inputs mean in this installation. */
import { adminOwner, schemaObject } from '../../kernel/authority.ts';
import { moduleOfConfig } from '../../kernel/config/config-definition.ts';
import type { ConfigService } from '../../kernel/config/config-service.ts';
import type { ObjectDirectory, OwnedSchema } from '../../kernel/pipeline/input-authority.ts';

interface DirectorySources {
  readonly config: Pick<ConfigService, 'definition'>;
  readonly schemas: {
    get(name: string): OwnedSchema | undefined;
    byId(id: string): OwnedSchema | undefined;
  };
}

export function createObjectDirectory({ config, schemas }: DirectorySources): ObjectDirectory {
  return {
    config(name) {
      const definition = config.definition(name);
      return definition && { kind: 'module', module: moduleOfConfig(name, definition) };
    },
    schema(nameOrId) {
      const found = schemas.get(nameOrId) ?? schemas.byId(nameOrId);
      return schemaObject(found)[0];
    },
    type(object) {
      const found = schemas.get(object.split(':', 1)[0] ?? '');
      return found?.ownerModule === adminOwner ? undefined : schemaObject(found)[0];
    },
  };
}
