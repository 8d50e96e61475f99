/** Shapes that several operations of teams share. */
import Type from 'typebox';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { teamRoles } from '../schemas.ts';
import type { InviteRow } from '../services/teams/invite-queries.ts';
import { memberOrders, teamOrders } from '../services/teams/list-queries.ts';

/** Ids are compared as text by the authorization module: one spelling only. */
export const canonicalId = (id: string): string => id.toLowerCase();

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const instant = Type.String({ format: 'date-time' });
const Id = Type.String({ format: 'uuid' });

export const Team = Type.Object(
  {
    _id: Id,
    name: Type.String(),
    parentTeam: Type.Union(
      [Id, Type.Object({ _id: Id }, { additionalProperties: true }), Type.Null()],
      {
        description: 'Its id, or the team itself where it was populated and may be read',
      },
    ),
    isDefault: Type.Boolean({ description: 'New users become members of it' }),
    createdAt: instant,
    updatedAt: instant,
  },
  {
    additionalProperties: true,
    description: 'A team, with the fields by which the schema Team was extended',
  },
);

export const Teams = Type.Object({ teams: Type.Array(Team), count: Type.Integer() });

export const Role = Type.Enum([...teamRoles], {
  description: 'From the least to the most: member, readAll, editAll, owner',
});

export const Member = Type.Object(
  {
    _id: Id,
    email: nullable(Type.String()),
    username: nullable(Type.String()),
    active: Type.Boolean(),
    isVerified: Type.Boolean(),
    isAnonymous: Type.Boolean(),
    createdAt: instant,
    updatedAt: instant,
    role: Role,
  },
  {
    additionalProperties: true,
    description: 'A user with the highest role that they have directly in the team',
  },
);

export const Members = Type.Object({ members: Type.Array(Member), count: Type.Integer() });

export const Invite = Type.Object({
  _id: Id,
  teamId: Type.String({ format: 'uuid', description: 'Id of the team' }),
  email: nullable(Type.String({ description: 'Null for a persistent invitation' })),
  role: Role,
  userData: nullable(Type.Record(Type.String(), Type.Unknown())),
  invitedBy: nullable(Type.String({ description: 'Id of the user; null for an operator' })),
  persistent: Type.Boolean(),
  createdAt: instant,
  expiresAt: nullable(instant),
});

export const TeamId = Type.Object({
  teamId: Type.String({ format: 'uuid', description: 'Id of the team' }),
});
export const TeamName = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'What people call it',
});
export const UserIds = Type.Array(Id, { minItems: 1, maxItems: 1000, description: 'Ids of users' });
export const InvitationToken = Type.String({
  minLength: 20,
  maxLength: 64,
  description: 'The token of an invitation, or the id that a list of invitations shows',
});
export const InviteData = Type.Record(Type.String(), Type.Unknown(), {
  description:
    'Fields by which the schema User was extended; a new user gets them with their account',
});

const sortBy = (names: readonly string[]) =>
  Type.Optional(
    Type.Array(Type.Enum(names.flatMap((name) => [name, `-${name}`])), {
      maxItems: names.length,
      description: 'What to order by; - in front: descending',
    }),
  );

export const paging = {
  ...pagingQuery(),
};
export const teamPage = {
  ...paging,
  search: Type.Optional(
    Type.String({ maxLength: 100, description: 'An id, or a part of the name' }),
  ),
  sort: sortBy(teamOrders),
};
export const memberPage = {
  ...paging,
  search: Type.Optional(
    Type.String({ maxLength: 254, description: 'An id, or a part of the e-mail address' }),
  ),
  sort: sortBy(memberOrders),
};
export const populate = {
  populate: Type.Optional(
    Type.Array(Type.Literal('parentTeam'), {
      maxItems: 1,
      description: 'Shows the parent team, where it may be read',
    }),
  ),
};

/** An invitation as it goes on the wire: no token, nothing that opens anything. */
export const inviteOnWire = ({
  id,
  teamId,
  email,
  role,
  userData,
  invitedBy,
  createdAt,
  expiresAt,
}: InviteRow) => ({
  _id: id,
  teamId,
  email,
  role,
  userData: userData === null ? null : { ...userData },
  invitedBy,
  persistent: email === null,
  createdAt: createdAt.toISOString(),
  expiresAt: expiresAt?.toISOString() ?? null,
});
