/** Shapes that several operations of authentication share. */
import Type from 'typebox';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { OperationContext } from '../../../kernel/operation.ts';
import type { Origin } from '../services/origin.ts';
import { maxPasswordLength } from '../services/password-policy.ts';

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
    isAnonymous: Type.Boolean(),
    createdAt: instant,
    updatedAt: instant,
  },
  { additionalProperties: true, description: 'A user, with the fields by which the schema User was extended' },
);

export const Session = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  clientId: Type.String(),
  createdAt: instant,
  lastUsedAt: instant,
  expiresAt: instant,
  ip: nullable(Type.String()),
  userAgent: nullable(Type.String()),
});

export const SessionId = Type.Object({ id: Type.String({ format: 'uuid' }) });
export const UserId = Type.Object({ id: Type.String({ format: 'uuid' }) });

/** Checked further in the service, after Unicode was normalised. */
export const Email = Type.String({ minLength: 3, maxLength: 254, description: 'E-mail address; case does not matter' });
export const Password = Type.String({ minLength: 1, maxLength: maxPasswordLength });
export const UserData = Type.Record(Type.String(), Type.Unknown(), { description: 'Fields by which the schema User was extended' });

export const originOf = ({ address, userAgent }: OperationContext): Origin => ({ address, userAgent });

/** The user of an operation with user access. */
export function userOf({ caller }: OperationContext): UserCaller {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return caller;
}

/** Dates of a listed session as they go on the wire. */
export const sessionOnWire = <S extends { readonly createdAt: Date; readonly lastUsedAt: Date; readonly expiresAt: Date }>(session: S) => ({
  ...session,
  createdAt: session.createdAt.toISOString(),
  lastUsedAt: session.lastUsedAt.toISOString(),
  expiresAt: session.expiresAt.toISOString(),
});
