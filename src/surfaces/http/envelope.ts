/** Requests that hold calls of other operations (GraphQL, MCP): their handler takes the exchange whole. */
import type { Answer } from '../../kernel/operations/answer.ts';
import type { Exchange } from './exchange.ts';
import type { Match } from './route-table.ts';

export type EnvelopeHandler = (exchange: Exchange, match: Match) => Promise<Answer>;

/** A handler whose code is read when it is first needed: what it builds on takes time and memory. */
export function loadedLater(load: () => Promise<EnvelopeHandler>): EnvelopeHandler {
  let handler: EnvelopeHandler | undefined;
  let loading: Promise<EnvelopeHandler> | undefined;
  return async (exchange, match) => {
    if (!handler) {
      loading ??= load();
      handler = await loading;
    }
    return handler(exchange, match);
  };
}
