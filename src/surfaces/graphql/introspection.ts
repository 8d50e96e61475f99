/** Asking for the whole schema: some 20 fields for each of what may be thousands of types, in slices of time. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { __Schema, type GraphQLSchema } from 'graphql';

/** Types that are answered in one turn of the event loop: about 5 ms. */
const TYPES_PER_TURN = 25;

/**
 * From now on `__schema { types }` hands its types over a few in each turn. The executor goes on with an item of a list
 * when its promise resolves, and answers once all have. The field belongs to the library and is the same for all schemas.
 */
export function introspectInSlices(): void {
  const { types } = __Schema.getFields();
  if (types) types.resolve = (schema: GraphQLSchema) => inTurns(Object.values(schema.getTypeMap()));
}

/** The items, all but the first few as promises that resolve in later turns. */
function inTurns<T>(items: readonly T[]): readonly (T | Promise<T>)[] {
  let turn: Promise<void> | undefined;
  return items.map((item, index) => {
    if (index > 0 && index % TYPES_PER_TURN === 0)
      turn = turn ? turn.then(() => nextTurn()) : nextTurn();
    return turn ? turn.then(() => item) : item;
  });
}
