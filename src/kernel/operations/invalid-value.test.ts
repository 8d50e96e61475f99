import { expect, it } from 'vitest';
import { invalidValueProblem, MAX_DEPTH } from './invalid-value.ts';

const nested = (levels: number): unknown => (levels === 0 ? 'end' : [nested(levels - 1)]);

it.each([
  ['a text with NUL', { a: [1, 'b\0'] }, 'a.1', 'text'],
  ['half a surrogate pair', { a: { b: '\ud800' } }, 'a.b', 'text'],
  ['a name with NUL', { a: { 'b\0': 1 } }, 'a', 'text'],
  ['a prototype', { a: JSON.parse('{"__proto__": 1}') }, 'a.__proto__', 'name'],
  ['a prototype of a constructor', { constructor: { prototype: {} } }, 'constructor', 'name'],
  ['what is nested too deep', { a: nested(MAX_DEPTH) }, 'a', 'depth'],
] as const)('finds %s and says where it is', (_, value, path, rule) => {
  expect(invalidValueProblem(value, '')).toMatchObject({ path, rule });
});

it.each([
  [{ a: [1, 'b', null, true, { c: 'é\u{1f600}' }] }],
  [{ constructor: 'a maker of things' }],
  [nested(MAX_DEPTH - 1)],
  [new Uint8Array([0, 1])],
  [undefined],
])('lets sound values through: %j', (value) => {
  expect(invalidValueProblem(value, '')).toBeUndefined();
});
