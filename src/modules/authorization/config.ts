/** Configuration of the authorization module. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';

export const authorizationConfig = defineConfig({
  schema: Type.Object({
    maxBatch: Type.Integer({
      ...harmless,
      default: 1000,
      minimum: 1,
      maximum: 1000,
      description: 'Relations that one request may write. Up to 100 are recommended.',
    }),
    recordSubjects: Type.Array(Type.String({ pattern: '^(\\*|[A-Za-z][A-Za-z0-9_]{0,63})$' }), {
      default: ['User', 'Team'],
      minItems: 1,
      maxItems: 16,
      description:
        'Types that may own, edit or read records of schemas with row authorization; definitions are made with them. * means any type, and costs every list.',
    }),
    purgeExpired: Type.Boolean({
      ...harmless,
      default: true,
      description:
        'Whether relations are deleted some time after they expired. They count for nothing from their expiry on in either case.',
    }),
  }),
});

export type AuthorizationConfig = Static<typeof authorizationConfig.schema>;
