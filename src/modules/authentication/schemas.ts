/** The data that authentication owns, in the schema language. */
import type { SchemaDefinition } from '../../data/schema/language/definition.ts';

/**
 * The roles of a team, from the least to the most. Each can what those before it can, so they are a
 * ladder: nobody gives, takes or changes a role above their own.
 */
export const teamRoles = ['member', 'readAll', 'editAll', 'owner'] as const;
export type TeamRole = (typeof teamRoles)[number];

/** Whether the holder of one role may give and take the other. */
export const covers = (own: TeamRole | undefined, other: TeamRole): boolean =>
  own !== undefined && teamRoles.indexOf(other) <= teamRoles.indexOf(own);

/**
 * The user. `email`, `username` and `phoneNumber` are stored in their canonical form only, so that
 * the unique index decides (it lets absent values be; a field marked unique would have to be required). Other modules and admins may add fields;
 * those are what `userData` may set.
 */
export const userSchema = {
  name: 'User',
  fields: {
    email: { type: 'String', description: 'Canonical: lower case, domain in ASCII.' },
    username: 'String',
    phoneNumber: 'String',
    hashedPassword: { type: 'String', select: false },
    active: {
      type: 'Boolean',
      required: true,
      default: true,
      description: 'False while an operator has blocked the user.',
    },
    isVerified: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether the user has proven to own the address.',
    },
    hasTwoFA: { type: 'Boolean', required: true, default: false },
    twoFaMethod: { type: 'String', enum: ['authenticator', 'sms', 'passkey'] },
    requiresTwoFA: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether an operator wants a second factor of this user.',
    },
    isAnonymous: { type: 'Boolean', required: true, default: false },
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      { fields: ['email'], options: { unique: true } },
      { fields: ['username'], options: { unique: true } },
      { fields: ['phoneNumber'], options: { unique: true } },
    ],
    conduit: {
      cms: { enabled: false },
      permissions: {
        extendable: true,
        canCreate: false,
        canModify: 'ExtensionOnly',
        canDelete: false,
      },
    },
  },
} as const satisfies SchemaDefinition;

/**
 * Fields that only this module may write: all of `userSchema`. Everything else in the compiled schema extends the user,
 * and users set it by `userData` where its `access` lets them. A field of `userSchema` that users change needs an operation.
 */
export const builtInFields: ReadonlySet<string> = new Set([
  ...Object.keys(userSchema.fields),
  '_id',
  'createdAt',
  'updatedAt',
  '__v',
]);

/**
 * A team. Who belongs to it, and which team is above it, is said by relations of the authorization module;
 * `parentTeam` says the latter once more, for lists and for the unique name.
 */
export const teamSchema = {
  name: 'Team',
  fields: {
    name: { type: 'String', required: true, validate: { minLength: 1, maxLength: 100 } },
    parentTeam: { type: 'Relation', model: 'Team', onDelete: 'setNull' },
    isDefault: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether new users become members of it; one team at most.',
    },
    madeBy: {
      type: 'String',
      select: false,
      description:
        'Id of the user who made it on the client surface, also after that user is gone. Empty: an operator did, so it is state.',
    },
  },
  modelOptions: {
    timestamps: true,
    conduit: {
      cms: { enabled: false },
      permissions: {
        extendable: true,
        canCreate: false,
        canModify: 'ExtensionOnly',
        canDelete: false,
      },
    },
  },
} as const satisfies SchemaDefinition;
