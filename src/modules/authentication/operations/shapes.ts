/** Shapes that several operations of authentication share. */
import Type from 'typebox';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { userSchema } from '../schemas.ts';
import { deviceName, type Origin } from '../services/origin.ts';
import { maxPasswordLength } from '../services/passwords.ts';
import type { ListedSession } from '../services/sessions/queries.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const instant = Type.String({ format: 'date-time' });

/** A user as the record engine renders it. Fields that extend the user come with it. */
export const User = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    email: nullable(Type.String()),
    username: nullable(Type.String()),
    phoneNumber: nullable(Type.String()),
    active: Type.Boolean(),
    isVerified: Type.Boolean(),
    hasTwoFA: Type.Boolean(),
    twoFaMethod: nullable(Type.String()),
    requiresTwoFA: Type.Boolean(),
    isAnonymous: Type.Boolean(),
    createdAt: instant,
    updatedAt: instant,
  },
  {
    additionalProperties: true,
    description: 'A user, with the fields by which the schema User was extended',
  },
);

/**
 * A user as the schema User says it now, with the fields by which it was extended. Operations that answer
 * one are made anew when the schema changes.
 */
export function userShape(schemas: Pick<SchemaRegistry, 'get'>): Type.TObject {
  const shape = schemas.get(userSchema.name)?.shapes.record;
  if (!shape) throw new Error('The schema User is not installed');
  return shape;
}

/** What every sign-in answers. */
export const Login = Type.Object({
  userId: Type.String({ format: 'uuid', description: 'Id of the user' }),
  accessToken: Type.String({ description: 'Bearer token of requests; a JWT' }),
  refreshToken: Type.Optional(
    Type.String({ description: 'Bearer token of POST /authentication/renew; works once' }),
  ),
  twoFaRequired: Type.Optional(
    Type.Literal(true, { description: 'The access token opens only the second step' }),
  ),
  twoFaMethod: Type.Optional(Type.String()),
  twoFaEnrolment: Type.Optional(
    Type.Literal(true, {
      description: 'There is no second factor yet: the access token opens only its setting up',
    }),
  ),
});

/** An address of the app, checked against the list of the configuration. */
export const RedirectUri = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: 'Must be on the list redirectUris.whitelistedUris',
});

/** A token out of a link. Anything else is answered like one that does not exist. */
export const LinkToken = Type.String({ minLength: 1, maxLength: 200 });

export const Session = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  clientId: Type.String(),
  createdAt: instant,
  lastUsedAt: instant,
  expiresAt: instant,
  ip: nullable(Type.String()),
  userAgent: nullable(Type.String()),
  name: Type.String({
    description: 'As the user calls the device; until they do, what the user agent says',
  }),
  impersonated: Type.Boolean({ description: 'An operator acts as the user in it' }),
});

export const SessionId = Type.Object({
  id: Type.String({ format: 'uuid', description: 'Its id' }),
});
export const UserId = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });

/** Checked further in the service, after Unicode was normalised. */
export const Email = Type.String({
  minLength: 3,
  maxLength: 254,
  description: 'E-mail address; case does not matter',
});
export const Password = Type.String({
  minLength: 1,
  maxLength: maxPasswordLength,
  description: 'What they sign in with',
});
export const UserData = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Fields by which the schema User was extended',
});

export const originOf = ({ address, userAgent, clientId }: OperationContext): Origin => ({
  address,
  userAgent,
  clientId,
});

/** The user of an operation with user access. */
export function userOf({ caller }: OperationContext): UserCaller {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return caller;
}

/** Dates of a listed session as they go on the wire. */
export const sessionOnWire = <S extends ListedSession>(session: S) => ({
  ...session,
  name: session.name ?? deviceName(session.userAgent),
  createdAt: session.createdAt.toISOString(),
  lastUsedAt: session.lastUsedAt.toISOString(),
  expiresAt: session.expiresAt.toISOString(),
});
