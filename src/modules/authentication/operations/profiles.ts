/** Public profiles of users. The routes are there while the operator has marked fields. */
import Type from 'typebox';
import type { PublicView } from '../../../data/schema/public-view.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authErrors } from '../errors.ts';
import type { Profiles } from '../services/accounts/profiles.ts';
import { UserId } from './shapes.ts';

/** Profiles of one request, as many as a page of records has authors. */
const MAX_IDS = 100;

/** `User` is the shape of a user as the schema says it now. */
export function profileOperations(
  profiles: Profiles,
  User: Type.TObject,
  view: PublicView | undefined,
): readonly Operation[] {
  if (!view) return [];
  const Profile = profileShape(User, view);
  const facts = {
    surface: 'client',
    access: view.visitors ? 'optionalUser' : 'user',
    limit: standardLimit,
    method: 'GET',
  } as const;
  return [
    defineOperation({
      ...facts,
      id: 'authentication.profiles.get',
      path: '/authentication/users/:id/profile',
      input: { params: UserId },
      output: Profile,
      errors: [authErrors.USER_NOT_FOUND],
      summary: 'Read the public profile of a user',
      description:
        'The fields that the operator has marked (`profiles.fields`), and the id. References to users can be populated with the same.',
      handler: async ({ caller }, { params }) => Reply.json(await profiles.get(caller, params.id)),
    }),
    defineOperation({
      ...facts,
      id: 'authentication.profiles.list',
      path: '/authentication/profiles',
      input: {
        query: Type.Object({
          ids: Type.Array(Type.String({ format: 'uuid' }), {
            minItems: 1,
            maxItems: MAX_IDS,
            description: 'Ids of users',
          }),
        }),
      },
      output: Type.Object({ documents: Type.Array(Profile), count: Type.Integer() }),
      summary: 'Read the public profiles of several users',
      description:
        'In the order of the ids, each once. Users who do not exist are left out: there is no list of all users.',
      handler: async ({ caller }, { query }) => Reply.json(await profiles.list(caller, query.ids)),
    }),
  ];
}

/** Marked as what relations to users show, for protocols with types. */
function profileShape({ properties }: Type.TObject, { fields }: PublicView): Type.TObject {
  const visible = Object.entries(properties).filter(([name]) => fields.has(name));
  return Type.Object(
    { _id: Type.String({ format: 'uuid' }), ...Object.fromEntries(visible) },
    // No schema has such a name.
    { record: 'User.Profile', partOf: 'User' },
  );
}
