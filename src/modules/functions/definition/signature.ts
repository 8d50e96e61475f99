/** How senders of webhooks prove themselves (specification functions.md section 5.2). */
import Type, { type Static } from 'typebox';

const signatureSchemes = [
  'standard-webhooks',
  'hmac-sha256',
  'stripe',
  'github',
  'slack',
  'shopify',
] as const;

export const SignatureShape = Type.Object(
  {
    scheme: Type.Enum([...signatureSchemes], {
      description:
        '`standard-webhooks`: headers webhook-id, webhook-timestamp, webhook-signature (or svix-...). `hmac-sha256`: a digest of the body in `header`. The others: as these senders sign',
    }),
    secret: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Name of the secret of this function that signs',
    }),
    header: Type.Optional(Type.String({ maxLength: 100, pattern: '^[A-Za-z0-9-]+$' })),
    format: Type.Optional(
      Type.Enum(['hex', 'base64'], { description: 'How the digest is written; hex unless set' }),
    ),
    prefix: Type.Optional(
      Type.String({
        maxLength: 40,
        description: 'What stands before the digest, such as `sha256=`',
      }),
    ),
    timestampHeader: Type.Optional(
      Type.String({
        maxLength: 100,
        pattern: '^[A-Za-z0-9-]+$',
        description:
          'Header with the seconds since 1970; the digest is then of `<timestamp>.<body>`, and too old ones are refused',
      }),
    ),
    toleranceSec: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400, default: 300 })),
  },
  { closed: 'all' },
);
export type SignatureOptions = Static<typeof SignatureShape>;
