/**
 * Consistency tokens. Every answer is read from the one primary database, so any
 * token that a write of this platform gave is satisfied by every later question;
 * one that is not ours is refused, so that a mix-up shows.
 */
import { invalid } from '../../../kernel/errors.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import { Reply } from '../../../kernel/operations/reply.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { sameSecret } from '../../../kernel/security/tokens.ts';

export interface ConsistencyTokens {
  /** The token of a write that has just been done. */
  issue(): string;
  /** Throws 400 for a token that no write of this platform gave. */
  require(token: string | undefined): void;
}

const purpose = 'authorization.consistency';
const digestLength = 32;

export function createConsistencyTokens(secrets: SecretBox): ConsistencyTokens {
  const sign = (moment: string): string => secrets.digest(moment, purpose).slice(0, digestLength);
  return {
    issue() {
      const moment = Date.now().toString(36);
      return `${moment}.${sign(moment)}`;
    },
    require(token) {
      if (token === undefined || token === '') return;
      const [moment = '', digest = ''] = token.split('.', 2);
      if (!sameSecret(sign(moment), digest))
        throw invalid(
          'consistencyToken',
          'token',
          'is not a token that a write of this platform gave',
        );
    },
  };
}

/* Writes that answer a consistency token beside their body. */

/** The same operations, where whatever may change something answers the token of that change as a header. */
export const withTokens = (
  tokens: ConsistencyTokens,
  operations: readonly Operation[],
): readonly Operation[] =>
  operations.map((operation) =>
    operation.method === 'GET' ? operation : answering(tokens, operation),
  );

const answering = (tokens: ConsistencyTokens, operation: Operation): Operation => ({
  ...operation,
  async handler(...request) {
    const value = await operation.handler(...request);
    return value instanceof Reply
      ? value
      : Reply.value(value, { 'consistency-token': tokens.issue() });
  },
});
