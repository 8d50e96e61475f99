/** Functions with declared input as operations of operators, and so as tools of agents: one each, with names and types. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { outputShape, placeShape } from '../definition/inputs.ts';
import { objectOf, replyOf, runErrors, runFor } from '../services/routes.ts';
import type { FunctionRunner } from '../services/runner.ts';
import { adminFacts } from './shapes.ts';

const places = ['bodyParams', 'queryParams', 'urlParams'] as const;

const isTool = ({ functionType, enabled, inputs }: StoredFunction): boolean =>
  functionType === 'request' &&
  enabled &&
  places.some((place) => Object.keys(inputs[place] ?? {}).length > 0);

/** The operations stay the same objects while their function does. */
const made = new WeakMap<FunctionRunner, WeakMap<StoredFunction, Operation>>();

/** `note` hears of a function of which no tool can be made; the others are there. */
export function functionTools(
  runner: FunctionRunner,
  all: readonly StoredFunction[],
  note: (one: StoredFunction, error: unknown) => void,
): readonly Operation[] {
  const known = made.get(runner) ?? new WeakMap<StoredFunction, Operation>();
  made.set(runner, known);
  return all.filter(isTool).flatMap((one) => {
    try {
      const tool = known.get(one) ?? toolOf(runner, one);
      known.set(one, tool);
      return [tool];
    } catch (error) {
      note(one, error);
      return [];
    }
  });
}

/** All parameters are one object: where each stands in a request does not matter to whoever calls by name. */
function toolOf(runner: FunctionRunner, one: StoredFunction): Operation {
  const { name, inputs, returns } = one;
  const properties = Object.assign(
    {},
    ...places.map((place) => placeShape(inputs, place, 'bodyParams')?.properties),
  );
  return defineOperation({
    ...adminFacts,
    id: `functions.call.${name}`,
    method: 'POST',
    path: `/functions/call/${name}`,
    deadlineMs: Math.min(one.timeout + 1_000, 3_600_000),
    input: { body: Type.Object(properties) },
    // Whatever its inputs are called, they are about nothing of the platform: a run asks for each of its own calls.
    about: Object.fromEntries(Object.keys(properties).map((key) => [key, 'open' as const])),
    output: outputShape(returns),
    errors: runErrors,
    summary: `Call the function ${name}`,
    description:
      'With the rights of the operator who asks, like a test run; the answer is that of the route.',
    handler: (context, { body }) => {
      const given = objectOf(body);
      const [bodyParams, queryParams, urlParams] = places.map((place) =>
        Object.fromEntries(
          Object.keys(inputs[place] ?? {}).flatMap((key) =>
            Object.hasOwn(given, key) ? [[key, given[key]]] : [],
          ),
        ),
      );
      const req = {
        ...{ params: given, bodyParams, queryParams, urlParams },
        ...{ path: `/functions/${name}`, headers: {}, cookies: {}, context: {} },
      };
      return runFor(runner, one, context, { req, read: (result) => replyOf(one, result) });
    },
  });
}
