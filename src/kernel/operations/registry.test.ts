import Type from 'typebox';
import { expect, it } from 'vitest';
import { turnsDuring } from '../../../test/support/turns.ts';
import { defineOperation } from './operation.ts';
import { createOperationRegistry } from './registry.ts';

const MANY = 30;

const operations = Array.from({ length: MANY }, (_, i) =>
  defineOperation({
    id: `test.route${i}`,
    surface: 'client',
    method: 'GET',
    path: `/test/route${i}`,
    access: 'public',
    limit: 'standard',
    input: {},
    output: Type.Object({}),
    summary: 'A route of this test',
    handler: () => ({}),
  }),
);

it('leaves others their turn while thousands of operations are prepared, and replaces them at once then', async () => {
  const registry = createOperationRegistry();
  let ruled = 0;
  registry.transform((operation) => {
    ruled += 1;
    return operation;
  });
  expect(await turnsDuring(() => registry.prepare('test', operations))).toBeGreaterThanOrEqual(
    MANY,
  );
  expect(ruled).toBe(MANY);
  expect(registry.all()).toEqual([]);
  registry.replace('test', operations);
  expect(ruled).toBe(MANY);
  expect(registry.all()).toHaveLength(MANY);
});
