/** Writes that answer a consistency token beside their body. */
import type { Operation } from '../../../kernel/operation.ts';
import { Reply } from '../../../kernel/reply.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';

/** The same operations, where whatever may change something answers the token of that change as a header. */
export const withTokens = (tokens: ConsistencyTokens, operations: readonly Operation[]): readonly Operation[] =>
  operations.map((operation) => (operation.method === 'GET' ? operation : answering(tokens, operation)));

const answering = (tokens: ConsistencyTokens, operation: Operation): Operation => ({
  ...operation,
  async handler(...request) {
    const value = await operation.handler(...request);
    return value instanceof Reply ? value : Reply.value(value, { 'consistency-token': tokens.issue() });
  },
});
