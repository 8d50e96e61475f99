/** Searching, on the client surface and for operators. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import { MAX_CURSOR } from '../../../data/records/page/keyset.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { embeddingErrors } from '../errors.ts';
import type { Search, TimedResult } from '../services/search.ts';
import type { SearchInput } from '../services/search-request.ts';
import { adminFacts, Filter, SchemaName, similarities } from './shapes.ts';

export const searchOperations = (search: Search): readonly Operation[] => [
  clientSearch(search),
  adminSearch(search),
];

const MAX_HITS = 50;
const MAX_ADMIN_HITS = 1_000;
const Scope = Type.String({
  minLength: 3,
  maxLength: maxReferenceLength,
  description: 'Act on behalf of this object, as <Type>:<id>',
});

const paging = {
  cursor: Type.Optional(
    Type.String({
      maxLength: MAX_CURSOR,
      description:
        'nextCursor of the page before, with everything else as it was; the first 1,000 records have pages',
    }),
  ),
  groupBy: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'Of each value of this field the best record alone, among the best 1,000',
    }),
  ),
};

const Fallback = Type.Enum(['keyword'], {
  description: 'What to do when the model cannot be asked, or vectors are not read yet',
});
const MinScore = Type.Number({ minimum: 0, maximum: 1, description: 'Leave out what fits less' });

const asked = (max: number) => ({
  schemaName: SchemaName,
  text: Type.Optional(
    Type.String({ maxLength: 262_144, description: 'What to search for, in words' }),
  ),
  documentId: Type.Optional(
    Type.String({ maxLength: 256, description: 'In place of text: what is like this record' }),
  ),
  targetField: Type.Optional(
    Type.String({ maxLength: 64, description: 'Which configuration; the only one unless set' }),
  ),
  filter: Type.Optional(Filter),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: `Hits; 10 unless configured otherwise. More than ${max}: 400, or ${max} of them where search.clampLimit says so`,
    }),
  ),
  mode: Type.Optional(
    Type.Enum(['vector', 'keyword', 'hybrid'], {
      description: 'By meaning, by words, or by both; vector unless set',
    }),
  ),
  fallback: Type.Optional(Fallback),
  minScore: Type.Optional(MinScore),
  typos: Type.Optional(
    Type.Boolean({
      description:
        'Whether words that are written nearly so are found too, when there are too few hits; true unless set',
    }),
  ),
  highlight: Type.Optional(
    Type.Boolean({ description: 'Mark the words in the source fields of the first 50 hits' }),
  ),
  facets: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      maxItems: 5,
      description:
        'Fields whose values are counted: in mode keyword of the records with the words, else of all that fit the filter',
    }),
  ),
  ...paging,
  select: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 1,
      maxItems: 64,
      description: 'Fields; all unless given',
    }),
  ),
  populate: Type.Optional(
    Type.Array(Type.String({ maxLength: 200 }), {
      maxItems: 20,
      description: 'Relations to answer as records instead of ids',
    }),
  ),
});

const Hits = Type.Object({
  hits: Type.Array(
    Type.Object({
      document: Type.Record(Type.String(), Type.Unknown()),
      score: Type.Number({ description: '0 to 1, higher is better' }),
      distance: Type.Optional(Type.Number()),
      metric: Type.Optional(Type.Enum(similarities)),
      provider: Type.Optional(Type.String()),
      raw: Type.Optional(Type.Number({ description: 'The dot product itself' })),
      group: Type.Optional(Type.Unknown({ description: 'The value of the field of groupBy' })),
      highlights: Type.Optional(
        Type.Record(Type.String(), Type.String(), {
          description: 'By field: escaped HTML with <mark> around the words',
        }),
      ),
      matchedChunk: Type.Optional(
        Type.Object({ start: Type.Integer(), end: Type.Integer(), preview: Type.String() }),
      ),
    }),
  ),
  nextCursor: Type.Union([Type.String(), Type.Null()], {
    description: 'Where the next page begins; null: there is none',
  }),
  facets: Type.Optional(
    Type.Record(
      Type.String(),
      Type.Array(Type.Object({ value: Type.Unknown(), count: Type.Integer() })),
    ),
  ),
  degraded: Type.Optional(
    Type.Boolean({ description: 'Meaning could not be searched: these were found by words' }),
  ),
  incomplete: Type.Optional(
    Type.Boolean({ description: 'A backfill goes on: records may be missing' }),
  ),
  took: Type.Integer({ description: 'Milliseconds' }),
  usage: Type.Object(
    {
      cachedQuery: Type.Boolean({ description: 'The vector of the text was known' }),
      tokens: Type.Integer({ description: 'What the provider counted for the text' }),
    },
    { description: 'What was asked of the model' },
  ),
});

const searchErrors = [
  schemaErrors.SCHEMA_NOT_FOUND,
  errors.FORBIDDEN,
  embeddingErrors.SCHEMA_NOT_SEARCHABLE,
  embeddingErrors.EMBEDDINGS_DISABLED,
  embeddingErrors.CONFIG_DISABLED,
  embeddingErrors.VECTOR_SEARCH_UNAVAILABLE,
  embeddingErrors.INDEX_NOT_QUERYABLE,
  embeddingErrors.INDEX_PENDING,
  embeddingErrors.DIMENSION_MISMATCH,
  embeddingErrors.PROVIDER_UNAVAILABLE,
  embeddingErrors.PROVIDER_BUDGET_EXCEEDED,
  embeddingErrors.PROVIDER_TIMEOUT,
  recordErrors.RECORD_NOT_FOUND,
  recordErrors.RECORD_INVALID,
  recordErrors.POPULATE_FORBIDDEN,
  recordErrors.PERMISSIONS_UNAVAILABLE,
];

const shared = {
  heavy: true,
  readOnly: true,
  idempotency: false,
  method: 'POST',
  path: '/embeddings/search',
  output: Hits,
  errors: searchErrors,
  summary: 'Find records by what their texts mean, or by words',
} as const;

const clientSearch = (search: Search): Operation =>
  defineOperation({
    ...shared,
    id: 'embeddings.search',
    surface: 'client',
    access: 'user',
    // Each costs a call of the model.
    limit: { requests: 5, seconds: 1 },
    input: {
      query: Type.Object({ scope: Type.Optional(Scope) }),
      body: Type.Object(asked(MAX_HITS)),
    },
    description:
      'Only records that the caller may read are searched: who may read few gets the best of these.',
    handler: async ({ caller }, { query: { scope }, body }) =>
      answerOf(await search(caller, inputOf(body, scope, MAX_HITS))),
  });

const adminSearch = (search: Search): Operation =>
  defineOperation({
    ...shared,
    ...adminFacts,
    id: 'embeddings.admin.search',
    about: { schemaName: 'schema' },
    input: {
      body: Type.Object({
        ...asked(MAX_ADMIN_HITS),
        userId: Type.Optional(
          Type.String({
            format: 'uuid',
            description: 'Search as this user; as operator unless set',
          }),
        ),
        scope: Type.Optional(Scope),
        adminOperator: Type.Optional(
          Type.Boolean({ description: 'Search as operator although a user is named' }),
        ),
      }),
    },
    handler: async ({ caller }, { body: { userId, scope, adminOperator = false, ...body } }) => {
      const isUser = userId !== undefined && !adminOperator;
      const asker = isUser ? userCaller(userId) : caller;
      const input = { ...inputOf(body, scope, MAX_ADMIN_HITS), operator: caller };
      return answerOf(await search(asker, input));
    },
  });

/** Somebody who is looked at, and has not signed in. */
const userCaller = (userId: string): Caller => ({
  kind: 'user',
  userId,
  sessionId: '',
  authenticatedAt: 0,
  complete: true,
  clientId: 'anonymous-client',
});

const inputOf = (body: object, scope: string | undefined, maxHits: number): SearchInput =>
  ({ ...body, maxHits, ...(scope !== undefined && { scope }) }) as SearchInput;

const answerOf = ({ hits, nextCursor, facets, took, usage, ...told }: TimedResult) => ({
  hits: hits.map(({ id: _, ...hit }) => hit),
  nextCursor,
  ...(facets && {
    facets: Object.fromEntries(Object.entries(facets).map(([name, own]) => [name, [...own]])),
  }),
  ...(told.degraded && { degraded: true }),
  ...(told.incomplete && { incomplete: true }),
  took,
  usage: { ...usage },
});
