/** Sharing, as users do it with what they may share. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { authorizationErrors } from '../errors.ts';
import { formatSubject, parseObject, parseSubject } from '../model/grammar.ts';
import type { ListedShare, Sharing } from '../services/sharing.ts';
import {
  Instant,
  instantOf,
  Name,
  nameOf,
  questionErrors,
  Resource,
  Subject,
  userOf,
} from './shapes.ts';

export const sharingOperations = (sharing: Sharing): readonly Operation[] => [
  list(sharing),
  give(sharing),
  take(sharing),
];

const path = '/authorization/shares/:resource';
const facts = { surface: 'client', access: 'user', limit: standardLimit, path } as const;
const params = Type.Object({ resource: Resource });
const errors = [authorizationErrors.SHARING_REFUSED, ...questionErrors];

const Share = Type.Object({
  subject: Type.String({ description: '<Type>:<id>, or <Type>:<id>#<relation> for a group' }),
  relation: Type.String(),
  profile: Type.Optional(
    Type.Object(
      { _id: Type.String({ format: 'uuid' }) },
      {
        additionalProperties: true,
        description: 'What is public of the user, where the operator has marked fields',
      },
    ),
  ),
  createdAt: Instant,
  expiresAt: Type.Optional(Instant),
});

function shareOnWire({ subject, relation, profile, createdAt, expiresAt }: ListedShare): string {
  const share = JSON.stringify({
    subject: formatSubject(subject),
    relation,
    createdAt: createdAt.toISOString(),
    ...(expiresAt && { expiresAt: expiresAt.toISOString() }),
  });
  return profile === undefined ? share : `${share.slice(0, -1)},"profile":${profile}}`;
}

const list = (sharing: Sharing): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.shares.list',
    method: 'GET',
    input: {
      params,
      query: Type.Object({
        ...pagingQuery({ maxSkip: 1_000, maxLimit: 100 }),
      }),
    },
    output: Type.Object({
      shares: Type.Array(Share),
      count: Type.Integer(),
      relations: Type.Array(Type.String(), {
        description: 'The relations that you may give and take here',
      }),
    }),
    errors,
    summary: 'List with whom something is shared',
    description:
      'For those who may share it: the relations that its definition marks as shareable, by relation and subject.',
    async handler(context, { params: { resource }, query }) {
      const object = parseObject(resource, 'resource');
      const { shares, count, relations } = await sharing.list(userOf(context), object, query);
      const found = shares.map(shareOnWire).join();
      return Reply.json(
        `{"shares":[${found}],"count":${count},"relations":${JSON.stringify(relations)}}`,
      );
    },
  });

const give = (sharing: Sharing): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.shares.give',
    audit: true,
    auditChanges: ({ params: about, body }) => ({ ...Object(about), ...Object(body) }),
    method: 'POST',
    strict: true,
    limit: { requests: 120, seconds: 60 },
    input: {
      params,
      body: Type.Object({
        subject: Subject,
        relation: Name,
        expiresAt: Type.Optional(
          Type.String({ format: 'date-time', description: 'It is shared until then' }),
        ),
      }),
    },
    output: TextResult,
    errors: [...errors, authorizationErrors.SHARES_FULL],
    summary: 'Share something with somebody',
    description:
      'Needs `share` on it, and everything that the relation lets people do. With a user by their id, or with a group that you may read. Counts for the very next request; sharing it again is no error.',
    async handler(context, { params: { resource }, body }) {
      const share = {
        subject: parseSubject(body.subject, 'subject'),
        relation: nameOf(body.relation, 'relation'),
        ...(body.expiresAt !== undefined && { expiresAt: instantOf(body.expiresAt) }),
      };
      await sharing.give(userOf(context), parseObject(resource, 'resource'), share);
      return 'Shared';
    },
  });

const take = (sharing: Sharing): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.shares.take',
    audit: true,
    auditChanges: ({ params: about, query }) => ({ ...Object(about), ...Object(query) }),
    method: 'DELETE',
    strict: true,
    input: { params, query: Type.Object({ subject: Subject, relation: Name }) },
    output: TextResult,
    errors,
    summary: 'Share something no longer with somebody',
    description:
      'Needs what sharing it needs; what was shared with yourself you may always give up. Nothing happens where it was not shared.',
    async handler(context, { params: { resource }, query }) {
      await sharing.take(userOf(context), parseObject(resource, 'resource'), {
        subject: parseSubject(query.subject, 'subject'),
        relation: nameOf(query.relation, 'relation'),
      });
      return 'No longer shared';
    },
  });
