/** What can go wrong with embeddings and searches. */
import { defineErrors } from '../../kernel/errors.ts';

export const embeddingErrors = defineErrors({
  CONFIG_INVALID: [400, 'This configuration is not possible'],
  CONFIG_NOT_FOUND: [404, 'There is no such embedding configuration'],
  RUN_NOT_FOUND: [404, 'There is no such backfill'],
  SCHEMA_NOT_SEARCHABLE: [404, 'No search is configured for this schema'],
  SCHEMA_NOT_EXTENDABLE: [403, 'This schema is not open to embeddings'],
  RUN_ACTIVE: [409, 'A backfill of this configuration goes on already'],
  RUN_STATE_INVALID: [409, 'The backfill is in another state'],
  CONFIG_EXISTS: [409, 'This was changed by somebody else at the same moment: try again'],
  EMBEDDINGS_DISABLED: [412, 'Searching is switched off: see the configuration of embeddings'],
  CONFIG_DISABLED: [412, 'This embedding configuration is switched off'],
  VECTOR_SEARCH_UNAVAILABLE: [412, 'There are no vectors here: search with mode keyword'],
  INDEX_NOT_QUERYABLE: [
    412,
    'There are more vectors than this node may hold in memory: raise search.maxIndexMegabytes',
  ],
  DIMENSION_MISMATCH: [412, 'The provider answers vectors of another length than configured'],
  INDEX_PENDING: [503, 'This node still reads the vectors of this search: try again in a moment'],
  PROVIDER_UNAVAILABLE: [503, 'The provider of embeddings cannot be reached: try again later'],
  PROVIDER_BUDGET_EXCEEDED: [503, 'The token budget of the day is used up'],
  PROVIDER_TIMEOUT: [504, 'The provider of embeddings did not answer in time'],
});
