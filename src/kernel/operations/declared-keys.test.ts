import { expect, it } from 'vitest';
import { unknownKeys } from './declared-keys.ts';
import type { JsonSchema } from './json-schema.ts';

it('reads a schema once, however many values it is asked about', () => {
  let looks = 0;
  const schema: JsonSchema = {
    type: 'object',
    get properties() {
      looks += 1;
      return { name: { type: 'string' } } as const;
    },
  };
  const [problem] = unknownKeys(schema, { name: 'a', nmae: 'b' }, 'roles.0');
  expect(problem).toMatchObject({ path: 'roles.0.nmae', rule: 'unknown' });
  const once = looks;
  for (let i = 0; i < 100; i += 1) expect(unknownKeys(schema, { name: 'a' }, '')).toEqual([]);
  expect(looks).toBe(once);
});
