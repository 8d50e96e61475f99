/** Configuration of the database module. */
import Type, { type Static } from 'typebox';
import { shortName } from '../../data/schema/language/names.ts';
import { defineConfig } from '../../kernel/config/config-definition.ts';

/** Schemas of PostgreSQL that hold nothing of users: its own, and those of the platform. */
export const closedSchema = /^(?:pg_.*|information_schema|app|penstock(?:_.*)?)$/;

export const databaseConfig = defineConfig({
  schema: Type.Object({
    security: Type.Object({
      defaultAuthenticated: Type.Boolean({
        default: false,
        description:
          'Operations of new schemas need a signed-in user unless the schema says otherwise',
      }),
    }),
    introspection: Type.Object({
      schemas: Type.Array(Type.String({ minLength: 1, maxLength: 63 }), {
        minItems: 1,
        maxItems: 32,
        default: ['public'],
        description:
          'Schemas of PostgreSQL in which introspection looks for tables that are there already',
      }),
    }),
    droppedFields: Type.Object({
      retentionDays: Type.Integer({
        minimum: 0,
        maximum: 36_500,
        default: 0,
        description:
          'Days after which the data of fields that were taken out is destroyed; 0 keeps it until somebody purges it',
      }),
    }),
  }),
  check({ introspection }) {
    return introspection.schemas.flatMap((name, i) =>
      closedSchema.test(name)
        ? [
            {
              path: `introspection.schemas.${i}`,
              rule: 'enum',
              message: `"${shortName(name)}" holds what belongs to PostgreSQL or to the platform`,
            },
          ]
        : [],
    );
  },
});

export type DatabaseConfig = Static<typeof databaseConfig.schema>;
