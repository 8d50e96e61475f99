/** Shapes of WebAuthn (level 3) as browsers write and read them, as far as the platform looks at them. */
import Type from 'typebox';

const base64url = (maxLength: number) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[A-Za-z0-9_-]+$' });
const instant = Type.String({ format: 'date-time' });

/** The ways in which browsers reach an authenticator. Unknown ones may come. */
const transports = ['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb'] as const;
const Transport = Type.Union(transports.map((name) => Type.Literal(name)));

const CredentialId = base64url(1400);
const ClientData = base64url(8192);
const PublicKeyType = Type.Literal('public-key');

/** `PublicKeyCredential.toJSON()` after `navigator.credentials.create`. */
export const AttestationCredential = Type.Object({
  id: CredentialId,
  rawId: CredentialId,
  type: PublicKeyType,
  response: Type.Object({
    clientDataJSON: ClientData,
    attestationObject: base64url(65_536),
    transports: Type.Optional(Type.Array(Transport, { maxItems: 16 })),
  }),
});

/** The same after `navigator.credentials.get`. */
export const AssertionCredential = Type.Object({
  id: CredentialId,
  rawId: CredentialId,
  type: PublicKeyType,
  response: Type.Object({
    clientDataJSON: ClientData,
    authenticatorData: base64url(8192),
    signature: base64url(8192),
    userHandle: Type.Optional(base64url(100)),
  }),
});

const Descriptor = Type.Object({
  id: Type.String(),
  type: Type.String(),
  transports: Type.Optional(Type.Array(Type.String())),
});
const rest = { additionalProperties: true };

/** `PublicKeyCredentialCreationOptionsJSON`. */
export const CreationOptions = Type.Object(
  {
    challenge: Type.String(),
    rp: Type.Object({
      id: Type.Optional(Type.String({ description: 'Its id' })),
      name: Type.String(),
    }),
    user: Type.Object({ id: Type.String(), name: Type.String(), displayName: Type.String() }),
    pubKeyCredParams: Type.Array(Type.Object({ alg: Type.Integer(), type: Type.String() })),
    timeout: Type.Optional(Type.Integer({ description: 'Milliseconds' })),
    excludeCredentials: Type.Optional(Type.Array(Descriptor)),
  },
  rest,
);

/** `PublicKeyCredentialRequestOptionsJSON`. */
export const RequestOptions = Type.Object(
  {
    challenge: Type.String(),
    rpId: Type.Optional(Type.String()),
    timeout: Type.Optional(Type.Integer({ description: 'Milliseconds' })),
    userVerification: Type.Optional(Type.String()),
    allowCredentials: Type.Optional(Type.Array(Descriptor)),
  },
  rest,
);

export const PasskeyName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
});

export const Passkey = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  multiDevice: Type.Boolean({
    description: 'Whether it may be copied to other devices of its owner',
  }),
  backedUp: Type.Boolean({ description: 'Whether it was copied when it was last used' }),
  transports: Type.Array(Type.String()),
  createdAt: instant,
  lastUsedAt: Type.Union([instant, Type.Null()]),
});
