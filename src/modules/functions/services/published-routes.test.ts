/** Functions that cannot be served leave the others alone (specification functions.md section 7, row 7). */
import { expect, it } from 'vitest';
import { newId } from '../../../kernel/ids.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { OperationRegistry } from '../../../kernel/operations/registry.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { createFunctionRoutes } from './published-routes.ts';
import type { RouteParts } from './routes.ts';

let served: readonly Operation[] = [];
const registry = {
  all: () => [],
  replace: (_owner: string, operations: readonly Operation[]) => {
    served = operations;
  },
} as unknown as OperationRegistry;

const stored = (name: string, inputs: unknown, enabled = true): StoredFunction =>
  ({
    ...{ _id: newId(), name, functionType: 'request', inputs, returns: null, timeout: 1_000 },
    enabled,
  }) as StoredFunction;

it('serves what can be served, and tells what is wrong with the rest until it is mended', () => {
  const routes = createFunctionRoutes({} as RouteParts, registry);
  const good = stored('good', { method: 'GET' });
  const off = stored('off', { method: 'GET' }, false);
  const bad = stored('bad', { method: 'GET', queryParams: { of: null } });
  routes.publish([bad, good, off]);
  expect(served.map(({ path }) => path)).toEqual(['/functions/good']);
  expect(routes.problemOf(bad._id)).toBeTruthy();
  expect(routes.problemOf(good._id)).toBeUndefined();
  const mended = { ...bad, inputs: { method: 'GET' as const } };
  const [before] = served;
  routes.publish([mended, good]);
  expect(served.map(({ path }) => path)).toEqual(['/functions/bad', '/functions/good']);
  expect(served[1]).toBe(before);
  expect(routes.problemOf(bad._id)).toBeUndefined();
});
