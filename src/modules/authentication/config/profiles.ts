/** Configuration of public profiles: what users may know of each other. */
import Type, { type Static } from 'typebox';
import { builtInFields } from '../schemas.ts';

export const profilesConfig = Type.Object({
  fields: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
    default: [],
    maxItems: 50,
    description:
      'Fields of `User` that everybody with an account may read of everybody else: where a record refers to a user, among the members of a team, and at /authentication/users/:id/profile. Empty: none, and no profiles.',
  }),
  visitors: Type.Boolean({
    default: false,
    description:
      'Whether callers without an account see profiles too, for pages that everybody may read.',
  }),
  hideBlocked: Type.Boolean({
    default: false,
    description:
      'Whether the profile of a blocked user is gone for as long as they are blocked. Off: what they wrote keeps their name.',
  }),
});

export type ProfilesConfig = Static<typeof profilesConfig>;

/** Of the fields that every user has, those that can be anybody else's business. */
const markable: ReadonlySet<string> = new Set(['username', 'email', 'phoneNumber', 'isAnonymous']);

/** Rules across keys, with dotted paths. */
export const profilesProblems = ({
  fields,
}: ProfilesConfig): { path: string; rule: string; message: string }[] =>
  fields.flatMap((name, at) =>
    builtInFields.has(name) && !markable.has(name)
      ? [
          {
            path: `profiles.fields.${at}`,
            rule: 'access',
            message: `"${name}" is never part of a profile: mark a field that extends User, or one of ${[...markable].join(', ')}`,
          },
        ]
      : [],
  );
