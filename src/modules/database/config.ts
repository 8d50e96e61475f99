/** Configuration of the database module. */
import Type, { type Static } from 'typebox';
import { defineConfig } from '../../kernel/config/definition.ts';

export const databaseConfig = defineConfig({
  schema: Type.Object({
    security: Type.Object({
      defaultAuthenticated: Type.Boolean({
        default: false,
        description: 'Operations of new schemas need a signed-in user unless the schema says otherwise',
      }),
    }),
  }),
});

export type DatabaseConfig = Static<typeof databaseConfig.schema>;
