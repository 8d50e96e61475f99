/** The search box of a panel: one search through everything that an operator may see. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { kindsOfThings, type SearchEverything } from '../services/everything.ts';
import { adminFacts } from './shapes.ts';

export const everythingOperations = (search: SearchEverything): readonly Operation[] => [
  everything(search),
];

const Kind = Type.Enum([...kindsOfThings]);
const MAX_TEXT = 500;

const everything = (search: SearchEverything): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.everything',
    heavy: true,
    method: 'GET',
    path: '/search',
    input: {
      query: Type.Object({
        text: Type.String({
          minLength: 1,
          maxLength: MAX_TEXT,
          description:
            'What to search for; the last word may be a beginning. An id finds its user or file',
        }),
        kinds: Type.Optional(
          Type.Array(Kind, {
            minItems: 1,
            maxItems: kindsOfThings.length,
            description: 'All unless set',
          }),
        ),
        limit: Type.Integer({ default: 5, minimum: 1, maximum: 20, description: 'Of each kind' }),
        mode: Type.Optional(
          Type.Enum(['keyword', 'hybrid'], {
            description: 'How records are found: by words unless set, or by meaning too',
          }),
        ),
      }),
    },
    output: Type.Object({
      results: Type.Array(
        Type.Object({
          kind: Kind,
          id: Type.String(),
          title: Type.String(),
          description: Type.Optional(Type.String()),
          path: Type.String({ description: 'Of the admin surface, where it is answered' }),
          score: Type.Number({ description: '0 to 1, to be compared within a kind' }),
        }),
        { description: 'By kind, the best of each first' },
      ),
      incomplete: Type.Array(Kind, {
        description: 'Kinds that could not be searched now; the others are as they should be',
      }),
      took: Type.Integer({ description: 'Milliseconds' }),
    }),
    summary: 'Search everything: records, users, files, schemas, settings and operations',
    description:
      'Records of the schemas that have an embedding configuration. What the credential may not see is not searched.',
    async handler({ caller }, { query: { text, kinds, limit, mode = 'keyword' } }) {
      const started = performance.now();
      const { results, incomplete } = await search(caller, { text, kinds, limit, mode });
      return {
        results: results.map((one) => ({ ...one })),
        incomplete: [...incomplete],
        took: Math.round(performance.now() - started),
      };
    },
  });
